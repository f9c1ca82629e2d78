"""A whole GPU without MIG for one job of a plan whose other jobs have GPU instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from migctl.core.gpu.mig import Gpu
from migctl.core.gpu.selection import job_gpus
from migctl.core.gpu.share import GpuShare
from migctl.core.machine import Machine
from migctl.core.plan import SIZES, Auto, ByMemory, Job, Plan
from migctl.errors import Busy, DoesNotFit, HostError, MigctlError


@dataclass(frozen=True, slots=True)
class Whole:
    """Who got a whole GPU, and who waits for one."""

    shares: Mapping[str, GpuShare]
    waiting: Mapping[str, MigctlError]


def whole_gpus(plan: Plan, machine: Machine, placed: Mapping[str, GpuShare]) -> Whole:
    """The shares of the jobs whose `gpu` leaves only GPUs without MIG: one job a GPU, nobody else on it.

    Args:
        plan: what is asked for.
        machine: what is there.
        placed: jobs that have a place already.

    Raises:
        HostError: such a job asks for a GPU instance.
        DoesNotFit: such a job needs more memory than any of its GPUs has.
    """
    takers = {share.gpu.uuid: f"job {name}" for name, share in placed.items() if share.gpu.mig is None}
    shares: dict[str, GpuShare] = {}
    waiting: dict[str, MigctlError] = {}
    for job in plan.jobs:
        if job.name in placed:
            continue
        allowed = job_gpus(job, plan, machine.usable)
        if any(gpu.mig is not None for gpu in allowed):
            continue
        fitting = _fitting(job, allowed)
        free = next((gpu for gpu in fitting if gpu.uuid not in takers and _stranger(gpu, machine) is None), None)
        if free is None:
            waiting[job.name] = _taken(job, fitting[0], takers, machine)
            continue
        takers[free.uuid] = f"job {job.name}"
        shares[job.name] = GpuShare(gpu=free, memory_mib=free.memory_mib)
    return Whole(shares, waiting)


def _fitting(job: Job, allowed: Sequence[Gpu]) -> tuple[Gpu, ...]:
    first = allowed[0]
    if not isinstance(job.request, Auto | ByMemory) or job.per_instance > 1:
        raise HostError(
            "no-mig",
            f"GPU {first.index} ({first.name}) has no MIG, and {job.name} asks for a GPU instance on it",
            where=job.place(*SIZES),
            hint="leave profile and slices out: the job gets the whole GPU; or choose another gpu",
            data={"jobs": [job.name]},
        )
    wanted = job.request.memory_mib if isinstance(job.request, ByMemory) else 0
    fitting = tuple(gpu for gpu in allowed if gpu.memory_mib >= wanted)
    if not fitting:
        largest = max(allowed, key=lambda gpu: gpu.memory_mib)
        raise DoesNotFit(
            "never-fits",
            f"{job.name} asks for {wanted} MiB of GPU memory; {largest.name} has {largest.memory_mib} MiB",
            where=job.place("memory"),
            hint="ask for less, or choose a larger GPU",
            data={"jobs": [job.name]},
        )
    return fitting


def _stranger(gpu: Gpu, machine: Machine) -> str | None:
    """Who else is on the GPU: another run, by its claim, or a process that is nobody's job here."""
    if gpu.uuid in machine.whole:
        return machine.whole[gpu.uuid]
    if gpu.processes and not any(record.gpu_uuid == gpu.uuid for record in machine.held.values()):
        return ", ".join(machine.processes.get(p.pid, f"pid {p.pid}") for p in gpu.processes[:3])
    return None


def _taken(job: Job, gpu: Gpu, takers: Mapping[str, str], machine: Machine) -> MigctlError:
    own = takers.get(gpu.uuid)
    if own is not None:
        return DoesNotFit(
            "gpu-taken",
            f"{job.name} asks for all of GPU {gpu.index} ({gpu.name}), which {own} has",
            where=job.place("gpu"),
            hint="start it when the other has ended, or strategy: shared for several jobs on one GPU",
            data={"jobs": [job.name]},
        )
    return Busy(
        "gpu-taken",
        f"{job.name} asks for all of GPU {gpu.index} ({gpu.name}), which {_stranger(gpu, machine)} uses",
        where=job.place("gpu"),
        hint="try again when that has ended, or choose another gpu",
        data={"jobs": [job.name]},
    )
