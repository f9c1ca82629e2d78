"""A named pipe by which commands tell a waiting process of the same user that there is something new."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from migctl.errors import HostError


class Doorbell:
    """The listening side: made anew, and readable without ever ending."""

    def __init__(self, path: Path, uid: int, gid: int) -> None:
        """Make the pipe for this owner.

        Raises:
            HostError: something else lies there, or it cannot be made.
        """
        self._path = path
        try:
            if path.is_symlink() or path.exists():
                if not stat.S_ISFIFO(path.lstat().st_mode):
                    raise HostError(
                        "not-a-pipe", f"{path} is in the way: it is no named pipe", where=str(path), hint=f"rm {path}"
                    )
                path.unlink()
            os.mkfifo(path, 0o600)
            if os.geteuid() == 0 and uid != 0:
                os.chown(path, uid, gid, follow_symlinks=False)
            # Open for both ends: it never reads as ended when a command closes its own.
            self._fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise HostError(
                "no-doorbell", f"cannot make {path}: {error.strerror}", where=str(path), hint="migctl check"
            ) from error

    def wait(self) -> None:
        """Block until somebody rings."""
        os.read(self._fd, 4096)

    def close(self) -> None:
        """Nobody listens any more."""
        os.close(self._fd)
        self._path.unlink(missing_ok=True)


def is_heard(path: Path) -> bool:
    """Whether somebody listens; rings nothing."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def ring(path: Path) -> bool:
    """Tell whoever listens; returns whether somebody does."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if not stat.S_ISFIFO(os.fstat(fd).st_mode):
            return False
        os.write(fd, b".")
    except OSError:
        return True  # the pipe is full of rings already
    finally:
        os.close(fd)
    return True
