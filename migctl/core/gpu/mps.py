"""NVIDIA's Multi-Process Service for jobs that share a GPU or an instance: what clients are told, and how a fault of one shows.

Rules of NVIDIA's "Multi-Process Service" (docs.nvidia.com/deploy/mps): a control daemon is found by its pipe directory, it and its
clients share their IPC namespace, and a fatal fault of one client ends the server with all of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from migctl.core.choices import Strategy
from migctl.core.gpu.company import company_of
from migctl.core.plan import Job, Plan, Volume
from migctl.core.runs.record import JobState, Record
from migctl.errors import PlanError

PIPES: Final = "CUDA_MPS_PIPE_DIRECTORY"
LOGS: Final = "CUDA_MPS_LOG_DIRECTORY"
TOGETHER_S: Final = 10.0
"""The clients of a server that has ended notice it with their next call of CUDA."""
_MARK: Final = "a fault of one client of an MPS server ends all of them"


def uses_mps(job: Job, strategy: Strategy) -> bool:
    """Whether the job is a client."""
    if job.mps is None:
        return False
    return strategy is Strategy.SHARED or (strategy is Strategy.MIG and job.per_instance > 1)


def served(record: Record) -> str | None:
    """What the daemon of this job serves: its GPU, or the MIG device that it shares; `None`: that is not known yet."""
    if record.strategy == Strategy.SHARED:
        return record.gpu_uuid
    return record.instance.mig_uuid if record.instance is not None else None


def client_environment(job: Job, pipes: str) -> dict[str, str]:
    """What a client is told; limits are its own, and hold from its first context on."""
    told = {PIPES: pipes}
    if job.mps is not None and job.mps.active_threads_percent is not None:
        told["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(job.mps.active_threads_percent)
    if job.mps is not None and job.mps.memory_mib is not None:
        told["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={job.mps.memory_mib}M"
    return told


def in_one_namespace(job: Job, pipes: str) -> Job:
    """The job as a container that reaches the server: it sees the pipes, and shares the machine's IPC namespace with it."""
    return replace(job, ipc=job.ipc or "host", volumes=(*job.volumes, Volume(target=pipes, source=pipes)))


def refuse_without_sharing(plan: Plan, strategy: Strategy) -> None:
    """MPS is for jobs that share a GPU or an instance: where each has one alone there is nobody to share with.

    Raises:
        PlanError: `mps-without-sharing`.
    """
    job = next((job for job in plan.jobs if job.mps is not None and not uses_mps(job, strategy)), None)
    if job is None:
        return
    raise PlanError(
        "mps-without-sharing",
        f"job {job.name} wants MPS, and with strategy: {strategy} it has nobody to share a GPU or an instance with",
        where=job.place("mps"),
        hint="per_instance: 2 lets two jobs share an instance; strategy: shared, a GPU without MIG mode; or delete mps"
        if strategy is Strategy.MIG
        else "strategy: shared on a GPU without MIG mode, or delete mps",
    )


def with_company(records: Mapping[str, Record]) -> dict[str, Record]:
    """The same records; jobs of one MPS server that failed together with a fault of CUDA say so.

    Args:
        records: of one run, failed ones with the reason that was found.
    """
    failed = [record for record in records.values() if _failed_as_client(record)]
    if len(failed) < 2:
        return dict(records)
    return {name: _told(record, failed) if record in failed else record for name, record in records.items()}


def _failed_as_client(record: Record) -> bool:
    if record.state is not JobState.FAILED or record.finished_at is None:
        return False
    if "cuda" not in (record.reason or "").lower():
        return False
    kept = company_of(record)
    if record.strategy != Strategy.SHARED:
        return kept is not None and kept.mps
    try:
        return bool(json.loads(record.spec).get("mps"))
    except (ValueError, AttributeError):
        return False


def _told(record: Record, failed: Sequence[Record]) -> Record:
    at = record.finished_at or 0.0
    others = [
        other.job
        for other in failed
        if other.job != record.job
        and (other.gpu_uuid, other.placement) == (record.gpu_uuid, record.placement)
        and abs((other.finished_at or 0.0) - at) <= TOGETHER_S
    ]
    if not others or _MARK in (record.reason or ""):
        return record
    return replace(record, reason=f"{record.reason}; at the same time as {', '.join(sorted(others))}: {_MARK}")
