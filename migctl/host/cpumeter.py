"""What each logical CPU of the machine has done, from /proc/stat."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from migctl.core.seeing.counters import CpuCounters
from migctl.host.keptfile import KeptFile

_BYTES_A_CPU = 128


class CpuMeter:
    """All logical CPUs in one read.

    Args:
        root: below which /proc lies.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._file = KeptFile(f"{root}/proc/stat".replace("//", "/"), _BYTES_A_CPU * ((os.cpu_count() or 1) + 64))
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")

    def read(self) -> Mapping[int, CpuCounters]:
        """Logical CPU → what it has done; those that lxcfs hides are left out.

        Fields: user nice system idle iowait irq softirq steal; guest time is part of user (proc_stat(5)). Time that a hypervisor
        took away (steal) counts as busy: nobody else on this machine had it.

        Raises:
            OSError: /proc cannot be read.
        """
        tick = self._tick_s
        found: dict[int, CpuCounters] = {}
        for line in self._file.read().split(b"\n")[1:]:
            if not line.startswith(b"cpu"):
                break
            name, user, nice, system, idle, iowait, irq, softirq, steal, *_ = line.split()
            busy = int(user) + int(nice) + int(system) + int(irq) + int(softirq) + int(steal)
            found[int(name[3:])] = CpuCounters(busy_s=busy * tick, iowait_s=int(iowait) * tick, idle_s=int(idle) * tick)
        return found

    def close(self) -> None:
        """Give the descriptor back."""
        self._file.close()
