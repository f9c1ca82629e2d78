"""`storage: auto`: where a job's data are, and what is said of the device behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from migctl.core.choices import Storage
from migctl.core.plan import Job
from migctl.errors import Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class DataDevice:
    """What lies behind a folder."""

    path: str
    kind: Storage | None
    """nvme, ssd or hdd; `None` = not known, and not guessed."""
    what: str
    """The device (`nvme0n1`, `dm-0 on sda`), or why the kind is not known."""


NOT_HERE = "it is not this machine that is planned for"


def data_paths(job: Job, folder: str) -> tuple[str, ...]:
    """Host folders that hold the job's data: what is mounted read-only, else all that is mounted, else where it works.

    Args:
        job: of a plan; without mounts under the process runtime.
        folder: the plan's.
    """
    binds = [volume for volume in job.volumes if volume.kind == "bind" and volume.source is not None]
    chosen = [volume for volume in binds if volume.read_only] or binds
    if chosen:
        return tuple(volume.source for volume in chosen if volume.source is not None)
    return (job.working_dir or folder,) if job.image is None else ()


def together(devices: Sequence[DataDevice]) -> DataDevice:
    """One answer for all of a job's folders: what they have in common, else nothing."""
    if not devices:
        return DataDevice(path="", kind=None, what="the job mounts no folder: its data are in the image or in memory")
    unknown = [device for device in devices if device.kind is None]
    if unknown:
        return unknown[0]
    kinds = dict.fromkeys(device.kind.value for device in devices if device.kind is not None)
    if len(kinds) > 1:
        paths = ", ".join(device.path for device in devices)
        return DataDevice(path=paths, kind=None, what=f"they are on {' and '.join(kinds)}")
    return devices[0]


def effective(job: Job, found: Mapping[str, DataDevice]) -> Storage | None:
    """The storage that counts: as the plan says, or as found for `auto`."""
    if job.storage is not Storage.AUTO:
        return job.storage
    device = found.get(job.name)
    return device.kind if device is not None else None


def storage_notices(jobs: Sequence[Job], found: Mapping[str, DataDevice]) -> tuple[Notice, ...]:
    """Where `auto` changes nothing because the device is not known, a line for each reason."""
    reasons: dict[str, list[Job]] = {}
    for job in jobs:
        if job.storage is not Storage.AUTO:
            continue
        device = found.get(job.name)
        if device is None:
            reasons.setdefault(NOT_HERE, []).append(job)
        elif device.kind is None:
            reasons.setdefault(f"{device.path}: {device.what}" if device.path else device.what, []).append(job)
    return tuple(
        Notice(
            "storage-unknown",
            f"storage: auto changes nothing for {_names(some)}, as the device behind the data is not known ({why})",
            hint="write storage: nvme, ssd or hdd",
            where=some[0].place("storage"),
        )
        for why, some in reasons.items()
    )


def _names(jobs: Sequence[Job]) -> str:
    names = [job.name for job in jobs]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
