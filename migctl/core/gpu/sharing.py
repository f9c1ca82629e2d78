"""The GPU side under `shared`: whole GPUs, several jobs on each, limited by the memory that the jobs declare."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.core.gpu.mig import ComputeSlices, Gpu, MemorySlices
from migctl.core.gpu.selection import job_gpus
from migctl.core.gpu.share import GpuShare, Left
from migctl.core.machine import Machine
from migctl.core.plan import Job, Plan
from migctl.errors import DoesNotFit, HostError, MigctlError


def share_out(plan: Plan, machine: Machine, gpus: Sequence[Gpu]) -> tuple[dict[str, GpuShare], Left]:
    """Spread the jobs over the GPUs: each goes where most declared memory, then most places, are free.

    Raises:
        HostError: every selected GPU is in MIG mode, where no program gets the whole GPU.
        DoesNotFit: a job declares more memory than any selected GPU has.
    """
    whole = [gpu for gpu in gpus if gpu.mig is None or not (gpu.mig.current or gpu.mig.pending)]
    if not whole:
        raise _in_mig_mode(gpus[0])
    free = {gpu.uuid: gpu.memory_mib for gpu in whole}
    count = dict.fromkeys(free, 0)
    by_uuid = {gpu.uuid: gpu for gpu in whole}
    shares: dict[str, GpuShare] = {}
    waiting: list[str] = []
    blocked: MigctlError | None = None
    for job in plan.jobs:
        record = machine.held.get(job.name)
        if record is not None and record.gpu_uuid in by_uuid:
            shares[job.name] = GpuShare(gpu=by_uuid[record.gpu_uuid], memory_mib=record.memory_mib or 0)
            free[record.gpu_uuid] -= job.memory_mib or 0
            count[record.gpu_uuid] += 1
    for job in plan.jobs:
        if job.name in shares:
            continue
        allowed = _allowed(plan, job, machine, whole)
        wanted = job.memory_mib or 0
        largest = max(allowed, key=lambda gpu: gpu.memory_mib)
        if wanted > largest.memory_mib:
            raise DoesNotFit(
                "never-fits",
                f"{job.name} declares {wanted} MiB of GPU memory; {largest.name} has {largest.memory_mib} MiB",
                where=job.place("memory"),
                hint="declare less, or choose a larger GPU",
                data={"jobs": [job.name]},
            )
        fitting = [gpu for gpu in allowed if free[gpu.uuid] >= wanted]
        if not fitting:
            waiting.append(job.name)
            blocked = blocked or DoesNotFit(
                "shared-memory-full",
                f"{job.name} declares {wanted} MiB of GPU memory; beside the jobs before it "
                f"{max(free[gpu.uuid] for gpu in allowed)} MiB are left",
                where=job.place("memory"),
                hint="start it when another job has ended, or declare less memory",
                data={"jobs": [job.name]},
            )
            continue
        gpu = min(fitting, key=lambda gpu: (count[gpu.uuid], -free[gpu.uuid], gpu.index))
        free[gpu.uuid] -= wanted
        count[gpu.uuid] += 1
        shares[job.name] = GpuShare(gpu=gpu, memory_mib=wanted or gpu.memory_mib)
    return shares, Left(
        waiting=tuple(waiting),
        conflict=tuple(waiting),
        blocked=blocked,
        compute_slices=ComputeSlices(0),
        memory_slices=MemorySlices(0),
    )


def _allowed(plan: Plan, job: Job, machine: Machine, whole: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Those of the GPUs outside of MIG mode that the job may have: the ones it names, else the plan's."""
    named = job_gpus(job, plan, machine.usable)
    uuids = {gpu.uuid for gpu in named}
    allowed = tuple(gpu for gpu in whole if gpu.uuid in uuids)
    if not allowed:
        raise _in_mig_mode(named[0])
    return allowed


def _in_mig_mode(gpu: Gpu) -> HostError:
    return HostError(
        "gpu-in-mig-mode",
        f"GPU {gpu.index} ({gpu.name}) is in MIG mode: CUDA sees only its instances there, never the whole GPU",
        where=f"GPU {gpu.index}",
        hint="strategy: mig, or another GPU; `migctl status` shows every GPU's mode",
    )
