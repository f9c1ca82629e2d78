"""What the commands that look have found, as data: the engine fills these values, `render` draws them.

Times are Unix seconds; a value that is unknown is `None` and its reason stands beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from migctl.core.allocation import Allocation
from migctl.core.cpuset import CpuSet
from migctl.core.mig import MigMode, Placement, Profile
from migctl.core.record import JobState
from migctl.errors import Notice

NOT_OURS = "not ours"
"""Owner of what migctl did not make."""
NO_COMPUTE_INSTANCE = "unusable (no compute instance)"
"""A GPU instance in which nothing can run (NVIDIA MIG User Guide: both instances are needed)."""


class Level(StrEnum):
    """How a finding of `check` is to be taken; names are part of the JSON contract."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One precondition of `up`, tested."""

    id: str
    level: Level
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Somebody on the memory-slice axis of a GPU."""

    placement: Placement
    profile: str
    compute_slices: int | None = None
    """`None`: the driver would not tell."""
    owner: str
    """`run/job`, `user/run`, or `not ours`."""
    job: str | None = None
    """The job of the plan or run that is shown; `None` for everybody else."""
    foreign: bool = False
    """Not made by migctl."""
    note: str = ""
    """What is special about it: `unusable (no compute instance)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPicture:
    """A GPU to be drawn: its grid and who lies where."""

    uuid: str
    index: int | None
    """`None` for a board that is only planned for."""
    name: str
    memory_slices: int
    """Width of the placement axis; 0 = no MIG, or not known."""
    compute_slices: int
    memory_mib: int
    mig: MigMode | None = None
    seats: tuple[Seat, ...] = ()
    whole: tuple[str, ...] = ()
    """Jobs that have the whole GPU, together or one after another."""
    reason: str = ""
    """Why its seats are not known: `does not answer`, `needs root`."""


class CoreMark(StrEnum):
    """What a core is to the plan that is shown."""

    JOB = "job"
    FREE = "free"
    RESERVED = "reserved"
    """Kept for the system."""
    REST = "rest"
    """Available, but beyond this plan's fair part."""
    CLAIMED = "claimed"
    """Held by another run."""
    CONTAINER = "container"
    """In the cpuset of a container that migctl did not start."""
    ISOLATED = "isolated"
    UNAVAILABLE = "unavailable"
    """Outside of what this process or the engine may use, or only a part of it is free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreCell:
    """One physical core to be drawn."""

    id: int
    cpus: CpuSet
    node: int | None = None
    l3: int = 0
    mark: CoreMark = CoreMark.FREE
    jobs: tuple[str, ...] = ()
    """One name; several where jobs have one hardware thread each, or share."""
    part: bool = False
    """Hardware threads of it are left that no job has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoresView:
    """All cores of the machine, ascending by id."""

    cells: tuple[CoreCell, ...]
    hidden: bool = False
    """The machine shows no topology: vCPUs are counted as cores."""


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

    contenders: tuple[Contender, ...]
    memory_slices: int
    """What there is for them."""
    compute_slices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One of the guide's ways to run the same jobs, for the comparison: 1 workers and batch, 2 one after another, 3 MIG."""

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

    @property
    def fits(self) -> bool:
        """All jobs run at once."""
        return not self.allocation.waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job of a run as it is now."""

    name: str
    origin: str = ""
    """The key under `jobs:` it came from; equal rows of one origin are folded."""
    state: JobState
    exit_code: int | None = None
    reason: str | None = None
    gpu_uuid: str | None = None
    gi_id: int | None = None
    ci_id: int | None = None
    mig_uuid: str | None = None
    profile: str | None = None
    placement: Placement | None = None
    cpus: CpuSet = CpuSet()
    num_workers: int | None = None
    """As planned."""
    container_id: str | None = None
    pid: int | None = None
    attempt: int = 1
    started_at: float | None = None
    finished_at: float | None = None
    unknown: tuple[tuple[str, str], ...] = ()
    """Why a field is `None` although there is a value: (`pid`, `needs root`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """One run with its jobs in the plan's order."""

    name: str
    state: str
    jobs: tuple[JobView, ...]
    owner: str = ""
    """The user, where it is not the caller."""
    plan_path: str = ""
    runtime: str = ""
    strategy: str = ""
    created_at: float | None = None
    simulated: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceView:
    """A GPU instance that is there."""

    gi_id: int
    profile: str
    placement: Placement
    compute_slices: int | None = None
    mig_uuids: tuple[str, ...] = ()
    """Empty: no compute instance, unusable."""
    owner: str
    """`run/job`, `user/run`, or `not ours`."""
    foreign: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuView:
    """A GPU that is there."""

    uuid: str
    index: int
    name: str
    memory_mib: int = 0
    memory_slices: int = 0
    compute_slices: int = 0
    mig: MigMode | None = None
    mig_reason: str | None = None
    """Why `mig` is `None`: the product has no MIG, or does not answer."""
    instances: tuple[InstanceView, ...] | None = ()
    instances_reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusView:
    """The answer to `status`."""

    now: float
    runs: tuple[RunView, ...]
    gpus: tuple[GpuView, ...]
    cores: CoresView | None = None
    drift: tuple[str, ...] = ()
    notices: tuple[Notice, ...] = ()
    simulated: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardProfiles:
    """The profiles of one GPU or board."""

    name: str
    profiles: tuple[Profile, ...]
    index: int | None = None
    uuid: str | None = None
    reason: str = ""
    """Why there are none: no MIG, or MIG mode must be on for the driver to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersRow:
    """How many workers each of so many trainings should have on so many cores."""

    cores: int
    jobs: int
    num_workers: int
    cores_per_job: int
    note: str = ""


def run_state(jobs: Sequence[JobView]) -> str:
    """One word for a whole run: what still happens, else the worst that has."""
    states = {job.state for job in jobs}
    for state in (
        JobState.RUNNING,
        JobState.STARTING,
        JobState.QUEUED,
        JobState.LOST,
        JobState.FAILED,
        JobState.STOPPED,
    ):
        if state in states:
            return state.value
    return JobState.SUCCEEDED.value
