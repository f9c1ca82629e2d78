"""The processes of a job with their threads: what they are, where they may run, and what CPU time they took."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.pinning import Process, Thread
from migctl.core.others.procstat import Stat, parse_stat

_ROOT = Path("/")


def process_tree(pid: int, root: Path = _ROOT) -> tuple[Process, ...]:
    """A process and all below it, parents first; empty where there is none, or where it may not be seen (hidepid).

    Processes come and go while this reads: one that ends meanwhile is left out.
    """
    found: list[Process] = []
    for member, parent in _family(pid, root):
        threads = tuple(_threads(member, root))
        if threads:
            found.append(Process(pid=member, parent=parent, command=_command(member, root), threads=threads))
    return tuple(found)


def tree_cpu_s(pid: int, root: Path = _ROOT) -> float | None:
    """CPU seconds of a process, of all below it, and of those below that have ended; `None` where they are not seen.

    The kernel adds a child's time to its parent's when the parent has waited for it (proc_pid_stat(5)), so nothing counts twice.
    """
    ticks: list[int] = []
    for member, _ in _family(pid, root):
        stat = _stat(f"{root}/proc/{member}/stat")
        if stat is not None:
            ticks.append(stat.cpu_ticks)
    return sum(ticks) / os.sysconf("SC_CLK_TCK") if ticks else None


def _family(pid: int, root: Path) -> Iterator[tuple[int, int]]:
    """(process, parent), parents first."""
    waiting = [(pid, 0)]
    by_parent: dict[int, list[int]] | None = None
    while waiting:
        member, parent = waiting.pop(0)
        yield member, parent
        children = _children(member, root)
        if children is None:
            # A kernel without CONFIG_PROC_CHILDREN: every process is asked for its parent, once.
            by_parent = _by_parent(root) if by_parent is None else by_parent
            children = by_parent.get(member, [])
        waiting += [(child, member) for child in children]


def _children(pid: int, root: Path) -> list[int] | None:
    """Children of all threads; `None` where the kernel has no such files."""
    found: list[int] = []
    known = True
    for tid in _numbers(f"{root}/proc/{pid}/task"):
        text = _read(f"{root}/proc/{pid}/task/{tid}/children")
        known = known and text is not None
        found += [int(word) for word in (text or "").split()]
    return found if known else None


def _by_parent(root: Path) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for pid in _numbers(f"{root}/proc"):
        stat = _stat(f"{root}/proc/{pid}/stat")
        if stat is not None:
            found.setdefault(stat.parent, []).append(pid)
    return found


def _threads(pid: int, root: Path) -> Iterator[Thread]:
    for tid in _numbers(f"{root}/proc/{pid}/task"):
        folder = f"{root}/proc/{pid}/task/{tid}"
        stat = _stat(f"{folder}/stat")
        status = dict(line.partition(":")[::2] for line in (_read(f"{folder}/status") or "").splitlines())
        if stat is None or "Cpus_allowed_list" not in status or stat.ended:
            continue
        yield Thread(
            tid=tid,
            name=status.get("Name", "").strip(),
            cpus=CpuSet.parse(status["Cpus_allowed_list"]),
            runnable=stat.state == "R",
            last_cpu=stat.last_cpu,
        )


def _stat(path: str) -> Stat | None:
    return parse_stat(_read(path) or "")


def _command(pid: int, root: Path) -> tuple[str, ...]:
    return tuple((_read(f"{root}/proc/{pid}/cmdline") or "").rstrip("\0").split("\0"))


def _numbers(folder: str) -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(folder) if name.isdecimal())  # noqa: PTH208 -- names alone, many of them
    except OSError:
        return []


def _read(path: str) -> str | None:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 -- thousands of small files: pathlib doubles the time
            return file.read().decode("utf-8", "replace")
    except OSError:
        return None
