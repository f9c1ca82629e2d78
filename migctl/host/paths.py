"""Where migctl keeps things: the caller's state, and the machine-wide folder for locks and claims."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from migctl.errors import HostError
from migctl.host.caller import Caller


@dataclass(frozen=True, slots=True)
class Paths:
    """All absolute; computing them creates nothing."""

    state: Path
    """Store, logs and run folders: the caller's alone."""
    run: Path
    """Locks and claims of everybody on this machine."""
    sim_state: Path
    """The simulated GPUs' state."""


def paths(environ: Mapping[str, str], caller: Caller) -> Paths:
    """MIGCTL_STATE_DIR, MIGCTL_RUN_DIR and MIGCTL_SIM_STATE, or their defaults."""
    state = _absolute(environ.get("MIGCTL_STATE_DIR")) or _default_state(environ, caller)
    run = _absolute(environ.get("MIGCTL_RUN_DIR")) or _default_run()
    return Paths(state, run, _absolute(environ.get("MIGCTL_SIM_STATE")) or state / "simulator.json")


def _absolute(text: str | None) -> Path | None:
    return Path(text).absolute() if text else None


def _default_state(environ: Mapping[str, str], caller: Caller) -> Path:
    if caller.uid == 0:
        return Path("/var/lib/migctl")
    base = _absolute(environ.get("XDG_STATE_HOME")) if not caller.sudo else None
    return (base or caller.home / ".local" / "state") / "migctl"


def _default_run() -> Path:
    """/run/migctl; where only root could make it and has not, everybody's sticky /tmp: one place for all users in either case."""
    system = Path("/run/migctl")
    if system.is_dir() or os.access("/run", os.W_OK):
        return system
    return Path("/tmp/migctl-run")


def make_private(folder: Path, caller: Caller) -> None:
    """Make a folder that is the caller's alone (0700), with its parents.

    Raises:
        HostError: a link or somebody else's folder is in its place, or it cannot be made.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists() and not path.is_symlink()]
    try:
        for path in reversed(missing):
            path.mkdir(mode=0o700, exist_ok=True)
            if caller.sudo:
                os.chown(path, caller.uid, caller.gid, follow_symlinks=False)
        found = folder.lstat()
    except OSError as error:
        raise HostError(
            "state-dir-unusable",
            f"{folder} cannot be made: {error.strerror}",
            where=str(folder),
            hint="--state-dir DIR, or MIGCTL_STATE_DIR",
        ) from error
    if not stat.S_ISDIR(found.st_mode):
        raise HostError(
            "state-dir-unusable",
            f"{folder} is no folder (a link is not followed)",
            where=str(folder),
            hint="--state-dir DIR",
        )
    if found.st_uid not in {caller.uid, os.geteuid()}:
        raise HostError(
            "state-dir-not-yours", f"{folder} belongs to uid {found.st_uid}", where=str(folder), hint="--state-dir DIR"
        )


def make_shared(folder: Path) -> None:
    """Make the machine-wide folder: sticky and writable for all, like /tmp.

    Raises:
        HostError: a link is in its place, it cannot be made, or it lacks the sticky bit.
    """
    try:
        folder.mkdir(mode=0o1777, parents=True)
        folder.chmod(0o1777)  # mkdir's mode is cut by the umask
    except FileExistsError:
        pass
    except OSError as error:
        raise _no_shared(folder, f"cannot be made: {error.strerror}") from error
    try:
        found = folder.lstat()
    except OSError as error:
        raise _no_shared(folder, f"cannot be read: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise _no_shared(folder, "is no folder (a link is not followed)")
    if found.st_uid not in {0, os.geteuid()} and not found.st_mode & stat.S_ISVTX:
        raise _no_shared(folder, f"belongs to uid {found.st_uid} and is not sticky: others could replace files in it")


def _no_shared(folder: Path, why: str) -> HostError:
    return HostError(
        "run-dir-unusable",
        f"{folder} {why}",
        where=str(folder),
        hint="sudo install -d -m 1777 /run/migctl, or MIGCTL_RUN_DIR",
    )
