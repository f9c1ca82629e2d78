"""The answer to `status`: runs, jobs and GPUs as they are now.

Times are Unix seconds; a value that is unknown is `None` and its reason stands beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from migctl.core.code import Code
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.pinning import Pinning
from migctl.core.gpu.mig import MigMode, Placement
from migctl.core.queueing.course import Span
from migctl.core.runs.record import JobState
from migctl.core.views.cores import CoresView
from migctl.errors import Notice


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
    code: Code | None = None
    """The state of its source when it started, as far as git tells."""
    expected: Span | None = None
    """When it is expected to run, where that was foreseen."""
    cluster_id: str | None = None
    """By what its cluster knows it, where it runs on one."""
    node: str | None = None
    """The cluster's node that it runs on, or ran on."""
    pinning: Pinning | None = None
    """Its processes against its cpuset; `None` where it does not run or is not seen."""
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
    engine: str = "local"
    """Where its jobs run: on this machine, or on a cluster."""
    ends_at: float | None = None
    """When its last job is expected to end."""
    ends_reason: str | None = None
    """Why that is not known."""


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
    jobs: tuple[str, ...] = ()
    """`run/job` of the runs that are shown: several where they share it, ended ones while nobody else has their seat."""
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


def run_state(jobs: Sequence[JobView]) -> str:
    """One word for a whole run: what still happens, else the worst that has."""
    return state_of({job.state for job in jobs})


def state_of(states: Collection[JobState]) -> str:
    """The same, of the states of its jobs."""
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
