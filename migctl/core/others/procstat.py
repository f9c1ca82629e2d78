"""One line of /proc/PID/stat, or of a thread's, as proc_pid_stat(5) describes it."""

from __future__ import annotations

from dataclasses import dataclass

_FEWEST = 20
"""Up to the start time, which every kernel tells."""


@dataclass(frozen=True, slots=True)
class Stat:
    """What the kernel tells about a process or thread in one line; numbers are made of it only where they are asked for."""

    name: str
    """At most 15 bytes of the program's or thread's name, which may hold anything."""
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
    def collected(self) -> bool:
        """Somebody has collected it, or will at once: nothing counts it any more."""
        return self.state in ("X", "x")

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
    def own_ticks(self) -> int:
        """CPU time in clock ticks."""
        return int(self._fields[11]) + int(self._fields[12])

    @property
    def children_ticks(self) -> int:
        """The same of the children that were waited for."""
        return int(self._fields[13]) + int(self._fields[14])

    @property
    def cpu_ticks(self) -> int:
        """Both."""
        return self.own_ticks + self.children_ticks

    @property
    def threads(self) -> int:
        """How many it has."""
        return int(self._fields[17])

    @property
    def start_ticks(self) -> int:
        """When it started, in clock ticks since boot: with the pid its identity, since pids are used again."""
        return int(self._fields[19])

    @property
    def resident_pages(self) -> int:
        """Memory that it has in RAM."""
        return int(self._fields[21])

    @property
    def last_cpu(self) -> int:
        """The logical CPU that it ran on last."""
        return int(self._fields[36])

    @property
    def io_delay_ticks(self) -> int:
        """How long it has waited for block devices; 0 where the kernel does not account that."""
        return int(self._fields[39])


def parse_stat(text: str) -> Stat | None:
    """The line as a value; `None` for no such line, as when the process ended while it was read."""
    # The second field, the name, may hold spaces and brackets: what is counted begins behind its last bracket.
    head, _, tail = text.rpartition(")")
    fields = tuple(tail.split())
    return Stat(head.partition("(")[2], fields) if len(fields) >= _FEWEST else None
