"""Whether a folder could be made and written, found out without leaving anything behind."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from migctl.errors import HostError
from migctl.host.caller import Caller
from migctl.host.paths import check_private, check_shared, no_private, no_shared

_KERNEL = frozenset(
    {
        *("autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "efivarfs"),
        *("fusectl", "mqueue", "nsfs", "proc", "pstore", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs", "tracefs"),
    }
)
"""File systems of the kernel's own, in which nobody keeps files (`nodev` in proc_filesystems(5), less those for storage)."""


def private_problem(folder: Path, caller: Caller) -> HostError | None:
    """What would keep `make_private`, and files in the folder, from being made."""
    try:
        if (why := _why_not(folder)) is not None:
            return no_private(folder, why)
        if folder.exists():
            check_private(folder, caller)
    except HostError as error:
        return error
    return None


def shared_problem(folder: Path) -> HostError | None:
    """What would keep `make_shared`, and files in the folder, from being made."""
    try:
        if (why := _why_not(folder)) is not None:
            return no_shared(folder, why)
        if folder.exists():
            check_shared(folder, changing=False)
    except HostError as error:
        return error
    return None


def file_problem(path: Path) -> str | None:
    """Why a file could not be made or replaced here, as the end of a sentence."""
    return _why_not(path.parent)


def _why_not(folder: Path) -> str | None:
    """As the end of a sentence; `None`: it could be written, or made where it is missing."""
    if folder.is_symlink():
        return "is a link, which is not followed"
    try:
        there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
        if not stat.S_ISDIR(there.stat().st_mode):
            return f"{'is' if there == folder else f'cannot be made: {there} is'} no folder"
        number = there.stat().st_dev
    except OSError as error:  # a folder above it may not even be looked into
        return f"cannot be used: {error.strerror}"
    cannot = "cannot be written" if there == folder else "cannot be made"
    if kind := _kernel_kind(number):
        return f"{cannot}: {there} lies in the kernel's {kind}, which keeps no files"
    if reason := _refusal(there):
        return f"{cannot}: {there}: {reason}"
    return None


def _refusal(folder: Path) -> str | None:
    """Why no file can be made in a folder that is there, asked of its file system with a file that never gets a name."""
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError as error:
        # File systems without such files (NFS, older overlays) and kernels say so in these ways (open(2), O_TMPFILE).
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL):
            return error.strerror
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            return os.strerror(errno.EROFS)
        return None if os.access(folder, os.W_OK | os.X_OK) else os.strerror(errno.EACCES)
    return None


def _kernel_kind(number: int) -> str | None:
    """The kind of the mounted file system with this number, where it is one of the kernel's (proc_pid_mountinfo(5))."""
    wanted = f"{os.major(number)}:{os.minor(number)}"
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return None
    kinds = (
        behind.split()[0]
        for before, dash, behind in (line.partition(" - ") for line in lines)
        if dash and before.split()[2] == wanted
    )
    return next((kind for kind in kinds if kind in _KERNEL), None)
