"""What logical CPUs have done since boot, from /proc/stat."""

from __future__ import annotations

import os
from pathlib import Path

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.seeing.throughput import CpuTimes


def cpu_times(cpus: CpuSet, root: Path = Path("/")) -> CpuTimes | None:
    """The sum over these CPUs; `None` where the kernel does not tell of one of them (lxcfs hides some).

    Fields: user nice system idle iowait irq softirq steal; guest time is part of user (proc_stat(5)).
    """
    try:
        text = (root / "proc/stat").read_text("ascii", "replace")
    except OSError:
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    found: dict[int, list[int]] = {}
    for line in text.splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name[3:].isdecimal() and len(fields) >= 5:
            found[int(name[3:])] = [int(field) for field in fields[:8]]
        elif not name.startswith("cpu"):
            break
    if not cpus or not all(cpu in found for cpu in cpus):
        return None
    rows = [found[cpu] for cpu in cpus]
    return CpuTimes(
        busy_s=sum(sum(row) - row[3] - row[4] for row in rows) / ticks,
        iowait_s=sum(row[4] for row in rows) / ticks,
        idle_s=sum(row[3] for row in rows) / ticks,
    )
