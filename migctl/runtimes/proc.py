"""What /proc tells about one process, safe against a pid that is used again."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.others.procstat import Stat, parse_stat

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


def started_at(ticks: int) -> float:
    """The moment of a process's start time, in Unix seconds."""
    booted_at = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return booted_at + ticks / os.sysconf("SC_CLK_TCK")


def parent(pid: int) -> int | None:
    """The pid of the parent; `None` when there is no such process."""
    found = stat(pid)
    return None if found is None else found.parent


def words(pid: int) -> list[str]:
    """The command line; nothing when it is gone or another user's secret."""
    try:
        # Asked of every process of the machine, by every command: a path of pathlib takes longer than all the rest.
        with open(f"{PROC}/{pid}/cmdline", "rb", buffering=0) as file:  # noqa: PTH123 -- as said
            return file.read().decode("utf-8", "replace").split("\0")
    except OSError:
        return []


def pids() -> list[int]:
    """All processes that this user may see."""
    return [int(name) for name in os.listdir(PROC) if name.isdecimal()]  # noqa: PTH208 -- names only, many of them


def environ(pid: int) -> dict[str, str]:
    """What it was started with; nothing when it is gone or another user's secret."""
    try:
        text = (PROC / str(pid) / "environ").read_bytes().decode("utf-8", "replace")
    except OSError:
        return {}
    return dict(pair.split("=", 1) for pair in text.split("\0") if "=" in pair)


def opened(pid: int, descriptor: int) -> str:
    """The path behind a descriptor of it, ending in ` (deleted)` where that is gone; nothing where it may not be seen."""
    try:
        return os.readlink(f"{PROC}/{pid}/fd/{descriptor}")  # noqa: PTH115 -- a text, not a path
    except OSError:
        return ""


def owner(pid: int) -> int:
    """Its real user, which no process can choose; -1 when it is gone.

    Not the owner of /proc/PID: that is root for all that may not be dumped, and a process may say so of itself (prctl(2)).
    """
    try:
        text = (PROC / str(pid) / "status").read_text(errors="replace")
    except OSError:
        return -1
    found = re.search(r"^Uid:\t([0-9]+)\t", text, re.MULTILINE)
    return int(found[1]) if found else -1


def is_in_this_namespace(pid: int) -> bool:
    """Whether it counts pids as this process does, as a container's processes do not."""
    try:
        return os.readlink(PROC / str(pid) / "ns/pid") == os.readlink(PROC / "self/ns/pid")  # noqa: PTH115 -- as above
    except OSError:
        return False


def children(pid: int) -> list[int]:
    """The processes right below a process with one thread."""
    try:
        return [int(word) for word in (PROC / f"{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return [child for child in pids() if parent(child) == pid]  # a kernel without CONFIG_PROC_CHILDREN


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
    below: dict[int, list[int]] = {}
    for member in pids():
        above = parent(member)
        if above is not None:
            below.setdefault(above, []).append(member)
    found: list[int] = []
    todo = [pid]
    while todo:
        next_ones = below.get(todo.pop(0), [])
        found += next_ones
        todo += next_ones
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
