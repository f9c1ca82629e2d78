"""A job as the queue sees it: what it needs to start, when its turn is, and why it waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.gpu.company import Company
from migctl.core.gpu.mig import ComputeSlices, Gpu, MemorySlices, Placement, Profile

WHOLE_GPU: Final = -1
"""Stands for a profile id where a job gets a GPU without instances, alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Wish:
    """What a job needs, one object for all jobs that need the same: the queue tells kinds of jobs apart by it."""

    words: str
    """For messages: `4g.20gb`, `a whole GPU`, `12000 MiB`."""
    options: Mapping[str, Profile]
    """GPU UUID → the profile that it gets there, `whole_profile` for the GPU itself; it may not go to GPUs that are missing."""
    memory_mib: int = 0
    """GPU memory declared under `shared`; 0 = none."""
    cores: int = 1
    """Its share of the run's cores, fixed for the run's life; it starts with what is free of it, down to `least_cores`.
    Hardware threads where the run shares those."""
    least_cores: int = 1
    """`cores` where the plan asks for a number of cores, else 1; 0 where jobs may share a CPU (`oversubscribe`)."""
    cpuset: CpuSet | None = None
    """Logical CPUs asked for; then `cores` and `least_cores` are not looked at."""
    instance_uuid: str | None = None
    """MIG UUID of an administrator's instance; then `options` are not looked at."""
    company: Company | None = None
    """With whom it shares its instance; `None`: with nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One job of the plan. The same for the whole life of a run; what changes is in the `Situation`."""

    name: str
    wish: Wish
    priority: int = 0
    """Higher ones start first; equal ones in the plan's order."""
    needs: tuple[str, ...] = ()
    """Jobs that must have succeeded."""
    stage: int | None = None
    """All jobs of lower stages must have ended; `None`: bound to none."""
    expect_s: float | None = None
    """How long it is expected to run, in seconds."""


class Why(StrEnum):
    """Why a job waits."""

    HELD = "held"
    """The run or the job is held."""
    NEEDS = "needs"
    """A job that it needs has not succeeded yet."""
    NEVER = "never"
    """A job that it needs ended otherwise: it will not run unless that one is run again."""
    STAGE = "stage"
    """Jobs of an earlier stage have not ended."""
    LATER = "later"
    """It was put off until a time: the pause before another attempt."""
    MAX_PARALLEL = "max-parallel"
    NO_CORE = "no-free-core"
    NO_ROOM = "no-room"
    """No GPU has room for it beside what runs."""
    RESERVED = "reserved"
    """There would be room, and it is kept for a job that has waited long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a job waits, in words and data; one object for all jobs that wait for the same."""

    why: Why
    words: str
    """One line without full stop that can stand beside the job's name: `waits for baseline`."""
    jobs: tuple[str, ...] = ()
    """Jobs that it waits for: what it needs, the stage's unfinished ones, whom the room is kept for."""
    until: float | None = None
    """Unix seconds, where known: end of the pause; when the room is expected to be free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """What keeps its place on a GPU: instances of running jobs, of other runs, of strangers, and those that cannot be destroyed.

    Of an instance that several jobs share there is one for each of them.
    """

    placement: Placement
    """On a GPU without instances: `WHOLE_PLACEMENT`."""
    profile_id: int
    """On a GPU without instances: `WHOLE_GPU`."""
    owner: str
    """`run/job`, `user/run`, "not ours"."""
    job: str | None = None
    """The running job of this run; `None`: of others or blocked, nothing is known of its end."""
    cores: int = 0
    """Free when it ends."""
    memory_mib: int = 0
    """GPU memory declared under `shared`."""
    ends_at: float | None = None
    """Unix seconds; `None`: not known."""
    company: Company | None = None
    """Who else may use the instance beside the job; `None`: nobody."""
    lasting: bool = False
    """The place is not free when the job ends: an administrator's instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spare:
    """The instance of an ended job of the same owner: free room, that a job of the same profile can also take over as it is."""

    gpu_uuid: str
    gi_id: int
    profile_id: int
    placement: Placement
    owner: str
    """`run/job` that had it; of several the last one."""
    mig_uuid: str | None = None
    """`None`: without a compute instance, so it cannot be taken over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One GPU of the run and what lies on it."""

    gpu: Gpu
    stays: tuple[Stay, ...] = ()
    spares: tuple[Spare, ...] = ()
    scope: int = 0
    """Which of `Situation.free_cores` its jobs take; different ones only under `numa: strict`."""


WHOLE_PLACEMENT: Final = Placement(0, MemorySlices(1))
"""The place of a job that has a GPU without instances."""


def whole_profile(gpu: Gpu) -> Profile:
    """A GPU without instances as the one profile of which one fits."""
    return Profile(
        name="",
        index=WHOLE_GPU,
        id=WHOLE_GPU,
        compute_slices=ComputeSlices(1),
        memory_mib=gpu.memory_mib,
        multiprocessors=0,
        max_instances=1,
        placements=(WHOLE_PLACEMENT,),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """When a job has waited long enough for room to be kept free for it; either limit is enough.

    Room that empties for a large job is idle meanwhile. In the benchmark (scripts/bench/queueing.py, no durations known) two
    thirds of `passed` cost 3 % of the makespan, a third 6 %, and an age of a day up to 8 %, as it is reached before anybody was
    passed often. So the age is for the few and very long jobs.
    """

    age_s: float = 3 * 86400.0
    passed: int = 24
    """Jobs behind it in the queue that were started since it could have been."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What happened before, as far as turns depend on it. Times are Unix seconds; a missing job has none."""

    submitted: Mapping[str, float] = field(default_factory=dict)
    """When jobs were given to the queue."""
    started: Mapping[str, float] = field(default_factory=dict)
    """Latest starts."""
    finished: Mapping[str, float] = field(default_factory=dict)
    """Latest ends."""
