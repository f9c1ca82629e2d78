"""The administrator's policy file: found where a user cannot put another, and believed only where no user can have written it."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from migctl.errors import HostError
from migctl.host.caller import Caller

POLICY = Path("/etc/migctl/policy.yaml")
_MOST_BYTES = 1 << 20
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """The text of a policy that may be believed."""

    path: Path
    owner: str
    data: bytes


def read_policy(environ: Mapping[str, str], caller: Caller, system: Path = POLICY) -> PolicyFile | None:
    """The policy of this machine; `None`: there is none.

    MIGCTL_POLICY names another file only where there is no policy to get round, or for root itself, who could change the policy as
    well. Under sudo it does not: sudo can be told to keep a variable, and the right to run migctl as root is not the right to
    choose its rules.

    Raises:
        HostError: `policy-untrusted`, a user could have written it, or it cannot be read; nothing may be started then.
    """
    told = environ.get("MIGCTL_POLICY")
    if told and (not _is_there(system) or (caller.uid == 0 and not caller.sudo and os.geteuid() == 0)):
        # Who binds only himself may do so with a file of his own.
        return _read(Path(told).absolute(), {0, caller.uid})
    return _read(system, {0}) if _is_there(system) else None


def _is_there(path: Path) -> bool:
    """Whether anything is there; where even that cannot be told, something is, and reading it will say what is wrong."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _read(path: Path, owners: set[int]) -> PolicyFile:
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise _untrusted(path, f"its folder cannot be read: {error.strerror}", owners) from error
    try:
        # In a sticky folder (/tmp) nobody replaces another's file.
        _check(path.parent, os.fstat(folder), {0, *owners}, owners, sticky_is_enough=True)
        descriptor = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        link = error.errno == 40 or path.is_symlink()  # ELOOP: O_NOFOLLOW met a link
        why = "it is a link, which is not followed" if link else f"it cannot be read: {error.strerror}"
        raise _untrusted(path, why, owners) from error
    finally:
        os.close(folder)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _untrusted(path, "it is no ordinary file", owners)
        _check(path, found, owners, owners, sticky_is_enough=False)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(_MOST_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > _MOST_BYTES:
        raise _untrusted(path, "it is larger than 1 MiB", owners)
    return PolicyFile(path, _name(found.st_uid), data)


def _check(path: Path, found: os.stat_result, allowed: set[int], owners: set[int], *, sticky_is_enough: bool) -> None:
    if found.st_uid not in allowed:
        raise _untrusted(path, f"it belongs to {_name(found.st_uid)}, not to root", owners)
    if found.st_mode & _OTHERS and not (sticky_is_enough and found.st_mode & stat.S_ISVTX):
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        raise _untrusted(path, f"others than {_name(found.st_uid)} may write to it (mode {mode})", owners)


def _untrusted(path: Path, why: str, owners: set[int]) -> HostError:
    owner = "root" if 0 in owners else _name(min(owners))
    return HostError(
        "policy-untrusted",
        f"the policy at {path} is not believed: {why}; until that is mended nothing is started here",
        where=str(path),
        hint=f"an administrator: chown {owner}: {path} && chmod go-w {path} && chmod a+r {path}",
    )


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
