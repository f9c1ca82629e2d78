"""Where migctl keeps things: the caller's state, and the machine-wide folder for locks and claims."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from migctl.errors import HostError
from migctl.host.caller import Caller

SYSTEM_RUN = Path("/run/migctl")
COMMON_RUN = Path("/tmp/migctl-run")
_STICKY_FOR_ALL = 0o1777


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
    run = _absolute(environ.get("MIGCTL_RUN_DIR")) or default_run()
    return Paths(state, run, _absolute(environ.get("MIGCTL_SIM_STATE")) or state / "simulator.json")


def default_run(system: Path = SYSTEM_RUN, common: Path = COMMON_RUN) -> Path:
    """The one folder that all users of this machine share, whoever came first.

    Where only root could make /run/migctl and has not, everybody uses /tmp; and once somebody does, root does so too, else the two
    would not see each other's locks.
    """
    if system.is_dir() or (not common.is_dir() and os.access(system.parent, os.W_OK | os.X_OK)):
        return system
    return common


def make_private(folder: Path, caller: Caller) -> None:
    """Make a folder that is the caller's alone (0700), with its parents, which under sudo are the caller's too.

    Raises:
        HostError: a link or somebody else's folder is in its place, or it cannot be made.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists() and not path.is_symlink()]
    try:
        for path in reversed(missing):
            path.mkdir(mode=0o700, exist_ok=True)
            if caller.sudo:
                os.chown(path, caller.uid, caller.gid, follow_symlinks=False)
    except OSError as error:
        raise no_private(folder, f"cannot be made: {error.strerror}") from error
    check_private(folder, caller)


def private(path: str, flags: int) -> int:
    """Opens a file of the state directory, for `open`: made for its owner alone, and never through a link."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def check_private(folder: Path, caller: Caller) -> None:
    """The folder is there and the caller's.

    Raises:
        HostError: a link or somebody else's folder is in its place.
    """
    try:
        found = folder.lstat()
    except OSError as error:
        raise no_private(folder, f"cannot be used: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise no_private(folder, "is no folder (a link is not followed)")
    if found.st_uid not in {caller.uid, os.geteuid()}:
        raise HostError(
            "state-dir-not-yours",
            f"{folder} belongs to uid {found.st_uid}, not to {caller.name} (uid {caller.uid})",
            where=str(folder),
            hint="--state-dir DIR, or MIGCTL_STATE_DIR",
        )


def make_shared(folder: Path) -> None:
    """Make the machine-wide folder: sticky and writable for all, like /tmp.

    Raises:
        HostError: a link is in its place, it cannot be made, or others could replace files in it.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
        folder.chmod(_STICKY_FOR_ALL)  # mkdir's mode is cut by the umask
    except FileExistsError:
        pass
    except OSError as error:
        raise no_shared(folder, f"cannot be made: {error.strerror}") from error
    check_shared(folder, changing=True)


def check_shared(folder: Path, *, changing: bool) -> None:
    """The folder is there and safe for everybody; `changing`: root takes it over from whoever came first.

    Raises:
        HostError: a link is in its place, or others could replace files in it.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        link = stat.S_ISLNK(folder.lstat().st_mode) if folder.is_symlink() else False
        why = "is a link, which is not followed" if link else f"cannot be used: {error.strerror}"
        raise no_shared(folder, why) from error
    try:
        _check_open_shared(folder, descriptor, changing=changing)
    except OSError as error:
        raise no_shared(folder, f"cannot be used: {error.strerror}") from error
    finally:
        os.close(descriptor)


def _check_open_shared(folder: Path, descriptor: int, *, changing: bool) -> None:
    found = os.fstat(descriptor)
    for_all = bool(found.st_mode & stat.S_IWOTH)
    sticky = bool(found.st_mode & stat.S_ISVTX)
    if os.geteuid() == 0 and found.st_uid != 0 and sticky and for_all:
        # The owner of a sticky folder may remove anybody's file in it; root takes that power from whoever came first.
        if changing:
            os.fchown(descriptor, 0, 0)
            os.fchmod(descriptor, _STICKY_FOR_ALL)
        return
    if (for_all or found.st_uid not in {0, os.geteuid()}) and not sticky:
        raise no_shared(folder, f"(uid {found.st_uid}) is not sticky: others could replace files in it")


def no_private(folder: Path, why: str) -> HostError:
    """The folder cannot be the caller's state directory; `why` ends the sentence."""
    return HostError(
        "state-dir-unusable", f"{folder} {why}", where=str(folder), hint="--state-dir DIR, or MIGCTL_STATE_DIR"
    )


def no_shared(folder: Path, why: str) -> HostError:
    """The folder cannot hold the machine's locks; `why` ends the sentence."""
    return HostError(
        "run-dir-unusable",
        f"{folder} {why}",
        where=str(folder),
        hint="sudo install -d -m 1777 /run/migctl"
        if folder in (SYSTEM_RUN, COMMON_RUN)
        else "unset MIGCTL_RUN_DIR, or name a folder that all users may write to",
    )


def _absolute(text: str | None) -> Path | None:
    return Path(text).absolute() if text else None


def _default_state(environ: Mapping[str, str], caller: Caller) -> Path:
    if caller.uid == 0:
        return Path("/var/lib/migctl")
    told = environ.get("XDG_STATE_HOME", "")
    # A relative one is to be ignored (XDG Base Directory Specification). Where sudo was told to keep it, it is the caller's.
    base = Path(told) if told.startswith("/") else caller.home / ".local" / "state"
    return base / "migctl"
