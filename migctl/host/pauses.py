"""Which services were stopped for a moment, on disk before the first is touched, so that a killed migctl leaves none stopped."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from migctl.core.others.services import monitoring_units
from migctl.errors import HostError
from migctl.host.paths import make_shared

_MOST_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Services that were running and are to run again. A reboot starts them by itself, so it counts for one boot."""

    boot_id: str
    gpu: str
    """What it was for, in words."""
    since: float
    """Unix seconds."""
    units: tuple[str, ...]
    """In the order of stopping; all were running when this was written."""
    stopped: tuple[str, ...] = ()
    """Those known to have stopped; the others may have, too."""

    def now_stopped(self, unit: str) -> Pause:
        """This, with one more known to have stopped."""
        return replace(self, stopped=(*self.stopped, unit))

    def started(self, unit: str) -> Pause:
        """This, without one that runs again."""
        return replace(
            self, units=tuple(u for u in self.units if u != unit), stopped=tuple(u for u in self.stopped if u != unit)
        )


def read_pause(run_dir: Path, boot_id: str) -> Pause | None:
    """The open pause of this boot; reads only.

    Anybody may write into the folder, so only root's file or one's own is believed, and it can name monitoring services only.
    """
    try:
        descriptor = os.open(_path(run_dir, boot_id), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        there = os.fstat(descriptor)
        if not stat.S_ISREG(there.st_mode) or there.st_uid not in (0, os.geteuid()) or there.st_size > _MOST_BYTES:
            return None
        if os.geteuid() == 0 and there.st_uid != 0:
            return None
        pause = _decoded(os.read(descriptor, _MOST_BYTES))
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return pause if pause is not None and pause.boot_id == boot_id and pause.units else None


def write_pause(run_dir: Path, pause: Pause) -> None:
    """Replace the file and flush it to the disk; a pause of no services is removed.

    Raises:
        HostError: it cannot be written; then no service may be touched.
    """
    path = _path(run_dir, pause.boot_id)
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        if not pause.units:
            path.unlink(missing_ok=True)
            return
        make_shared(run_dir)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with os.fdopen(descriptor, "wb") as file:
            file.write(json.dumps(_encoded(pause)).encode())
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise HostError(
            "pause-unwritable",
            f"{path} cannot be written: {error.strerror}; no service was stopped, since a crash could leave it stopped",
            where=str(path),
            hint="make room there, or set MIGCTL_RUN_DIR",
        ) from error


def _path(run_dir: Path, boot_id: str) -> Path:
    """One a boot: a simulated machine has boots of its own, and must not write over the real one's."""
    return run_dir / f"stopped-services-{boot_id[:36]}.json"


def _encoded(pause: Pause) -> dict[str, object]:
    return {
        "version": 1,
        "boot_id": pause.boot_id,
        "gpu": pause.gpu,
        "since": pause.since,
        "units": list(pause.units),
        "stopped": list(pause.stopped),
    }


def _decoded(data: bytes) -> Pause | None:
    try:
        value = json.loads(data)
        boot_id, gpu, since = value["boot_id"], value["gpu"], value["since"]
        units, stopped = _known(value["units"]), _known(value["stopped"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if type(boot_id) is not str or type(gpu) is not str or not isinstance(since, int | float):
        return None
    return Pause(boot_id=boot_id, gpu=gpu, since=float(since), units=units, stopped=stopped)


def _known(units: Sequence[object]) -> tuple[str, ...]:
    return tuple(unit for unit in monitoring_units() if unit in units)
