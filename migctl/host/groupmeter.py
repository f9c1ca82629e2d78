"""What the cgroup of a container counts, by cgroup v1, v2, or both beside each other; a figure without a file says which switch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from migctl.core.seeing.counters import GroupCounters
from migctl.host.keptfile import KeptFile

NO_PRESSURE: Final = "the kernel does not account pressure here: boot with psi=1 and cgroup v2 (a mounted cgroup2)"
_UNLIMITED: Final = 1 << 60
"""cgroup v1 writes a limit of about 2**63 where there is none."""
_RARELY: Final = 5
"""Memory changes slowly and costs more to read: every so many readings."""


class GroupMeter:
    """The cgroup of one process, found once.

    Args:
        pid: main process of a container, as the host sees it.
        root: below which /proc and /sys lie.
    """

    def __init__(self, pid: int, root: Path = Path("/")) -> None:
        self._files: dict[str, KeptFile | None] = {}
        self._folders = _folders(pid, root)
        self._seen: dict[str, int | None] = {}
        self._rounds = pid % _RARELY
        self._unknown: dict[str, str] = {}
        self._procs: tuple[KeptFile, ...] | None = None

    def close(self) -> None:
        """Give the descriptors back."""
        for file in (*self._files.values(), *(self._procs or ())):
            if file is not None:
                file.close()

    def read(self) -> GroupCounters | None:
        """What it counts now; `None` where it has no cgroup of its own, or is gone."""
        if not self._folders:
            return None
        cpu, throttled = self._cpu()
        pressures = {name: self._pressure(name) for name in ("cpu", "io", "memory")}
        reads, writes = self._bytes()
        if self._rounds % _RARELY == 0 or not self._seen:
            self._memory()
        self._rounds += 1
        if cpu is None and not any(value is not None for value in pressures.values()):
            return None
        return GroupCounters(
            cpu_s=cpu,
            throttled_s=throttled,
            pressure_cpu_s=pressures["cpu"],
            pressure_io_s=pressures["io"],
            pressure_memory_s=pressures["memory"],
            read_bytes=reads,
            written_bytes=writes,
            memory_bytes=self._seen.get("memory"),
            memory_limit_bytes=self._seen.get("limit"),
            oom_kills=self._seen.get("oom_kills"),
            unknown=self._unknown,
        )

    def pids(self) -> tuple[int, ...] | None:
        """Its processes and those of the groups below, as the host sees them; `None` where it cannot be read."""
        if self._procs is None or self._rounds % _RARELY == 0:
            for file in self._procs or ():
                file.close()
            self._procs = self._lists()
        found: set[int] = set()
        for file in self._procs:
            try:
                found.update(int(word) for word in file.read().split())
            except OSError:
                self._procs = None
                return None
        return tuple(sorted(found - {0})) if self._procs else None

    def _lists(self) -> tuple[KeptFile, ...]:
        """The list of its processes and of each group below, which a program in the container may have made."""
        for controller in ("", "pids", "cpuacct", "cpu"):
            folder = self._folders.get(controller)
            if folder is not None:
                below = [name for name, _, files in os.walk(folder) if "cgroup.procs" in files]
                if below:
                    return tuple(KeptFile(f"{name}/cgroup.procs") for name in below)
        return ()

    # -- each figure

    def _cpu(self) -> tuple[float | None, float | None]:
        fields = _fields(self._text("", "cpu.stat"))
        used, throttled = fields.get("usage_usec"), fields.get("throttled_usec")
        cpu_s = used / 1e6 if used is not None else None
        throttled_s = throttled / 1e6 if throttled is not None else None
        if (text := self._text("cpuacct", "cpuacct.usage")) is not None:
            cpu_s = int(text) / 1e9
        if throttled_s is None and (spent := _fields(self._text("cpu", "cpu.stat")).get("throttled_time")) is not None:
            throttled_s = spent / 1e9
        if throttled_s is None:
            self._unknown["throttled_share"] = "its cgroup has no cpu controller"
        return cpu_s, throttled_s

    def _pressure(self, name: str) -> float | None:
        """`some avg10=0.00 avg60=0.00 avg300=0.00 total=0` (Documentation/accounting/psi.rst)."""
        text = self._text("", f"{name}.pressure")
        if text is None or not text.startswith(b"some"):
            self._unknown[f"pressure_{name}_share"] = NO_PRESSURE
            return None
        line, _, _ = text.partition(b"\n")
        return int(line.rpartition(b"=")[2]) / 1e6

    def _bytes(self) -> tuple[int | None, int | None]:
        if (text := self._text("", "io.stat")) is not None:
            rows = [dict(word.partition(b"=")[::2] for word in row.split()[1:]) for row in text.splitlines()]
            return sum(int(row.get(b"rbytes", 0)) for row in rows), sum(int(row.get(b"wbytes", 0)) for row in rows)
        text = self._text("blkio", "blkio.throttle.io_service_bytes_recursive")
        if text is None:
            text = self._text("blkio", "blkio.throttle.io_service_bytes")
        if text is None:
            why = "its cgroup has no io controller"
            self._unknown |= {"read_mib_s": why, "write_mib_s": why}
            return None, None
        rows1 = [row.split() for row in text.splitlines()]
        kinds = {kind: sum(int(r[2]) for r in rows1 if len(r) == 3 and r[1] == kind) for kind in (b"Read", b"Write")}
        return kinds[b"Read"], kinds[b"Write"]

    def _memory(self) -> None:
        stat = _fields(self._text("", "memory.stat") or self._text("memory", "memory.stat"))
        used = _number(self._text("", "memory.current") or self._text("memory", "memory.usage_in_bytes"))
        limit = _number(self._text("", "memory.max") or self._text("memory", "memory.limit_in_bytes"))
        idle = stat.get("total_inactive_file", stat.get("inactive_file", 0))
        events = _fields(self._text("", "memory.events") or self._text("memory", "memory.oom_control"))
        self._seen = {
            "memory": max(0, used - idle) if used is not None else None,
            "limit": limit if limit is not None and limit < _UNLIMITED else None,
            "oom_kills": events.get("oom_kill"),
        }

    def _text(self, controller: str, name: str) -> bytes | None:
        """A file's content; `None` where there is none. What was missing once is not looked for again."""
        key = f"{controller}/{name}"
        if key not in self._files:
            folder = self._folders.get(controller)
            self._files[key] = KeptFile(f"{folder}/{name}") if folder is not None else None
        file = self._files[key]
        if file is None:
            return None
        try:
            return file.read()
        except OSError:
            file.close()
            self._files[key] = None
            return None


