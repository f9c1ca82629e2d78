"""What every run of every user holds of this machine, told to all others through one small file a run."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from migctl.core.cpuset import CpuSet
from migctl.core.mig import MemorySlices, Placement
from migctl.errors import Busy, HostError
from migctl.host.caller import Caller
from migctl.host.paths import make_shared

_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """CPUs and placements that one run holds."""

    uid: int
    user: str
    run: str
    cpus: CpuSet
    gpus: Mapping[str, tuple[Placement, ...]]
    """By GPU UUID; the whole GPU under `shared` has no placement."""
    boot_id: str


def read_claims(run_dir: Path, boot_id: str) -> tuple[Claim, ...]:
    """All claims of this boot. A file that is not its user's own, or not understood, is none: it could be forged."""
    try:
        names = sorted(os.listdir(run_dir))  # noqa: PTH208 -- names, not paths, are what is checked
    except OSError:
        return ()
    claims = (_read(run_dir / name) for name in names if name.endswith(".claim"))
    return tuple(claim for claim in claims if claim is not None and claim.boot_id == boot_id)


def write_claim(run_dir: Path, claim: Claim) -> None:
    """Tell the others; replaces this run's earlier claim in one step.

    Raises:
        Busy: the disk is full.
        HostError: the file cannot be written.
    """
    make_shared(run_dir)
    value = {
        "uid": claim.uid,
        "user": claim.user,
        "run": claim.run,
        "cpus": str(claim.cpus),
        "gpus": {uuid: [[p.start, p.size] for p in places] for uuid, places in claim.gpus.items()},
        "boot_id": claim.boot_id,
    }
    path = _path(run_dir, claim.uid, claim.run)
    fresh = path.with_suffix(f".{os.getpid()}.new")
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            json.dump(value, file)
            os.fchmod(file.fileno(), 0o644)
            if os.geteuid() == 0 and claim.uid != 0:
                os.fchown(file.fileno(), claim.uid, -1)
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        kind = Busy if error.errno in {28, 122} else HostError  # ENOSPC, EDQUOT
        raise kind(
            "claim-unwritable", f"{path} cannot be written: {error.strerror}", where=str(path), hint="MIGCTL_RUN_DIR"
        ) from error


def drop_claim(run_dir: Path, caller: Caller, run: str) -> None:
    """Hold nothing any more."""
    try:
        _path(run_dir, caller.uid, run).unlink(missing_ok=True)
    except OSError:
        # Not ours to remove: then it was not ours to believe either (see read_claims).
        pass


def _path(run_dir: Path, uid: int, run: str) -> Path:
    return run_dir / f"{uid}-{run}.claim"


def _read(path: Path) -> Claim | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
            return None
        try:
            value = json.loads(file.read(_MOST_BYTES))
            claim = Claim(
                uid=int(value["uid"]),
                user=str(value["user"])[:64],
                run=str(value["run"])[:64],
                cpus=CpuSet.parse(value["cpus"]),
                gpus={
                    str(uuid): tuple(Placement(int(start), MemorySlices(int(size))) for start, size in places)
                    for uuid, places in value["gpus"].items()
                },
                boot_id=str(value["boot_id"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
    named = path.name == f"{claim.uid}-{claim.run}.claim"
    return claim if named and found.st_uid == claim.uid else None
