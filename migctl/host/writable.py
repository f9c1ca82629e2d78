"""Whether another user could write to a folder of this machine, by its mode alone, found out without becoming that user."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path


def unwritable(path: Path, uid: int, gids: frozenset[int]) -> str | None:
    """Why a user could not write there, in words that follow its name; `None` where he could, or where a mode does not tell (access
    lists, no such folder).
    """
    try:
        found = path.stat()
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            return "is on a file system that is mounted read-only"
        if uid == 0 or "system.posix_acl_access" in os.listxattr(path):
            return None
    except OSError:
        return None
    if found.st_uid == uid:
        bits = found.st_mode >> 6
    elif found.st_gid in gids:
        bits = found.st_mode >> 3
    else:
        bits = found.st_mode
    needed = 3 if stat.S_ISDIR(found.st_mode) else 2  # to make a file in a folder takes search permission too
    if bits & needed == needed:
        return None
    return f"belongs to {_name(found.st_uid)} and has mode {stat.S_IMODE(found.st_mode):o}"


def _name(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"
