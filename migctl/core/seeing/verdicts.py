"""What is said of a running job or a GPU: one finding with the numbers behind it and what to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Level(StrEnum):
    """How much a verdict asks for."""

    STATE = "state"
    """How things are; nothing is wrong."""
    ADVICE = "advice"
    """It could be faster, or leave more to others."""
    ALARM = "alarm"
    """Something is not as it was planned, or is about to fail."""


class Kind(StrEnum):
    """The closed set; names are part of the JSON contract."""

    CPU_BOUND = "cpu-bound"
    DISK_BOUND = "disk-bound"
    GPU_BOUND = "gpu-bound"
    UNKNOWN = "unknown"
    """It is slow for a reason that no figure shows, or the figures that would decide are not to be had."""
    MEMORY_NEARLY_FULL = "slice-memory-nearly-full"
    CPU_IDLE = "cpu-idle"
    AFFINITY_LOST = "affinity-lost"
    OVERSUBSCRIBED = "oversubscribed"
    ONE_PROCESS = "one-process"
    GPU_THROTTLED = "gpu-throttled"


_LEVELS: Mapping[Kind, Level] = {
    Kind.CPU_BOUND: Level.ADVICE,
    Kind.DISK_BOUND: Level.ADVICE,
    Kind.GPU_BOUND: Level.STATE,
    Kind.UNKNOWN: Level.STATE,
    Kind.MEMORY_NEARLY_FULL: Level.ADVICE,
    Kind.CPU_IDLE: Level.ADVICE,
    Kind.AFFINITY_LOST: Level.ALARM,
    Kind.OVERSUBSCRIBED: Level.ALARM,
    Kind.ONE_PROCESS: Level.ADVICE,
    Kind.GPU_THROTTLED: Level.ALARM,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One finding."""

    kind: Kind
    title: str
    """A few words for a table: `waits for data: CPU-bound`."""
    message: str
    """The numbers behind it, in a sentence that begins after the job's name."""
    hint: str = ""
    """What to change."""
    keys: tuple[str, ...] = ()
    """The plan's keys to change, the first first: `cpus`, `num_workers`, `batch_size`."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """The same by name, with units in the names."""

    @property
    def level(self) -> Level:
        """How much it asks for."""
        return _LEVELS[self.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What is said at one moment."""

    jobs: Mapping[str, tuple[Verdict, ...]] = field(default_factory=dict)
    """`run/job` → its verdicts, the one that holds it back most first."""
    gpus: Mapping[str, tuple[Verdict, ...]] = field(default_factory=dict)
    """GPU UUID → what concerns all its instances."""
