"""On whose behalf migctl acts: the user who typed the command, also under sudo."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_LARGEST_ID = 2**32 - 2
"""uid_t and gid_t have 32 bits, and all ones mean "no change" (chown(2))."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The user that runs and their files belong to."""

    uid: int
    gid: int
    name: str
    home: Path
    sudo: bool = False
    """Root acts for this user."""
    groups: tuple[int, ...] = ()
    """All of the user's groups, ascending."""


def caller(environ: Mapping[str, str]) -> Caller:
    """SUDO_UID and SUDO_GID count only for root: anybody else could set them to anything."""
    uid, gid, sudo = os.getuid(), os.getgid(), False
    asked = _id(environ.get("SUDO_UID"))
    if os.geteuid() == 0 and asked:
        uid, sudo = asked, True
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        # A container or an LDAP outage: the uid is enough to work with.
        entry = None
    if sudo:
        own = _id(environ.get("SUDO_GID"))
        gid = own if own is not None else entry.pw_gid if entry is not None else uid
    name = entry.pw_name if entry is not None else str(uid)
    return Caller(
        uid,
        gid,
        name,
        _home(environ, entry, sudo=sudo),
        sudo,
        _groups(name, gid, sudo=sudo, known=entry is not None),
    )


def _id(text: str | None) -> int | None:
    if not text or not text.isascii() or not text.isdigit() or len(text) > 10:
        return None
    return int(text) if int(text) <= _LARGEST_ID else None


def _home(environ: Mapping[str, str], entry: pwd.struct_passwd | None, *, sudo: bool) -> Path:
    """Under sudo HOME may be root's or the user's, by the sudoers file: the user database decides."""
    told = environ.get("HOME", "")
    if told.startswith("/") and not sudo:
        return Path(told)
    return Path(entry.pw_dir if entry is not None and entry.pw_dir else "/")


def _groups(name: str, gid: int, *, sudo: bool, known: bool) -> tuple[int, ...]:
    if not sudo:
        return tuple(sorted({gid, *os.getgroups()}))
    return tuple(sorted({gid, *(os.getgrouplist(name, gid) if known else ())}))
