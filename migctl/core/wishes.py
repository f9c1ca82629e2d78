"""From the jobs of a plan to their turns in the queue: which instance, or whole GPU, each may have, and how many cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

from migctl.core.administered import device
from migctl.core.choices import Strategy
from migctl.core.mig import ComputeSlices, Gpu, Profile
from migctl.core.placement import Demand, Placed, Room, place
from migctl.core.plan import SIZES, Auto, ByInstance, ByMemory, GpuRequest, Job, Plan
from migctl.core.selection import job_gpus
from migctl.core.sizes import auto_candidates, options
from migctl.core.turn import Turn, Wish, whole_profile
from migctl.errors import DoesNotFit, HostError, MigctlError

Size = tuple[int, int]
"""Compute slices and memory (MiB) of a profile: what `auto` means, on every board."""
_WHOLE_GPU = ComputeSlices(7)
"""A job with a whole GPU counts as one with the largest instance when cores are shared out."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """What tells the wishes of jobs apart."""

    request: GpuRequest
    gpus: tuple[Gpu, ...]
    cpus: int | None
    cpuset: object
    memory_mib: int


def turns(
    plan: Plan,
    gpus: Sequence[Gpu],
    *,
    strategy: Strategy,
    share: Callable[[ComputeSlices], int] = lambda _: 1,
    auto: Size | None = None,
) -> tuple[Turn, ...]:
    """The jobs as the queue sees them, in the plan's order. Equal jobs share one wish.

    Args:
        plan: what is wanted.
        gpus: those that the user may have and that work, with the mode that they have when jobs start.
        strategy: of the run.
        share: a job's cores, for the whole life of the run, by the compute slices that it gets.
        auto: what `auto_size` said when the run began.

    Raises:
        MigctlError: a job can never start on these GPUs; it is named.
    """
    wishes: dict[_Kind, Wish] = {}
    reach: dict[object, tuple[Gpu, ...]] = {}
    found: list[Turn] = []
    for job in plan.jobs:
        if job.gpus not in reach:
            reach[job.gpus] = job_gpus(job, plan, gpus) if not isinstance(job.request, ByInstance) else tuple(gpus)
        kind = _Kind(job.request, reach[job.gpus], job.cpus, job.cpuset, job.memory_mib or 0)
        if kind not in wishes:
            wishes[kind] = _wish(job, kind.gpus, plan, strategy, share, auto)
        found.append(
            Turn(
                name=job.name,
                wish=wishes[kind],
                priority=job.priority,
                needs=job.needs,
                stage=job.stage,
                expect_s=job.expect_s,
            )
        )
    return tuple(found)


def auto_size(plan: Plan, gpus: Sequence[Gpu], rooms: Sequence[Room]) -> Size | None:
    """The one size of all auto jobs: the largest with which all jobs run at once beside the fixed ones, else the smallest.

    Args:
        plan: what is wanted.
        gpus: those that the user may have.
        rooms: the run's GPUs in MIG mode and what lies there now.

    Returns:
        Nothing where no job is auto, or no GPU has instances.
    """
    able = [room.gpu for room in rooms]
    sizes = sorted({(p.compute_slices, p.memory_mib) for gpu in able for p in auto_candidates(gpu)}, reverse=True)
    if not sizes or not any(isinstance(job.request, Auto) for job in plan.jobs):
        return None
    jobs = [job for job in plan.jobs if not isinstance(job.request, ByInstance)]
    if len(jobs) > sum(gpu.memory_slices for gpu in able):
        return sizes[-1]
    for size in sizes:
        demands = [Demand(job.name, _instances(job, job_gpus(job, plan, gpus), able, size)) for job in jobs]
        if isinstance(place(demands, rooms), Placed):
            return size
    return sizes[-1]


def _wish(
    job: Job,
    allowed: Sequence[Gpu],
    plan: Plan,
    strategy: Strategy,
    share: Callable[[ComputeSlices], int],
    auto: Size | None,
) -> Wish:
    if isinstance(job.request, ByInstance):
        found, words = _lent(job.request.mig_uuid, allowed), job.request.mig_uuid
    else:
        found, words = _options(job, allowed, strategy, auto)
    slices = max((p.compute_slices if p.name else _WHOLE_GPU for p in found.values()), default=ComputeSlices(1))
    least = 0 if plan.oversubscribe else job.cpus or 1
    return Wish(
        words=words,
        options=found,
        memory_mib=(job.memory_mib or 0) if strategy is Strategy.SHARED else 0,
        cores=max(least, job.cpus or share(slices)),
        least_cores=least,
        cpuset=job.cpuset,
        instance_uuid=job.request.mig_uuid if isinstance(job.request, ByInstance) else None,
    )


def _lent(mig_uuid: str, gpus: Sequence[Gpu]) -> dict[str, Profile]:
    """The profile of an administrator's instance; nothing where the driver does not tell it."""
    lent = device(mig_uuid, gpus)
    if lent is None:
        return {}
    profile = next((p for p in lent.gpu.profiles if p.id == lent.instance.profile_id), None)
    return {lent.gpu.uuid: profile} if profile is not None else {}


