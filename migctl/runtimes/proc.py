"""What /proc tells about one process, safe against a pid that is used again."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from migctl.core.cpuset import CpuSet
from migctl.core.procstat import Stat, parse_stat

PROC = Path("/proc")


def boot_id() -> str:
    """The kernel's id of this boot; pids and start ticks mean nothing beyond it."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def stat(pid: int) -> Stat | None:
    """Its line of numbers; `None` when there is no such process."""
    try:
        return parse_stat((PROC / str(pid) / "stat").read_text(errors="replace"))
    except OSError:
        return None


def start_ticks(pid: int) -> int | None:
    """Start time in clock ticks since boot; `None` when there is no such process."""
    found = stat(pid)
    return None if found is None else found.start_ticks


def parent(pid: int) -> int | None:
    """The pid of the parent; `None` when there is no such process."""
    found = stat(pid)
    return None if found is None else found.parent


def words(pid: int) -> list[str]:
    """The command line; nothing when it is gone or another user's secret."""
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return []


def is_alive(pid: int, ticks: int | None) -> bool:
    """This very process still runs; a zombie does not."""
    found = stat(pid)
    return found is not None and (ticks is None or found.start_ticks == ticks) and not found.ended


def open_pidfd(pid: int | None, ticks: int | None) -> int | None:
    """A pidfd of exactly this process, to be closed by the caller; `None` when it is gone or the pid is another's by now."""
    if pid is None:
        return None
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return None
    # Checked after opening: from here on the descriptor cannot come to mean another process.
    if is_alive(pid, ticks):
        return fd
    os.close(fd)
    return None


@dataclass(frozen=True, slots=True)
class Unread:
    """What the kernel does not show of a living process, and why."""

    reason: str


def cpus_allowed(pid: int) -> CpuSet | Unread | None:
    """The CPUs that the kernel lets the process run on (Cpus_allowed_list); `None` when it is gone."""
    file = PROC / str(pid) / "status"
    try:
        text = file.read_text(errors="replace")
    except OSError as error:
        # Where /proc hides the processes of others (hidepid) a living one looks like none at all; a signal tells.
        return Unread(f"{file} cannot be read: {error.strerror}") if _exists(pid) else None
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name == "Cpus_allowed_list":
            return CpuSet.parse(value)
    return Unread(f"{file} has no Cpus_allowed_list")


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def descendants(pid: int) -> list[int]:
    """All processes below `pid`, parents first."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir(PROC):  # noqa: PTH208 -- names only: hundreds of Path objects are not wanted here
        if entry.isdigit():
            above = parent(int(entry))
            if above is not None:
                children.setdefault(above, []).append(int(entry))
    found: list[int] = []
    todo = [pid]
    while todo:
        below = children.get(todo.pop(0), [])
        found += below
        todo += below
    return found


def why_stuck(pid: int | None) -> str:
    """In words, where in the kernel a process waits that SIGKILL does not end."""
    if pid is None:
        return "unknown"
    try:
        channel = (PROC / str(pid) / "wchan").read_text().strip("\0\n ")
    except OSError:
        channel = ""
    found = stat(pid)
    state = found.state if found is not None else "gone"
    return f"state {state}, waits in {channel if channel not in ('', '0') else 'an unknown place'}"
