"""A named pipe by which commands tell a waiting process of the same user that there is something new."""

from __future__ import annotations

import os
import select
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from migctl.errors import HostError


class Doorbell:
    """The listening side: the pipe, made anew, and a thread that waits for rings."""

    def __init__(self, path: Path, uid: int, gid: int, rung: Callable[[], None]) -> None:
        """Make the pipe for this owner and listen.

        Args:
            path: where commands look for it.
            uid: the pipe's owner.
            gid: the pipe's group.
            rung: called in a thread, once for all rings that have come since the last call.

        Raises:
            HostError: something else lies there, or it cannot be made.
        """
        self._path = path
        self._rung = rung
        self._closed = False
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
            self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise HostError(
                "no-doorbell", f"cannot make {path}: {error.strerror}", where=str(path), hint="migctl check"
            ) from error
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        waiting = select.poll()
        waiting.register(self._fd, select.POLLIN)
        while True:
            waiting.poll()
            with suppress(BlockingIOError):
                os.read(self._fd, 4096)
            if self._closed:
                return
            self._rung()

    def close(self) -> None:
        """Nobody listens any more; harmless when done twice. Who rang before this looks after it for what they wanted."""
        if self._closed:
            return
        self._path.unlink(missing_ok=True)
        self._closed = True
        with suppress(BlockingIOError):
            os.write(self._fd, b".")
        self._thread.join()
        os.close(self._fd)


def is_heard(path: Path) -> bool:
    """Whether somebody listens; rings nothing."""
    fd = _opened(path)
    if fd is not None:
        os.close(fd)
    return fd is not None


def _opened(path: Path) -> int | None:
    """The pipe's writing end; nothing where nobody listens, or no pipe lies there."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    if stat.S_ISFIFO(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def ring(path: Path) -> bool:
    """Tell whoever listens; returns whether somebody does."""
    fd = _opened(path)
    if fd is None:
        return False
    try:
        os.write(fd, b".")
    except BlockingIOError:
        return True  # the pipe is full of rings already
    except OSError:
        return False  # nobody listens any more
    finally:
        os.close(fd)
    return True
