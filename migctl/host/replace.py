"""Replaces a file that somebody may be editing: whole or not at all, with its owner and mode, and only if it is as it was read."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from migctl.errors import Busy, HostError, PlanError


def replace_file(path: Path, before: bytes, after: bytes) -> None:
    """Put `after` in place of a file that holds `before`. A link stays a link: the file that it names is replaced.

    Raises:
        Busy: the file holds something else by now.
        PlanError: it has several names (hard links), which would part.
        HostError: it is another user's, or its folder cannot be written.
    """
    target = Path(os.path.realpath(path))
    try:
        with target.open("rb") as file:
            found = os.fstat(file.fileno())
            same = file.read() == before
        if not same:
            raise Busy(
                "file-changed",
                f"{path} was changed while migctl was at work; it is left as it is",
                where=str(path),
                hint="the same command again, or the number by hand",
            )
        if found.st_nlink > 1:
            raise PlanError(
                "hard-link",
                f"{path} has {found.st_nlink} names (hard links); replacing one would part it from the others",
                where=str(path),
                hint="write the number by hand",
            )
        _swap(target, after, found)
    except OSError as error:
        raise HostError("unwritable", f"{path} cannot be replaced: {error.strerror}", where=str(path)) from error


def _swap(target: Path, after: bytes, found: os.stat_result) -> None:
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(after)
            if (found.st_uid, found.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(descriptor, found.st_uid, found.st_gid)
            # After the owner: changing that takes set-id bits away (chown(2)).
            os.fchmod(descriptor, stat.S_IMODE(found.st_mode))
            for name in os.listxattr(target):  # access lists among them
                os.setxattr(descriptor, name, os.getxattr(target, name))
            file.flush()
            os.fsync(descriptor)
        now = target.stat()
        if (now.st_ino, now.st_size, now.st_mtime_ns) != (found.st_ino, found.st_size, found.st_mtime_ns):
            raise Busy(
                "file-changed",
                f"{target} was changed in this very moment; it is left as it is",
                where=str(target),
                hint="the same command again",
            )
        fresh.replace(target)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)  # the new name survives a power loss
    finally:
        os.close(folder)
