"""Machine-wide locks: the kernel's flock, released at death, with the holder's name inside."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from migctl.errors import Busy, HostError, Interrupted
from migctl.host.paths import make_shared

_PAUSE_S = 0.05
_SIGNING_S = 0.5
"""How long a new holder may take to write its name."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
_MOST_BYTES = 4096
_FOR_ALL = 0o666
"""Every user must be able to take it; what stands in it is for people only."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock, as it says itself: information for people, never a ground for a decision."""

    pid: int
    uid: int
    user: str
    command: str
    since: float
    """Unix seconds."""


@contextmanager
def machine_lock(
    run_dir: Path,
    name: str,
    *,
    wait_s: float = 0.0,
    user: str | None = None,
    cancel: threading.Event | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[None]:
    """Hold the lock `name` of this machine.

    Args:
        run_dir: the machine-wide folder.
        name: `machine`, `gpu-UUID` or `cores` for what all users share, `run-UID-NAME` for one run.
        wait_s: how long to wait for the present holder.
        user: on whose behalf, for others to read; default the process's own user.
        cancel: set by a signal: ends the waiting.
        clock: seconds that only grow.
        sleep: waits that many seconds.

    Raises:
        Busy: `locked`, somebody holds it; names pid, user, command and since when.
        HostError: the lock file cannot be used.
        Interrupted: `cancel` was set while somebody else held it.
    """
    make_shared(run_dir)
    path = run_dir / (_UNSAFE.sub("-", name)[:120] + ".lock")
    deadline = clock() + wait_s
    while True:
        descriptor = _open(path)
        try:
            _take(descriptor, path, name, deadline, cancel, clock, sleep)
            if not _still(descriptor, path):
                continue  # somebody removed the file: others would lock a new one
            _sign(descriptor, path, user)
            yield
            return
        finally:
            os.close(descriptor)


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        try:
            # Without O_CREAT first: fs.protected_regular refuses it on somebody else's file in a sticky folder, even for root.
            descriptor = os.open(path, flags)
        except FileNotFoundError:
            _make(path)
            descriptor = os.open(path, flags)
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        # A hard link could let us write a holder's name over somebody's file.
        os.close(descriptor)
        raise _unusable(path, "it is not an ordinary file of its own")
    if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) != _FOR_ALL:
        os.fchmod(descriptor, _FOR_ALL)
    return descriptor


def _make(path: Path) -> None:
    """Make the file with its mode in one step: others must never meet it while the umask locks them out."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    descriptor = -1
    try:
        # Nameless until it is complete (open(2), O_TMPFILE): a death in between leaves nothing behind.
        descriptor = os.open(".", os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600, dir_fd=folder)
        os.fchmod(descriptor, _FOR_ALL)
        os.link(
            f"/proc/self/fd/{descriptor}",
            path.name,
            src_dir_fd=folder,
            dst_dir_fd=folder,
            follow_symlinks=True,
        )
    except FileExistsError:
        pass  # somebody else was quicker
    except OSError:
        # A file system without O_TMPFILE, or no /proc: nearly as good.
        _make_plainly(path)
    finally:
        if descriptor >= 0:
            os.close(descriptor)
        os.close(folder)


def _make_plainly(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _FOR_ALL)
    except FileExistsError:
        return
    try:
        os.fchmod(descriptor, _FOR_ALL)
    finally:
        os.close(descriptor)


def _take(
    descriptor: int,
    path: Path,
    name: str,
    deadline: float,
    cancel: threading.Event | None,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if cancel is not None and cancel.is_set():
                raise Interrupted(
                    "interrupted", f"interrupted while {_what(name)} in use by another migctl", where=name
                ) from None
            if clock() >= deadline:
                raise _held(descriptor, name, sleep) from None
            sleep(_PAUSE_S)
        except OSError as error:
            raise _unusable(path, error.strerror or str(error)) from error
        else:
            return


def _still(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _sign(descriptor: int, path: Path, user: str | None) -> None:
    uid = os.getuid()
    holder = {
        "pid": os.getpid(),
        "uid": uid,
        "user": user or _user(uid),
        "command": shlex.join(_words(sys.argv))[:200],
        "since": time.time(),
    }
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(holder).encode(), 0)
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error


def _words(argv: Sequence[str]) -> list[str]:
    """The command as everybody may read it, also when it has ended: what a job is given on its line is nobody's business."""
    words = [Path(argv[0]).name, *argv[1:]] if argv else ["migctl"]
    return words[:2] if words[1:2] in (["run"], ["exec"]) else words


def _held(descriptor: int, name: str, sleep: Callable[[float], None]) -> Busy:
    holder = _holder(descriptor)
    waited_s = 0.0
    while (holder is None or not _alive(holder.pid)) and waited_s < _SIGNING_S:
        # Taken a moment ago and not yet signed: what stands there is nothing, or the name of one who died.
        sleep(_PAUSE_S)
        waited_s += _PAUSE_S
        holder = _holder(descriptor)
    what = _what(name)
    if holder is None:
        return Busy("locked", f"{what} in use by another migctl", where=name, hint="--wait-for 60 waits for it")
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(holder.since))
    return Busy(
        "locked",
        f"{what} in use by pid {holder.pid} of {holder.user} since {at}: {holder.command}",
        where=name,
        hint="--wait-for 60 waits for it",
        data={
            "pid": holder.pid,
            "uid": holder.uid,
            "user": holder.user,
            "command": holder.command,
            "since": holder.since,
        },
    )


def _what(name: str) -> str:
    kind, _, rest = name.partition("-")
    match kind:
        case "machine":
            return "the GPUs and cores of this machine are"
        case "cores":
            return "the cores of this machine are"
        case "gpu":
            return f"GPU {rest} is"
        case "run":
            return f"the run {rest.partition('-')[2]} is"
        case _:
            return f"{name} is"


def _holder(descriptor: int) -> Holder | None:
    """The file is everybody's to write: whatever is not exactly a holder is none, and nothing reaches a terminal unprinted."""
    try:
        value = json.loads(os.pread(descriptor, _MOST_BYTES, 0))
        pid, uid, user, command, since = (value[key] for key in ("pid", "uid", "user", "command", "since"))
    except (ValueError, KeyError, TypeError, OSError, RecursionError):
        return None
    if type(pid) is not int or type(uid) is not int or not 0 < pid < 2**31 or not 0 <= uid < 2**32:
        return None
    if type(since) is not float or not 0 <= since < 2**36 or type(user) is not str or type(command) is not str:
        return None
    return Holder(pid, uid, _printable(user)[:64], _printable(command)[:200], since)


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _unusable(path: Path, why: str) -> HostError:
    return HostError(
        "lock-unusable",
        f"the lock file {path} cannot be used: {why}",
        where=str(path),
        hint=f"ls -l {path}; MIGCTL_RUN_DIR names another folder, the same for all users",
    )
