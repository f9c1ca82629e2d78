"""One place that turns the file system's and SQLite's failures into migctl's errors."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from migctl.errors import Busy, HostError, MigctlError

if TYPE_CHECKING:
    import sqlite3

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""No space, no quota, and the process's own limit on file sizes: all pass when room is made."""
_PROBE_BYTES = 64 * 1024
_MASK = 0xFF
"""SQLite's primary result code is the low byte of the extended one (sqlite.org/rescode.html)."""


class Broken(Exception):  # noqa: N818 -- a state of the file, told to the ledger, which rebuilds
    """The database is none of ours any more; owner files and labels still tell the truth."""


def file_failure(error: OSError, path: Path, needed_bytes: int = 0) -> MigctlError:
    """What a failed read or write of `path` means for the user.

    Args:
        error: as the kernel gave it.
        path: the file or folder concerned.
        needed_bytes: what was to be written, 0 = nothing.
    """
    if error.errno in _FULL:
        return disk_full(path, needed_bytes, error)
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return HostError(
            "store-link",
            f"{path} is a link or not a folder; migctl follows no links in its state directory",
            where=str(path),
            hint=f"ls -ld {path}",
        )
    if error.errno == errno.EROFS:
        return HostError(
            "store-read-only",
            f"{path} is on a read-only file system",
            where=str(path),
            hint="choose another place: MIGCTL_STATE_DIR=… or --state-dir",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return HostError(
            "store-not-permitted",
            f"not permitted to use {path} ({error.strerror}) as uid {os.geteuid()}",
            where=str(path),
            hint="run as its owner, or choose another place: MIGCTL_STATE_DIR=… or --state-dir",
        )
    return HostError("store-failed", f"{path}: {error.strerror or error}", where=str(path), hint="dmesg | tail")


def too_new(path: Path, why: str) -> HostError:
    """A newer migctl wrote it; guessing at its meaning could lose jobs."""
    return HostError(
        "store-too-new",
        f"{path} was written by a newer migctl: it {why}",
        where=str(path),
        hint="upgrade: pip install --upgrade migctl",
    )


def disk_full(path: Path, needed_bytes: int, error: Exception) -> Busy:
    """No room: jobs go on running, nothing new starts."""
    kib = max(4, -(-needed_bytes // 1024))
    reason = error.strerror if isinstance(error, OSError) and error.strerror else "the disk is full"
    what = f"{path} cannot be written: {reason}"
    return Busy(
        "disk-full",
        f"{what}; {kib} KiB are needed there. Nothing was recorded, running jobs go on",
        where=str(path),
        hint=f"make room, then run the same command again: df -h {path.parent}",
        data={"path": str(path), "needed_bytes": kib * 1024, "failure": what},
    )


def failure_alone(error: MigctlError) -> str:
    """What failed, without what that means for a command that would begin something."""
    return str(error.data.get("failure", error.message))


def is_unwritable(error: MigctlError) -> bool:
    """Whether the disk takes nothing more: what is being removed is removed all the same, what is new is not begun."""
    return error.id in ("disk-full", "store-read-only", "store-failed")


def broken(error: sqlite3.Error) -> bool:
    """Whether the database itself is damaged, so that only the owner files help."""
    import sqlite3

    return _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)


def database_failure(error: sqlite3.Error, path: Path, needed_bytes: int = 0) -> MigctlError:
    """What a failed write means for the user, where the database is not simply damaged; tries a write of its own to find out."""
    import sqlite3

    code = _code(error)
    if code == sqlite3.SQLITE_FULL:
        return disk_full(path, needed_bytes, error)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Busy(
            "store-locked",
            f"{path} is held by another process; it may be stopped or very slow",
            where=str(path),
            hint=f"fuser -v {path}",
        )
    # SQLite hides the errno of a failed write: quota and file size limits look like an input/output error.
    try:
        _probe(path.parent)
    except OSError as real:
        return file_failure(real, path, needed_bytes)
    if code == sqlite3.SQLITE_READONLY:
        return HostError(
            "store-not-permitted",
            f"{path} cannot be written as uid {os.geteuid()}",
            where=str(path),
            hint=f"ls -l {path}",
        )
    return HostError("store-failed", f"{path}: {error}", where=str(path), hint=f"ls -l {path}; dmesg | tail")


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & _MASK


def _probe(folder: Path) -> None:
    path = folder / f"store.probe-{os.urandom(4).hex()}"
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
    try:
        data = memoryview(bytes(_PROBE_BYTES))
        while data:
            data = data[os.write(descriptor, data) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
        path.unlink()
