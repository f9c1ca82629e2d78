"""What /proc tells about one process, safe against a pid that is used again."""

from __future__ import annotations

import os
from pathlib import Path

from migctl.core.cpuset import CpuSet

PROC = Path("/proc")


def boot_id() -> str:
    """The kernel's id of this boot; pids and start ticks mean nothing beyond it."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the third on: the second, the name, may hold spaces and brackets."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()


def start_ticks(pid: int) -> int | None:
    """Start time in clock ticks since boot (proc_pid_stat(5), field 22); `None` when there is no such process."""
    fields = _stat(pid)
    return None if fields is None else int(fields[19])


def parent(pid: int) -> int | None:
    """The pid of the parent (field 4); `None` when there is no such process."""
    fields = _stat(pid)
    return None if fields is None else int(fields[1])


def words(pid: int) -> list[str]:
    """The command line; nothing when it is gone or another user's secret."""
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return []


def is_alive(pid: int, ticks: int | None) -> bool:
    """This very process still runs; a zombie does not."""
    fields = _stat(pid)
    return fields is not None and (ticks is None or int(fields[19]) == ticks) and fields[0] not in "ZX"


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


def cpus_allowed(pid: int) -> CpuSet | None:
    """The CPUs that the kernel lets the process run on (Cpus_allowed_list); `None` when it is gone."""
    try:
        text = (PROC / str(pid) / "status").read_text(errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name == "Cpus_allowed_list":
            return CpuSet.parse(value)
    return None


def descendants(pid: int) -> list[int]:
    """All processes below `pid`, parents first."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir(PROC):  # noqa: PTH208 -- names only: hundreds of Path objects are not wanted here
        if entry.isdigit():
            fields = _stat(int(entry))
            if fields is not None:
                children.setdefault(int(fields[1]), []).append(int(entry))
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
    fields = _stat(pid)
    state = fields[0] if fields is not None else "gone"
    return f"state {state}, waits in {channel if channel not in ('', '0') else 'an unknown place'}"
