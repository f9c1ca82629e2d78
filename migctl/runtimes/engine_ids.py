"""How an engine shifts user and group ids: not at all, to its own user's (rootless), or to a range of its own (userns-remap)."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from migctl.core.others.idmap import IdMap, IdRange

ROOTLESS_USER = "0:0"
"""Root in a rootless engine's container is the engine's user outside; as anybody else a job could not write that user's files."""
_SHIFTED_ROOT = re.compile(r"/(\d+)\.(\d+)/?$")
"""What dockerd appends to its data folder when it remaps users (docs.docker.com/engine/security/userns-remap)."""


def remaps(info: Mapping[str, Any]) -> bool:
    """Whether it runs as root and gives containers users of their own."""
    return any(str(option).startswith("name=userns") for option in info.get("SecurityOptions") or ())


def id_map(info: Mapping[str, Any], *, rootless: bool, owner: int, etc: Path = Path("/etc")) -> IdMap | None:
    """The map of all its containers; `None` where it shifts ids and does not tell how.

    Args:
        info: answer of `GET /info`.
        rootless: it runs without root.
        owner: whose it is then.
        etc: where subuid(5) and subgid(5) lie.
    """
    if rootless:
        try:
            entry = pwd.getpwuid(owner)
            names, gid = (entry.pw_name, str(owner)), entry.pw_gid
        except KeyError:
            names, gid = (str(owner), str(owner)), os.getgid()
        return IdMap(IdRange(owner, _first(etc / "subuid", names)), IdRange(gid, _first(etc / "subgid", names)))
    if remaps(info):
        found = _SHIFTED_ROOT.search(str(info.get("DockerRootDir", "")))
        if found is None:
            return None
        uid, gid = int(found[1]), int(found[2])
        return IdMap(IdRange(uid, uid + 1), IdRange(gid, gid + 1))
    return IdMap()


def _first(file: Path, names: tuple[str, ...]) -> int | None:
    """The first id of the range that belongs to a user."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, rest = line.partition(":")
        start = rest.partition(":")[0]
        if name in names and start.isdigit():
            return int(start)
    return None
