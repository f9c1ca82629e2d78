"""What the kernel has counted of a job up to one moment: sums since the start of each process, cgroup or logical CPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class ProcessCounters(NamedTuple):
    """One process with all its threads; a tuple, since hundreds are made every second and a dataclass takes eight times as long."""

    pid: int
    parent: int
    started_s: float
    """Seconds since boot."""
    cpu_s: float
    children_s: float = 0.0
    """CPU time of its children that have ended and that it has waited for, and of theirs."""
    io_delay_s: float | None = None
    """In which its main thread waited for block devices (delay accounting)."""
    resident_bytes: int = 0
    threads: int = 1
    blocked: bool = False
    """In uninterruptible sleep at this moment."""
    loads_data: bool = False
    """A loader process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounters:
    """What is asked of processes less often, since each answer costs another read; by pid."""

    at_s: float
    """As `JobCounters.at_s`."""
    waited_s: Mapping[int, float]
    """In which the main thread was ready and had no CPU (schedstat)."""
    read_bytes: Mapping[int, int]
    written_bytes: Mapping[int, int]
    """From and to block devices; processes that do not tell are absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCounters:
    """The cgroup that is a container's own."""

    cpu_s: float | None = None
    throttled_s: float | None = None
    pressure_cpu_s: float | None = None
    pressure_io_s: float | None = None
    pressure_memory_s: float | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    memory_bytes: int | None = None
    """Without the page cache that can be given back at once."""
    memory_limit_bytes: int | None = None
    oom_kills: int | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Field of `JobReading` → why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuCounters:
    """One logical CPU, in seconds since boot (proc_stat(5))."""

    busy_s: float
    iowait_s: float
    idle_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounters:
    """A job at one moment."""

    at_s: float
    """Of the clock that counts from boot: comparable with `started_s`."""
    processes: tuple[ProcessCounters, ...]
    """Empty: none is seen."""
    queue: QueueCounters | None = None
    """The last there are."""
    group: GroupCounters | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Field of `JobReading` → why none of its processes tells it."""