def _options(job: Job, allowed: Sequence[Gpu], strategy: Strategy, auto: Size | None) -> tuple[dict[str, Profile], str]:
    """What the job gets on each GPU, and what that is called."""
    match strategy:
        case Strategy.MIG if all(gpu.mig is None for gpu in allowed):
            return {gpu.uuid: whole_profile(gpu) for gpu in _holding(job, allowed)}, "a whole GPU"
        case Strategy.MIG:
            found = _instances(job, allowed, [gpu for gpu in allowed if _divided(gpu)], auto)
            return found, " or ".join(dict.fromkeys(profile.name for profile in found.values())) or "a GPU instance"
        case Strategy.SEQUENTIAL:
            return {gpu.uuid: _full(gpu) for gpu in _holding(job, allowed)}, "a whole GPU"
        case Strategy.SHARED:
            whole = [gpu for gpu in allowed if not _divided(gpu)]
            words = f"{job.memory_mib} MiB" if job.memory_mib else "part of a GPU"
            return {gpu.uuid: whole_profile(gpu) for gpu in _holding(job, whole)}, words
        case _:
            assert_never(strategy)


def _instances(job: Job, allowed: Sequence[Gpu], able: Sequence[Gpu], auto: Size | None) -> dict[str, Profile]:
    """The profile that the job gets on each GPU that can be divided.

    Raises:
        MigctlError: it gets one on none of them although there are some.
    """
    found: dict[str, Profile] = {}
    problems: list[MigctlError] = []
    uuids = {gpu.uuid for gpu in allowed}
    for gpu in able:
        if gpu.uuid not in uuids:
            continue
        if isinstance(job.request, Auto):
            # On mixed boards one size means on each GPU the largest profile that does not exceed it.
            fitting = [p for p in auto_candidates(gpu) if auto is None or (p.compute_slices, p.memory_mib) <= auto]
            if fitting:
                found[gpu.uuid] = fitting[0] if auto is not None else fitting[-1]
            continue
        try:
            found[gpu.uuid] = options(job.request, gpu)
        except MigctlError as error:
            problems.append(error)
    if not found and problems:
        first = problems[0]
        raise type(first)(first.id, first.message, where=job.place(*SIZES), hint=first.hint, data=first.data)
    return found


def _holding(job: Job, gpus: Sequence[Gpu]) -> list[Gpu]:
    """The GPUs with as much memory as the job declares.

    Raises:
        HostError: it asks for an instance.
        DoesNotFit: none has as much.
    """
    if not gpus:
        return []
    if not isinstance(job.request, Auto | ByMemory):
        raise HostError(
            "no-mig",
            f"GPU {gpus[0].index} ({gpus[0].name}) is given whole, and {job.name} asks for a GPU instance on it",
            where=job.place(*SIZES),
            hint="leave profile and slices out: the job gets the whole GPU; or choose another gpu",
            data={"jobs": [job.name]},
        )
    wanted = max(job.memory_mib or 0, job.request.memory_mib if isinstance(job.request, ByMemory) else 0)
    holding = [gpu for gpu in gpus if gpu.memory_mib >= wanted]
    if not holding:
        largest = max(gpus, key=lambda gpu: gpu.memory_mib)
        raise DoesNotFit(
            "never-fits",
            f"{job.name} declares {wanted} MiB of GPU memory; {largest.name} has {largest.memory_mib} MiB",
            where=job.place("memory"),
            hint="declare less, or choose a larger GPU",
            data={"jobs": [job.name]},
        )
    return holding


def _full(gpu: Gpu) -> Profile:
    """All of a GPU without changing its mode: its full instance where MIG is on."""
    if not _divided(gpu):
        return whole_profile(gpu)
    return max(auto_candidates(gpu), key=lambda p: (p.compute_slices, p.memory_mib))


def _divided(gpu: Gpu) -> bool:
    return gpu.mig is not None and gpu.mig.current and bool(gpu.profiles)
