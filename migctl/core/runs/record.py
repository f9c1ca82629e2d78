"""What is written down about one attempt of a job: identity, ownership, the open intent, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from migctl.core.code import Code
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.ending.causes import Cause
from migctl.core.gpu.mig import Placement


class JobState(StrEnum):
    """The states a job can be in; names are part of the JSON contract."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"

    @property
    def ended(self) -> bool:
        """The job will not change any more by itself."""
        return self in (JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED, JobState.LOST)

    @property
    def unsuccessful(self) -> bool:
        """It has ended, and not well: run again only where that is asked for."""
        return self.ended and self is not JobState.SUCCEEDED


class Action(StrEnum):
    """The effects a step can have; also the name of the intent that is on disk before it."""

    CREATE_GPU_INSTANCE = "create-gpu-instance"
    CREATE_COMPUTE_INSTANCE = "create-compute-instance"
    JOIN_INSTANCE = "join-instance"
    """Use the instance that another job of the run has made, beside it; nothing happens on the GPU."""
    CREATE_CONTAINER = "create-container"
    START = "start"
    STOP = "stop"
    REMOVE_CONTAINER = "remove-container"
    LEAVE_INSTANCE = "leave-instance"
    """Leave the instance to the jobs that share it; nothing happens on the GPU."""
    DESTROY_COMPUTE_INSTANCE = "destroy-compute-instance"
    DESTROY_GPU_INSTANCE = "destroy-gpu-instance"


class StoppedBy(StrEnum):
    """Why a supervisor ends a job."""

    TIMEOUT = "timeout"
    """It ran longer than the plan lets it."""
    FAIL_FAST = "fail-fast"
    """Another job failed, and the plan wants all to end then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """Identity of an instance that this run made (or uses): all of it must still match before anything is destroyed."""

    gpu_uuid: str
    gi_id: int
    profile_id: int
    placement: Placement
    boot_id: str
    ci_id: int | None = None
    mig_uuid: str | None = None
    foreign: bool = False
    """An administrator's instance, used by name and never destroyed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One job's owner record. Times are Unix seconds."""

    run: str
    job: str
    attempt: int = 1
    revision: int = 0
    """Grows with each write; the higher one wins where two copies differ."""
    token: str
    """Random, part of the container's name and labels: tells attempts of equal names apart."""
    runtime: str
    strategy: str
    state: JobState = JobState.QUEUED
    digest: str
    """Keyed digest of the job's own resolved keys: sameness of a job over two `up`s."""
    spec: str
    """The resolved job as JSON without environment values."""
    gpu_uuid: str | None = None
    profile: str | None = None
    profile_id: int | None = None
    placement: Placement | None = None
    memory_mib: int | None = None
    cpus: CpuSet = CpuSet()
    mems: CpuSet | None = None
    cores: int = 0
    num_workers: int = 0
    grace_s: float = 60.0
    """Seconds between SIGTERM and SIGKILL."""
    boot_id: str = ""
    intent: Action | None = None
    """The step that was about to run; `None` once its outcome is recorded."""
    instance: Ownership | None = None
    container_id: str | None = None
    container_name: str | None = None
    pid: int | None = None
    """Main process, host pid."""
    pid_start: int | None = None
    """Start time of `pid` in clock ticks since boot (/proc/PID/stat field 22): a pid alone is reused."""
    exit_code: int | None = None
    reason: str | None = None
    restarted: bool = False
    """Of a lost job: the machine was restarted under it; else it would have gone on."""
    created_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    cause: Cause | None = None
    """Why it failed, where its end was looked into."""
    tries: int = 1
    """Attempts since the job was submitted, this one included: what `retries` counts."""
    stopped_by: StoppedBy | None = None
    """Written before a supervisor ends it, so that its end is not taken for the job's own."""
    code: Code | None = None
    """The state of its source when it started, as far as git tells."""
    closed: bool = False
    """Its end has been dealt with: the log is saved, and whoever wanted to know has been told."""