def _folders(pid: int, root: Path) -> dict[str, str]:
    """Controller (nothing for v2) → folder of the process's cgroup; empty where that is the root's, which is nobody's own."""
    base = str(root).rstrip("/")
    try:
        groups = Path(f"{base}/proc/{pid}/cgroup").read_text("utf-8", "replace")
        mounts = Path(f"{base}/proc/self/mountinfo").read_text("utf-8", "replace")
    except OSError:
        return {}
    points: dict[str, tuple[str, str]] = {}
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        if len(fields) >= 5 and len(tail) >= 3 and tail[0] in ("cgroup", "cgroup2"):
            names = [""] if tail[0] == "cgroup2" else tail[2].split(",")
            for name in names:
                points.setdefault(name, (fields[3], fields[4]))
    found: dict[str, str] = {}
    for line in groups.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for name in controllers.split(",") if number != "0" else [""]:
            if name in points and path not in ("", "/") and ".." not in path.split("/"):
                inside, point = points[name]
                own = path.removeprefix(inside.rstrip("/")) if inside != "/" else path
                found[name] = f"{base}{point}{own}"
    return found


def _fields(text: bytes | None) -> Mapping[str, int]:
    rows = [row.split() for row in (text or b"").splitlines()]
    return {row[0].decode(): int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def _number(text: bytes | None) -> int | None:
    word = (text or b"").strip()
    return int(word) if word.isdigit() else None
