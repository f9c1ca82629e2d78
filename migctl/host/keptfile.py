"""Small files of the kernel that are read again and again: kept open where descriptors are left, and read in one call."""

from __future__ import annotations

import os
import resource
from typing import Final

_SIZE: Final = 1 << 14
_SHARE: Final = 2
"""At most one descriptor in so many of those that the process may have: the rest is the program's."""


class _Room:
    """Descriptors that kept files may still take, in this process."""

    left = max(0, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE)


class KeptFile:
    """One file. Reading never blocks for what these files are: the kernel writes them out at once.

    An open descriptor of /proc/PID/… stays that process's: once it has ended, reading fails, whoever has its pid by then.
    """

    __slots__ = ("_descriptor", "_path", "_size")

    def __init__(self, path: str, size: int = _SIZE) -> None:
        self._path = path
        self._size = size
        self._descriptor = -1

    def read(self) -> bytes:
        """The whole content from the beginning.

        Raises:
            OSError: it is not there any more, or this user may not.
        """
        if self._descriptor >= 0:
            return os.pread(self._descriptor, self._size, 0)
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        if _Room.left > 0:
            _Room.left -= 1
            self._descriptor = descriptor
            return os.pread(descriptor, self._size, 0)
        try:
            return os.pread(descriptor, self._size, 0)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Give the descriptor back; harmless when done twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            _Room.left += 1


def read_once(path: str) -> bytes:
    """The beginning of a small file that is not worth keeping open.

    Raises:
        OSError: it is not there, or this user may not.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _SIZE)
    finally:
        os.close(descriptor)
