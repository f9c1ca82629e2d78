"""What one process has used, from its /proc files, which stay open so that a second look costs little."""

from __future__ import annotations

import os
from typing import Final

from migctl.core.others.procstat import parse_stat
from migctl.core.seeing.counters import ProcessCounters
from migctl.host.keptfile import KeptFile, read_once

_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_SMALL: Final = 1024
NO_QUEUE_TIMES: Final = "the kernel does not account it: CONFIG_SCHEDSTATS, or sysctl kernel.task_delayacct=1"
NO_DELAYS: Final = "the kernel does not account it: sysctl kernel.task_delayacct=1"
NOT_ALLOWED: Final = "needs root: the processes are another user's"


class ProcessMeter:
    """One process.

    Args:
        pid: as this machine sees it.
        proc: the folder /proc.
        delays: whether the kernel accounts block I/O delays now.
    """

    __slots__ = (
        "_delays",
        "_forked",
        "_io",
        "_last",
        "_line",
        "_schedstat",
        "_stat",
        "children",
        "comm",
        "command",
        "group",
        "loads_data",
        "others",
        "over",
        "pid",
        "proc",
    )

    def __init__(self, pid: int, proc: str, *, delays: bool, group: bool) -> None:
        self.pid = pid
        self.proc = proc
        self.group = group
        """Its bytes are counted by its cgroup."""
        self.children: tuple[int, ...] = ()
        self.others: tuple[int, ...] = ()
        """Those of them that other threads than the first have forked."""
        self.comm = ""
        self.command: tuple[str, ...] = ()
        self.loads_data = False
        self.over = False
        """It has ended, and nobody has waited for it yet."""
        self._delays = delays
        self._line = b""
        self._last: ProcessCounters | None = None
        """What the line said."""
        self._forked = KeptFile(f"{proc}/{pid}/task/{pid}/children")
        self._stat = KeptFile(f"{proc}/{pid}/stat", _SMALL)
        self._schedstat: KeptFile | None = KeptFile(f"{proc}/{pid}/schedstat", _SMALL)
        self._io: KeptFile | None = None if group else KeptFile(f"{proc}/{pid}/io", _SMALL)

    def read(self) -> ProcessCounters | None:
        """What it has used; `None` once it is gone."""
        try:
            line = self._stat.read()
        except OSError:
            return None
        if line == self._line and self._last is not None and self._last.loads_data == self.loads_data:
            return self._last  # it has slept since
        stat = parse_stat(line.decode("utf-8", "replace"))
        self._line, self._last = line, None
        if stat is None or stat.collected:
            return None
        self.over = stat.ended
        self.comm = stat.name
        self._last = ProcessCounters(
            pid=self.pid,
            parent=stat.parent,
            started_s=stat.start_ticks * _TICK_S,
            cpu_s=stat.own_ticks * _TICK_S,
            children_s=stat.children_ticks * _TICK_S,
            io_delay_s=stat.io_delay_ticks * _TICK_S if self._delays else None,
            resident_bytes=stat.resident_pages * _PAGE,
            threads=stat.threads,
            blocked=stat.state == "D",
            loads_data=self.loads_data,
        )
        return self._last

    def look_at_children(self) -> tuple[int, ...] | None:
        """Pids of the children of its main thread, which forks the workers; `None` where the kernel has no such file."""
        try:
            words = self._forked.read().split()
        except FileNotFoundError:
            return None if os.path.exists(f"{self.proc}/{self.pid}") else ()  # noqa: PTH110 -- a string, in a path taken each second
        except OSError:
            return ()
        if not words:
            self._forked.close()  # most processes never fork: their descriptors are left to others
        return tuple([int(word) for word in words])

    def look_at_command(self) -> None:
        """Read its command line anew: it may have become another program since."""
        try:
            text = read_once(f"{self.proc}/{self.pid}/cmdline").decode("utf-8", "replace")
            self.command = tuple(text.rstrip("\0").split("\0"))
        except OSError:
            self.command = ()

    def close(self) -> None:
        """Give the descriptors back."""
        for file in (self._stat, self._forked, self._schedstat, self._io):
            if file is not None:
                file.close()

    def waited_s(self) -> float | None:
        """Seconds in which its main thread was ready and had no CPU; `None` where it is not accounted.

        `run time, waiting time, slices` in nanoseconds (Documentation/scheduler/sched-stats.rst); all 0: not accounted.
        """
        if self._schedstat is None:
            return None
        try:
            words = self._schedstat.read().split()
        except OSError:
            self._schedstat = None
            return None
        return int(words[1]) / 1e9 if len(words) == 3 and words[2] != b"0" else None

    def bytes(self) -> tuple[int, int] | None:
        """From and to block devices; `None` where it does not tell, or its cgroup does.

        `read_bytes` and `write_bytes` of /proc/PID/io, which only its user and root may read (proc_pid_io(5)).
        """
        if self._io is None:
            return None
        try:
            rows = self._io.read().split(b"\n")
            return int(rows[4].partition(b":")[2]), int(rows[5].partition(b":")[2])
        except (OSError, IndexError, ValueError):
            self._io.close()
            self._io = None
            return None
