"""Which program a command names, and as whom it runs, as the caller's own shell would have it."""

from __future__ import annotations

import grp
import os
import pwd
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from migctl.core.others.procstat import parse_stat
from migctl.errors import HostError, PlanError, Where

_OF_THE_SHELL = ("PATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "PYTHONPATH")
_ANCESTORS = 6
_UID = re.compile(r"[0-9]{1,10}")
_LARGEST_ID = 2**32 - 2
"""uid_t and gid_t have 32 bits, and all ones mean "no change" (chown(2))."""
_OWN_ENVIRONMENT = "activate its environment before migctl, or give the whole path"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a process runs as, where that is another than ourselves."""

    uid: int
    gid: int
    groups: tuple[int, ...]


def caller_environment(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The environment with what sudo took out of it: PATH, virtual and conda environment of the caller's shell.

    The sudo process above us was started with the shell's environment, and root may read it. Without sudo, or when it cannot be
    read, the same mapping comes back.
    """
    if os.geteuid() != 0 or "SUDO_UID" not in environ:
        return environ
    shell = environment_of_sudo(os.getppid())
    if shell is None:
        return environ
    taken = {k: v for k, v in shell.items() if k in _OF_THE_SHELL or k.startswith("CONDA_")}
    return {**environ, **taken}


def sudo_uid(environ: Mapping[str, str]) -> int | None:
    """For whom root acts under sudo; `None` where nobody acts for another."""
    text = environ.get("SUDO_UID", "")
    return int(text) if os.geteuid() == 0 and _UID.fullmatch(text) and int(text) else None


def environment_of_sudo(pid: int) -> dict[str, str] | None:
    """What the sudo process at or above `pid` was started with, the shell's own environment; `None` where it cannot be known."""
    for _ in range(_ANCESTORS):
        try:
            folder = Path("/proc", str(pid))
            if (folder / "comm").read_text().strip() == "sudo":
                pairs = (folder / "environ").read_bytes().decode(errors="surrogateescape").split("\0")
                return dict(pair.split("=", 1) for pair in pairs if "=" in pair)
            stat = parse_stat((folder / "stat").read_text(errors="replace"))
        except OSError:
            return None
        if stat is None or stat.parent <= 1:
            return None
        pid = stat.parent
    return None


def find_program(name: str, search: str, folder: str | None, *, where: Where | str) -> str:
    """Absolute path of a program, links kept: a virtual environment's python is a link, and its path is what makes it one.

    Args:
        name: the command's first word.
        search: the PATH to look in.
        folder: where a relative path with a slash starts.
        where: for the error.

    Raises:
        PlanError: there is no such executable.
    """
    base = folder or "/"
    if "/" in name:
        if folder is None and not name.startswith("/"):
            return name  # known only when the plan's folder is
        place = os.path.normpath(os.path.join(base, name))  # noqa: PTH118 -- Path would drop "./"
        found = place if os.access(place, os.X_OK) and not Path(place).is_dir() else None
        why, hint = _why_no_program(Path(place))
    else:
        places = [os.path.join(base, part or ".") for part in search.split(os.pathsep)]  # noqa: PTH118 -- as above
        found = shutil.which(name, path=os.pathsep.join(places))
        why, hint = f"is no program in any of the {len(places)} folders of PATH", _OWN_ENVIRONMENT
    if found is None:
        raise PlanError(
            "no-program",
            f"{name} {why}",
            where=where,
            hint=hint,
            data={"program": name, "path": search},
        )
    return found


def _why_no_program(place: Path) -> tuple[str, str]:
    """Why a path cannot be run, and what to do about it."""
    if place.is_dir():
        return "is a folder, not a program", "name a program in it"
    if place.exists():
        return (
            "is not executable",
            f"name the program that reads it, as in [python3, {place.name}], or make it executable",
        )
    return f"does not exist{'' if place.parent.is_dir() else f': there is no folder {place.parent}'}", _OWN_ENVIRONMENT


def resolve_user(user: str | None, *, where: Where | str) -> Identity | None:
    """`uid`, `uid:gid`, `name` or `name:group` as numbers; `None` where that is what we are already.

    Raises:
        PlanError: no such user or group.
        HostError: only root can start a process as somebody else.
    """
    if user is None:
        return None
    name, _, group = user.partition(":")
    number, group_number = _id(name), _id(group)
    try:
        entry = pwd.getpwnam(name) if number is None else pwd.getpwuid(number)
    except (KeyError, ValueError):  # a name with a NUL is none of the system's
        entry = None
    uid = number if number is not None else entry.pw_uid if entry is not None else None
    if uid is None:
        raise PlanError("no-user", f"there is no user {name!r} on this machine", where=where, data={"user": user})
    try:
        if group_number is not None:
            gid = group_number
        else:
            gid = grp.getgrnam(group).gr_gid if group else entry.pw_gid if entry is not None else uid
    except (KeyError, ValueError):
        raise PlanError(
            "no-group", f"there is no group {group!r} on this machine", where=where, data={"user": user}
        ) from None
    if os.geteuid() != 0:
        if uid != os.geteuid():
            raise HostError(
                "not-permitted",
                f"only root can run a process as {user}",
                where=where,
                hint="leave user: out, or use sudo",
            )
        return None
    if (uid, gid) == (os.getuid(), os.getgid()):
        return None
    groups = os.getgrouplist(entry.pw_name, gid) if entry else [gid]
    return Identity(uid, gid, tuple(groups))


def _id(text: str) -> int | None:
    """A uid or gid; `None` for what is a name, or no number that the system has."""
    return int(text) if _UID.fullmatch(text) and int(text) <= _LARGEST_ID else None


def home_of(uid: int) -> dict[str, str]:
    """The variables that say whose process it is; nothing for a uid without an entry."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return {}
    return {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name, "SHELL": entry.pw_shell or "/bin/sh"}
