"""What the queue's decision depends on: the jobs and their states, the GPUs, the free cores, and what the user has said since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from migctl.core.choices import Strategy
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.queueing.turn import History, Patience, Site, Turn
from migctl.core.runs.record import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Everything that the decision depends on."""

    turns: Sequence[Turn]
    """All jobs of the plan in its order (after reordering: in the queue's)."""
    states: Mapping[str, JobState]
    """Of each job; a missing one is queued. A job that will be tried again is queued; one taken out of the queue is stopped."""
    sites: Sequence[Site]
    """The run's GPUs that work, each with what stays there and what is spare. Running jobs of this run are among the stays."""
    now: float
    """Unix seconds."""
    strategy: Strategy = Strategy.MIG
    """`shared`: several jobs on a whole GPU. Otherwise each has its instance, or a whole GPU alone; under `sequential` its
    options are full instances or whole GPUs."""
    max_parallel: int | None = None
    free_cores: Mapping[int, int] | None = None
    """By `Site.scope`: cores of the run that nobody has, in the unit in which its jobs get them (hardware threads where there are
    more jobs than cores), those left out that some job's `cpuset` names; `None`: cores limit nothing (`oversubscribe`)."""
    free_cpus: CpuSet = CpuSet()
    """Logical CPUs of the run that nobody has, for jobs with a `cpuset`."""
    lent: frozenset[str] = frozenset()
    """MIG UUIDs of administrators' instances that are in use."""
    held: bool = False
    """Nothing more of the run starts."""
    held_words: str = "the run is held"
    """Why, where nobody held it by hand: a failure with `fail_fast`, a restart of the machine."""
    held_jobs: frozenset[str] = frozenset()
    not_before: Mapping[str, float] = field(default_factory=dict)
    """Jobs that were put off until a time (Unix seconds): the pause before another attempt."""
    history: History = field(default_factory=History)
    patience: Patience = Patience()
