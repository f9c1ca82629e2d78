"""How a job on Slurm is now: from what it told itself, what Slurm still knows, and what was recorded. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from migctl.core.cluster.clusterrun import ClusterJob
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.runs.record import JobState

_NEVER_BEGAN = "Slurm does not know it any more, and it never began"
_NO_END = "it began and left no end: it was killed, or its node failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What a job wrote at its start. Times are Unix seconds."""

    at: float
    node: str
    cpus: CpuSet
    num_workers: int
    mig_uuid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a job wrote at its end."""

    at: float
    exit_code: int
    stopped: bool
    """SIGTERM came before it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One job as squeue or sacct shows it."""

    unit: str
    index: int | None
    state: str
    """Slurm's word, without flags."""
    reason: str = ""
    node: str = ""
    name: str = ""
    comment: str = ""
    started_at: float | None = None
    finished_at: float | None = None
    exit_code: int | None = None


STATES: Mapping[str, JobState] = {
    **dict.fromkeys(
        ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"), JobState.QUEUED
    ),
    "CONFIGURING": JobState.STARTING,
    **dict.fromkeys(
        ("RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING", "COMPLETING"), JobState.RUNNING
    ),
    "COMPLETED": JobState.SUCCEEDED,
    **dict.fromkeys(("FAILED", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL"), JobState.FAILED),
    **dict.fromkeys(("NODE_FAIL", "PREEMPTED"), JobState.LOST),
    **dict.fromkeys(("CANCELLED", "REVOKED"), JobState.STOPPED),
}
"""Job state codes of squeue(1)."""

_REASONS: Mapping[str, str] = {
    "TIMEOUT": "it ran longer than its time limit",
    "DEADLINE": "its deadline has passed",
    "OUT_OF_MEMORY": "it used more memory than it had asked for",
    "BOOT_FAIL": "its node did not start",
    "NODE_FAIL": "its node failed",
    "PREEMPTED": "more urgent jobs took its place",
    "CANCELLED": "cancelled",
    "REVOKED": "another cluster took it",
}
_WAITS: Mapping[str, str] = {
    "Resources": "no free device, cores or memory",
    "Priority": "more urgent jobs come first",
    "Dependency": "what it comes after has not ended",
    "JobArrayTaskLimit": "so many of its kind run at a time",
    "BeginTime": "its time has not come",
    "JobHeldUser": "held: scontrol release lets it go",
    "JobHeldAdmin": "held by an administrator",
    "ReqNodeNotAvail": "the nodes that could run it are away",
    "PartitionDown": "its partition is down",
    "DependencyNeverSatisfied": "what it needs did not succeed",
}
"""Job reason codes of squeue(1); others stand as they are."""


def state_of(word: str) -> JobState | None:
    """What Slurm's word means; `CANCELLED by 1000` as well. `None`: a word that is not known."""
    return STATES.get(word.split()[0].rstrip("+").upper()) if word.strip() else None


def settled(job: ClusterJob, begun: Begun | None, ended: Ended | None, told: Told | None) -> ClusterJob:
    """The job as it is now. What is recorded as ended stays so; of a job that left nothing, what Slurm says."""
    if job.state.ended or not job.unit:
        return job
    if begun is not None:
        job = replace(
            job,
            node=begun.node,
            cpuset=begun.cpus,
            num_workers=begun.num_workers,
            started_at=begun.at,
            state=JobState.RUNNING,
            reason=None,
        )
    if ended is not None:
        return _ended(job, ended, told)
    if told is None:
        reason = _NO_END if begun is not None else _NEVER_BEGAN
        return replace(job, state=JobState.LOST, reason=reason)
    return _as_told(job, told)


def _ended(job: ClusterJob, ended: Ended, told: Told | None) -> ClusterJob:
    """Its own word, and where that is not enough Slurm's."""
    why = told.state if told is not None else ""
    over = job.timeout_s is not None and job.started_at is not None and ended.at - job.started_at >= job.timeout_s
    if ended.exit_code == 0 and not ended.stopped:
        state, reason = JobState.SUCCEEDED, None
    elif why == "TIMEOUT" or (ended.stopped and over and why != "CANCELLED"):
        state, reason = JobState.FAILED, _REASONS["TIMEOUT"]
    elif why in ("OUT_OF_MEMORY", "PREEMPTED", "NODE_FAIL"):
        state, reason = STATES[why], _REASONS[why]
    elif ended.stopped or why == "CANCELLED":
        state, reason = JobState.STOPPED, None
    else:
        state, reason = JobState.FAILED, None
    return replace(job, state=state, reason=reason, exit_code=ended.exit_code, finished_at=ended.at)


def _as_told(job: ClusterJob, told: Told) -> ClusterJob:
    state = state_of(told.state)
    if state is None:
        return replace(job, reason=f"Slurm calls its state {told.state}")
    reason: str | None = _REASONS.get(told.state)
    if state is JobState.QUEUED:
        word = told.reason.strip("()")
        known = _WAITS.get(word)
        reason = f"{known} ({word})" if known else word if word not in ("", "None") else None
        return replace(job, state=state, reason=reason, node=None, started_at=None, cpuset=CpuSet())
    if state in (JobState.STOPPED, JobState.FAILED) and told.reason.strip("()") == "DependencyNeverSatisfied":
        return replace(job, state=JobState.STOPPED, reason=_WAITS["DependencyNeverSatisfied"])
    started = job.started_at if job.started_at is not None else told.started_at
    if state.ended:
        if state is JobState.STOPPED and job.started_at is None:
            started = None  # squeue tells when it was cancelled
        code = 0 if state is JobState.SUCCEEDED else told.exit_code
        return replace(
            job, state=state, reason=reason, exit_code=code, finished_at=told.finished_at, started_at=started,
            node=job.node or (told.node or None),
        )  # fmt: skip
    return replace(job, state=state, reason=None, started_at=started, node=job.node or (told.node or None))


def with_needs(jobs: Mapping[str, ClusterJob]) -> Mapping[str, ClusterJob]:
    """The same, where a job that Slurm threw out of its queue because of a need says which one it was."""
    found = dict(jobs)
    for name, job in jobs.items():
        bad = [need for need in job.needs if need in found and found[need].state.unsuccessful]
        if bad and job.started_at is None and job.state in (JobState.STOPPED, JobState.LOST):
            reason = f"will not run: {bad[0]}, which it needs, did not succeed"
            found[name] = replace(job, state=JobState.STOPPED, reason=reason)
    return found
