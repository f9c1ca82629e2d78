"""The state directory walked from an open descriptor, one name after another, so that nobody's link leads out of it."""

from __future__ import annotations

import os
import re
import stat
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from migctl.errors import HostError, PlanError
from migctl.store.failure import file_failure

LARGEST_FILE_BYTES = 4 * 1024 * 1024
"""A plan has at most 1 MiB; a record is a part of one."""
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def checked_name(name: str, kind: str) -> str:
    """The name itself, if it can be a folder's name and nothing else.

    Raises:
        PlanError: it could lead out of the state directory.
    """
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise PlanError(
            "bad-name",
            f"{name[:80]!r} cannot be the name of a {kind}: letters, digits, _ . - and at most 128 of them",
            hint=f"rename the {kind}",
        )
    return name


class Folders:
    """An open state directory. Everything in it belongs to the directory's owner; root may have written in his name."""

    def __init__(self, root: Path) -> None:
        """Open what is there already.

        Raises:
            HostError: a link, somebody else's, or writable by everybody.
            FileNotFoundError: it does not exist.
        """
        self.root = root
        try:
            self._fd = os.open(root, _FOLDER)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise file_failure(error, root) from error
        self._close = weakref.finalize(self, os.close, self._fd)
        """A ledger that nobody closes lets go of the folder when it is forgotten."""
        there = os.fstat(self._fd)
        self.uid, self.gid = there.st_uid, there.st_gid
        self.fresh: set[tuple[str, ...]] = set()
        """Folders that got a new folder which is not yet flushed to the disk."""
        if os.geteuid() not in (0, self.uid):
            self._close()
            raise _foreign(root, there.st_uid)
        if there.st_mode & stat.S_IWOTH:
            self._close()
            raise HostError(
                "store-open-to-all",
                f"everybody may write into {root}: nothing in there can be trusted",
                where=str(root),
                hint=f"chmod 0700 {root}",
            )

    @classmethod
    def make(cls, root: Path) -> Folders:
        """Open the directory, making it (0700) and what is missing above it."""
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise file_failure(error, root) from error
        return cls(root)

    def close(self) -> None:
        """Give the descriptor back; harmless when done twice."""
        self._close()

    def path(self, *names: str) -> Path:
        """The path for messages and for others; the names must have been checked."""
        return self.root.joinpath(*names)

    @contextmanager
    def opened(self, *names: str, make: bool = False) -> Iterator[int]:
        """A descriptor of the folder below the root.

        Raises:
            FileNotFoundError: it is not there (only without `make`).
            HostError: a link, not a folder, or somebody else's.
        """
        descriptor = os.dup(self._fd)
        try:
            for depth in range(len(names)):
                below = self._below(descriptor, names[: depth + 1], make=make)
                os.close(descriptor)
                descriptor = below
            yield descriptor
        finally:
            os.close(descriptor)

    def _below(self, parent: int, names: tuple[str, ...], *, make: bool) -> int:
        name = names[-1]
        try:
            try:
                descriptor = os.open(name, _FOLDER, dir_fd=parent)
            except FileNotFoundError:
                if not make:
                    raise
                try:
                    os.mkdir(name, 0o700, dir_fd=parent)
                    self.give(name, parent)
                    self.fresh.add(names[:-1])
                except FileExistsError:
                    pass  # another migctl made it in this moment
                descriptor = os.open(name, _FOLDER, dir_fd=parent)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise file_failure(error, self.path(*names)) from error
        owner = os.fstat(descriptor).st_uid
        if owner not in self.trusted:
            os.close(descriptor)
            raise _foreign(self.path(*names), owner)
        return descriptor

    @property
    def trusted(self) -> frozenset[int]:
        """Whose files may lie here."""
        return frozenset({self.uid, os.geteuid(), 0})

    def give(self, name: str | int, parent: int | None = None) -> None:
        """Under sudo: what was just made belongs to the directory's owner."""
        if os.geteuid() == 0 and self.uid != 0:
            if isinstance(name, int):
                os.fchown(name, self.uid, self.gid)
            else:
                os.chown(name, self.uid, self.gid, dir_fd=parent, follow_symlinks=False)

    def read(self, parent: int, name: str, path: Path, most_bytes: int = LARGEST_FILE_BYTES) -> bytes | None:
        """The file's content, `None` where there is none.

        Raises:
            HostError: a link, somebody else's file, or not readable.
            ValueError: not an ordinary file, or larger than any of ours.
        """
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise file_failure(error, path) from error
        try:
            there = os.fstat(descriptor)
            if not stat.S_ISREG(there.st_mode):
                raise ValueError("it is not an ordinary file")
            if there.st_uid not in self.trusted:
                raise _foreign(path, there.st_uid)
            if there.st_size > most_bytes:
                raise ValueError(f"it has {there.st_size} bytes, more than any file of migctl's")
            return _all(descriptor)
        except OSError as error:
            raise file_failure(error, path) from error
        finally:
            os.close(descriptor)

    def names(self, parent: int) -> list[str]:
        """Folders in the folder, sorted; only names that can be a run's or a job's. A link is listed, and refused when opened."""
        with os.scandir(parent) as entries:
            return sorted(
                e.name
                for e in entries
                if _NAME.fullmatch(e.name) and (e.is_dir(follow_symlinks=False) or e.is_symlink())
            )


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte or raise."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _all(descriptor: int) -> bytes:
    parts = []
    while part := os.read(descriptor, 65536):
        parts.append(part)
    return b"".join(parts)


def _foreign(path: Path, owner: int) -> HostError:
    return HostError(
        "store-not-yours",
        f"{path} belongs to uid {owner}, not to uid {os.geteuid()}",
        where=str(path),
        hint="run as its owner, or choose another place: MIGCTL_STATE_DIR=… or --state-dir",
    )
