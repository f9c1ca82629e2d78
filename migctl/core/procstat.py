"""One line of /proc/PID/stat, or of a thread's, as proc_pid_stat(5) describes it."""

from __future__ import annotations

from dataclasses import dataclass

_FEWEST = 20
"""Up to the start time, which every kernel tells."""


@dataclass(frozen=True, slots=True)
class Stat:
    """What the kernel tells about a process or thread in one line; numbers are made of it only where they are asked for."""

    _fields: tuple[str, ...]
    """From the third on: field n of the manual page is at n - 3."""

    @property
    def state(self) -> str:
        """One letter: R running, S sleeping, D waiting for a device, Z ended and not collected yet."""
        return self._fields[0]

    @property
    def ended(self) -> bool:
        """It runs no more, whether or not somebody has collected it."""
        return self.state in ("Z", "X", "x")

    @property
    def parent(self) -> int:
        """The parent's pid."""
        return int(self._fields[1])

    @property
    def session(self) -> int:
        """The pid of the session's leader."""
        return int(self._fields[3])

    @property
    def flags(self) -> int:
        """The PF_… of the kernel's include/linux/sched.h."""
        return int(self._fields[6])

    @property
    def cpu_ticks(self) -> int:
        """CPU time in clock ticks, with that of the children that were waited for."""
        return sum(int(field) for field in self._fields[11:15])

    @property
    def start_ticks(self) -> int:
        """When it started, in clock ticks since boot: with the pid its identity, since pids are used again."""
        return int(self._fields[19])

    @property
    def last_cpu(self) -> int:
        """The logical CPU that it ran on last."""
        return int(self._fields[36])


def parse_stat(text: str) -> Stat | None:
    """The line as a value; `None` for no such line, as when the process ended while it was read."""
    # The second field, the name, may hold spaces and brackets: what is counted begins behind its last bracket.
    fields = tuple(text.rpartition(")")[2].split())
    return Stat(fields) if len(fields) >= _FEWEST else None
