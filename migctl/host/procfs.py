"""What /proc tells about this process and others: CPUs, boot, start times, memory."""

from __future__ import annotations

import os
import pwd
import re
from pathlib import Path

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.others.procstat import parse_stat
from migctl.errors import HostError


def own_affinity() -> CpuSet:
    """Logical CPUs that this process may run on; the cgroup's cpuset is already applied by the kernel."""
    return CpuSet(os.sched_getaffinity(0))


_KIB = re.compile(r"([0-9]{1,15}) kB")


def boot_id(root: Path = Path("/")) -> str:
    """This boot's random id: instances and start times belong to one boot.

    Raises:
        HostError: the kernel does not tell.
    """
    path = root / "proc/sys/kernel/random/boot_id"
    text = _read(path)
    if not text:
        raise HostError(
            "no-boot-id",
            f"{path} cannot be read, so instances of an earlier boot cannot be told from living ones",
            where=str(path),
            hint="migctl needs /proc of the machine",
        )
    return text


def memory_total_mib(root: Path = Path("/")) -> int | None:
    """RAM of the machine in MiB, `None` if unknown."""
    for line in (_read(root / "proc/meminfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name == "MemTotal":
            # "kB" in this file are KiB (proc(5)).
            found = _KIB.fullmatch(value.strip())
            return int(found[1]) // 1024 if found is not None else None
    return None


def process_start_ticks(pid: int, root: Path = Path("/")) -> int | None:
    """When a process started, in clock ticks since boot; `None` if there is no such process."""
    stat = parse_stat(_read(root / f"proc/{pid}/stat") or "")
    return None if stat is None else stat.start_ticks


def process_words(pid: int, root: Path = Path("/")) -> str:
    """A process in words, as far as this user may know: `pid 4711 (python, of alice)`."""
    folder = root / f"proc/{pid}"
    name = _read(folder / "comm")
    try:
        uid = folder.stat().st_uid
    except OSError:
        return f"pid {pid}"
    try:
        owner = pwd.getpwuid(uid).pw_name
    except KeyError:
        owner = f"uid {uid}"
    return f"pid {pid} ({name}, of {owner})" if name else f"pid {pid} (of {owner})"


def _read(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return None
