"""A growing log file, read from its tail and followed until its writer is gone."""

from __future__ import annotations

import errno
import os
import select
import stat
import time
from collections.abc import Iterable, Iterator
from io import FileIO

from migctl.errors import HostError

_BLOCK = 1 << 16
_PAUSE_S = 0.1


def read_log(path: str, *, tail: int | None) -> Iterator[bytes]:
    """The bytes of the last `tail` lines (`None` = all); nothing where there is no file."""
    if (file := _opened(path, tail)) is None:
        return
    with file:
        while piece := file.read(_BLOCK):
            yield piece


def follow_log(path: str, *, tail: int | None, writer: int | None) -> Iterator[bytes]:
    """`read_log`, then what is added until the process of the pidfd `writer` ends; closes `writer`."""
    try:
        if (file := _opened(path, tail)) is None:
            return
        with file:
            over = writer is None
            while True:
                while piece := file.read(_BLOCK):
                    yield piece
                if over:
                    return  # read to the end once more after the writer was gone
                over = ended_within(writer, _PAUSE_S)
    finally:
        if writer is not None:
            os.close(writer)


def _opened(path: str, tail: int | None) -> FileIO | None:
    """The log where its last `tail` lines begin; `None` where there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        why = "it is a link, which is not followed" if error.errno == errno.ELOOP else error.strerror
        raise HostError("unreadable", f"the log cannot be read: {why}", where=path) from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise HostError("unreadable", "the log cannot be read: it is no file", where=path)
    file = FileIO(fd, "rb")
    if tail is not None:
        file.seek(_tail_start(fd, tail))
    return file


def ended_within(pidfd: int | None, timeout_s: float | None) -> bool:
    """Wait for the end of a pidfd's process, at most `timeout_s` seconds (`None` = for ever)."""
    if pidfd is None:
        return True
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        # An hour at a time: poll takes milliseconds in a C int.
        if poll.poll(min(3600.0, 3600.0 if left is None else left) * 1000):
            return True
        if left is not None and left <= 3600.0:
            return False


def _tail_start(fd: int, lines: int) -> int:
    """Where the last `lines` lines begin; a last line without newline counts."""
    end = os.fstat(fd).st_size
    if lines <= 0:
        return end
    position, seen = end, 0
    while position > 0:
        size = min(_BLOCK, position)
        position -= size
        block = os.pread(fd, size, position)
        for index in range(len(block) - 1, -1, -1):
            if block[index] == 0x0A and position + index != end - 1:
                seen += 1
                if seen == lines:
                    return position + index + 1
    return 0


def write_log(path: str, pieces: Iterable[bytes]) -> None:
    """Save a log, whole or not at all, readable by the folder's owner only.

    Raises:
        HostError: no such folder, no room, no permission.
    """
    fresh = f"{path}.new"
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            owner = os.stat(os.path.dirname(path) or ".")  # noqa: PTH116, PTH120 -- the path is a plain string
            if os.geteuid() == 0 and owner.st_uid != 0:
                os.fchown(fd, owner.st_uid, owner.st_gid)  # under sudo the log is the caller's, like the folder
        os.replace(fresh, path)  # noqa: PTH105 -- the path is a plain string
    except OSError as error:
        raise HostError(
            "log-not-saved",
            f"the log cannot be saved: {error.strerror}; the ended container stays for it",
            where=path,
            hint="make room there",
        ) from None
