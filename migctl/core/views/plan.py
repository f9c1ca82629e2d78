"""The answer to `plan`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from migctl.core.allocation import Allocation
from migctl.core.queueing.forecast import Forecast
from migctl.core.views.cores import CoresView
from migctl.core.views.pictures import GpuPicture


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A job of the smallest set that cannot run at once, and what it needs of one GPU."""

    job: str
    profile: str
    memory_slices: int
    compute_slices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictView:
    """Why a set of jobs does not run at once, in slices of the GPUs they may use."""

    jobs: tuple[str, ...]
    contenders: tuple[Contender, ...]
    """One for each instance: the first of the jobs that share it."""
    memory_slices: int
    """What there is for them."""
    compute_slices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One of the ways to run the same jobs, for the comparison: all on the whole GPU, one after another, an instance each."""

    name: str
    at_once: int
    """Jobs that run at the same time."""
    cores: int
    """Physical cores a job, the smallest share."""
    num_workers: int
    memory_mib: int | None
    """GPU memory a job."""
    note: str = ""
    chosen: bool = False
    possible: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """The answer to `plan`."""

    name: str
    allocation: Allocation
    gpus: tuple[GpuPicture, ...]
    """Those the plan may use."""
    cores: CoresView | None = None
    conflict: ConflictView | None = None
    ways: tuple[Way, ...] = ()
    steps: tuple[str, ...] = ()
    """What `up` would do, a line each."""
    machine: str = ""
    """What it is planned for where that is not this machine: `2 × A100-40GB, 16 cores`."""
    simulated: str = ""
    """`sim:…` where the GPUs are simulated."""
    waits: Mapping[str, str] = field(default_factory=dict)
    """Jobs that do not start at once, and why."""
    course: Forecast | None = None
    """How the queue is expected to run; `None` where no job says how long it takes."""
    now: float = 0.0
    """Unix seconds that the course begins at."""

    @property
    def fits(self) -> bool:
        """All jobs run at once."""
        return not self.allocation.waiting
