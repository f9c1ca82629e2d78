"""What a set of process trees costs: processes, memory, context switches and CPU time, from /proc."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def parents() -> dict[int, int]:
    """The parent of every process."""
    found: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found[int(entry.name)] = int(_stat(entry)[1])
            except OSError:
                continue
    return found


def tree(roots: Iterable[int], above: dict[int, int] | None = None) -> set[int]:
    """These processes and all below them."""
    above = parents() if above is None else above
    found = {pid for pid in roots if pid in above}
    while more := {pid for pid, parent in above.items() if parent in found} - found:
        found |= more
    return found


def _stat(process: Path) -> list[str]:
    """/proc/PID/stat from the third field on."""
    return (process / "stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()


def cpu_s(pids: Iterable[int]) -> float:
    """User and system time, with that of children that have ended."""
    ticks = 0
    for pid in pids:
        try:
            ticks += sum(int(field) for field in _stat(Path(f"/proc/{pid}"))[11:15])
        except OSError:
            continue
    return ticks / TICKS


def switches(pids: Iterable[int]) -> int:
    """Context switches of all their threads, of both kinds."""
    count = 0
    for pid in pids:
        for status in Path(f"/proc/{pid}/task").glob("*/status"):
            try:
                lines = status.read_text("utf-8").splitlines()
            except OSError:
                continue
            count += sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
    return count


def memory_mib(pids: Iterable[int]) -> float | None:
    """Resident memory, pages shared among processes counted once (PSS); `None` where the kernel does not tell."""
    kib = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8").splitlines()
        except FileNotFoundError:
            if Path(f"/proc/{pid}").exists():
                return None
            continue
        except OSError:
            return None
        kib += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kib / 1024


def settle(pids: set[int], limit_s: float = 10) -> None:
    """Wait until these processes do nothing any more."""
    end = time.monotonic() + limit_s
    before = cpu_s(pids)
    while time.monotonic() < end:
        time.sleep(0.2)
        now = cpu_s(pids)
        if now - before < 0.03:
            return
        before = now


@dataclass(frozen=True, slots=True)
class Machine:
    """Busy time of all CPUs together since the start, in seconds, and the moment."""

    busy_s: float
    at: float

    @classmethod
    def now(cls) -> Machine:
        fields = [int(field) for field in Path("/proc/stat").read_text("utf-8").splitlines()[0].split()[1:]]
        # user nice system idle iowait irq softirq steal: proc(5)
        return cls((sum(fields[:3]) + sum(fields[5:8])) / TICKS, time.monotonic())
