"""On whose behalf migctl acts: the user who typed the command, also under sudo."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Caller:
    """The user that runs and their files belong to."""

    uid: int
    gid: int
    name: str
    home: Path
    sudo: bool = False
    """Root acts for this user."""


def caller(environ: Mapping[str, str]) -> Caller:
    """SUDO_UID and SUDO_GID count only for root: anybody else could set them to anything."""
    uid, gid, sudo = os.getuid(), os.getgid(), False
    asked = environ.get("SUDO_UID", "")
    if os.geteuid() == 0 and asked.isascii() and asked.isdigit() and int(asked) != 0:
        uid, sudo = int(asked), True
        group = environ.get("SUDO_GID", "")
        gid = int(group) if group.isascii() and group.isdigit() else gid
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        # A container or an LDAP outage: the uid is enough to work with.
        return Caller(uid, gid, environ.get("USER") or str(uid), Path(environ.get("HOME") or "/"), sudo)
    home = Path(environ["HOME"]) if environ.get("HOME") and not sudo else Path(entry.pw_dir)
    return Caller(uid, gid, entry.pw_name, home, sudo)
