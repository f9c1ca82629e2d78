"""Who else works on some logical CPUs: all processes of the machine, looked at twice."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

from migctl.core.others.procstat import parse_stat
from migctl.core.seeing.readings import Stranger

_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_WORTH_CPUS: Final = 0.05
_MOST: Final = 5
_KERNEL: Final = 2
"""Parent of the kernel's own threads, which are no process that anybody could move."""


class Strangers:
    """The CPU use of all processes between two scans.

    Args:
        root: below which /proc lies.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._proc = f"{root}/proc".replace("//", "/")
        self._used: dict[tuple[int, int], tuple[float, float]] = {}
        self._last: dict[int, tuple[str, int, float]] = {}
        """pid → name, CPU it was last on, CPUs used."""

    def scan(self) -> None:
        """Look at every process once: about 15 µs each."""
        now_s = time.monotonic()
        used: dict[tuple[int, int], tuple[float, float]] = {}
        self._last = {}
        for name in os.listdir(self._proc):  # noqa: PTH208 -- names alone, many of them
            if not name.isdecimal():
                continue
            try:
                with open(f"{self._proc}/{name}/stat", "rb") as file:  # noqa: PTH123 -- pathlib doubles the time
                    stat = parse_stat(file.read().decode("utf-8", "replace"))
            except OSError:
                continue
            if stat is None or stat.parent == _KERNEL:
                continue
            key, cpu_s = (int(name), stat.start_ticks), stat.own_ticks * _TICK_S
            used[key] = (now_s, cpu_s)
            before = self._used.get(key)
            if before is not None and now_s > before[0]:
                cpus = (cpu_s - before[1]) / (now_s - before[0])
                if cpus >= _WORTH_CPUS:
                    self._last[int(name)] = (stat.name, stat.last_cpu, cpus)
        self._used = used

    def on(self, cpus: Collection[int], own: Collection[int]) -> tuple[Stranger, ...]:
        """Those that were last seen on these CPUs, by what they used, without the given pids."""
        found = [
            Stranger(pid, comm, used) for pid, (comm, cpu, used) in self._last.items() if cpu in cpus and pid not in own
        ]
        return tuple(sorted(found, key=lambda one: (-one.used_cpus, one.pid))[:_MOST])

    def hidden(self) -> str | None:
        """Why others' processes cannot be seen here; `None` where they can."""
        try:
            mounts = Path(f"{self._proc}/self/mountinfo").read_text("utf-8", "replace")
        except OSError:
            return "/proc cannot be read"
        for line in mounts.splitlines():
            before, _, after = line.partition(" - ")
            if before.split()[4:5] == [self._proc] and after.startswith("proc "):
                return "/proc is mounted with hidepid" if "hidepid=" in after and "hidepid=0" not in after else None
        return None
