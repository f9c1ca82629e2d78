"""Machine-wide locks: the kernel's flock, released at death, with the holder's name inside."""

from __future__ import annotations

import fcntl
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from migctl.errors import Busy, HostError
from migctl.host.paths import make_shared

_PAUSE_S = 0.05
_NAME = re.compile(r"[^A-Za-z0-9_.-]")


@contextmanager
def machine_lock(run_dir: Path, name: str, *, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the lock `name` of this machine.

    Args:
        run_dir: the machine-wide folder.
        name: `machine` for GPUs and cores, `run-UID-NAME` for one run.
        wait_s: how long to wait for the present holder.

    Raises:
        Busy: somebody holds it; names pid, user, command and since when.
        HostError: the lock file cannot be used.
    """
    make_shared(run_dir)
    path = run_dir / (_NAME.sub("-", name)[:120] + ".lock")
    fd = _open(path)
    try:
        _take(fd, name, time.monotonic() + wait_s)
        _sign(fd)
        yield
    finally:
        os.close(fd)


def _open(path: Path) -> int:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except PermissionError:
        # fs.protected_regular refuses O_CREAT on somebody else's file in a sticky folder, even for root.
        try:
            fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise _unusable(path, error) from error
    except OSError as error:
        raise _unusable(path, error) from error
    if os.fstat(fd).st_uid == os.geteuid() and os.fstat(fd).st_mode & 0o777 != 0o666:
        os.fchmod(fd, 0o666)  # the umask must not lock other users out
    return fd


def _take(fd: int, name: str, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise _held(fd, name) from None
            time.sleep(_PAUSE_S)
        else:
            return


def _sign(fd: int) -> None:
    command = " ".join(Path(word).name if i == 0 else word for i, word in enumerate(sys.argv))[:200]
    holder = {"pid": os.getpid(), "uid": os.getuid(), "command": command, "since": time.time()}
    os.ftruncate(fd, 0)
    os.pwrite(fd, json.dumps(holder).encode(), 0)


def _held(fd: int, name: str) -> Busy:
    what = "the GPUs and cores of this machine are" if name == "machine" else "this run is"
    try:
        holder = json.loads(os.pread(fd, 4096, 0))
        pid, uid, command, since = holder["pid"], holder["uid"], str(holder["command"]), float(holder["since"])
    except (ValueError, KeyError, TypeError):
        # Taken a moment ago, not yet signed.
        return Busy("locked", f"{what} being changed by another migctl", hint="--wait-for 60")
    at = time.strftime("%H:%M:%S", time.localtime(since))
    return Busy(
        "locked",
        f"{what} being changed by pid {pid} of {_user(uid)} since {at}: {command}",
        hint="--wait-for 60 waits for it",
        data={"pid": pid, "uid": uid, "command": command},
    )


def _user(uid: object) -> str:
    import pwd

    try:
        return pwd.getpwuid(int(str(uid))).pw_name
    except (KeyError, ValueError):
        return f"uid {uid}"


def _unusable(path: Path, error: OSError) -> HostError:
    return HostError(
        "lock-unusable",
        f"the lock file {path} cannot be used: {error.strerror}",
        where=str(path),
        hint="MIGCTL_RUN_DIR",
    )
