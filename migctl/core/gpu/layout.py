"""The GPU side under `mig`: a profile and a placement for every job, beside what is already there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from migctl.core.gpu.administered import administered
from migctl.core.gpu.company import instance_request, seat_memory_mib
from migctl.core.gpu.conflict import explain
from migctl.core.gpu.mig import UNKNOWN_PLACEMENT, ComputeSlices, Gpu, MemorySlices, Profile
from migctl.core.gpu.parties import Party, beside_held, crowd, members, parties
from migctl.core.gpu.placement import Conflict, Demand, Occupied, Placed, Room, could_add, place, place_most
from migctl.core.gpu.selection import job_gpus
from migctl.core.gpu.share import GpuShare, Left
from migctl.core.gpu.sizes import auto_candidates, near_miss_notice, options
from migctl.core.gpu.whole import whole_gpus
from migctl.core.machine import Machine
from migctl.core.plan import SIZES, Auto, GpuSelector, Job, Plan
from migctl.core.runs.ownership import NOT_OURS
from migctl.core.words import counted
from migctl.errors import DoesNotFit, HostError, MigctlError, Notice


def lay_out(plan: Plan, machine: Machine, gpus: Sequence[Gpu]) -> tuple[dict[str, GpuShare], Left]:
    """Decide the placements of all jobs that can run at once; the others are left waiting.

    Raises:
        PlanError: no selected GPU offers a profile that the plan names.
        HostError: no selected GPU is able to hold instances.
        DoesNotFit: a job can never run on the selected GPUs, even with all of them empty.
    """
    shares = _held(plan, machine)
    shares |= administered(plan, machine, gpus, shares)
    whole = whole_gpus(plan, machine, shares)
    shares |= whole.shares
    to_place = [job for job in plan.jobs if job.name not in shares and job.name not in whole.waiting]
    able = _able(gpus, enabling=plan.enable_mig) if to_place else tuple(gpu for gpu in gpus if gpu.mig is not None)
    by_uuid = {gpu.uuid: gpu for gpu in able}
    rooms = tuple(_room(gpu, machine) for gpu in able)
    reach = _reach(plan, to_place, machine.usable, able)
    shares |= beside_held(to_place, machine.held, reach)
    groups = parties([job for job in to_place if job.name not in shares])
    hidden = next((gpu for gpu in gpus if gpu.instances_reason is not None), None) if groups else None
    try:
        outcome = _best(plan.name, groups, reach, able, rooms)
    except DoesNotFit:
        if hidden is not None:
            raise hidden_error(hidden) from None
        raise
    if outcome.blocked is not None and hidden is not None:
        raise hidden_error(hidden)  # there may be room that this user cannot see
    together = {group[0].name: group for group in groups}
    for spot in outcome.placed.places:
        for job in together[spot.job]:
            shares[job.name] = GpuShare(
                gpu=by_uuid[spot.gpu_uuid],
                profile=spot.profile,
                placement=spot.placement,
                memory_mib=seat_memory_mib(spot.profile, job),
            )
    # Without root the driver does not tell where instances lie, and so not what is left.
    filled = tuple(_fill(room, outcome.placed) for room in rooms if room.gpu.instances_reason is None)
    return shares, Left(
        waiting=(*outcome.waiting, *whole.waiting),
        conflict=(*outcome.conflict, *whole.waiting),
        blocked=outcome.blocked or next(iter(whole.waiting.values()), None),
        compute_slices=ComputeSlices(sum(_free_compute(room) for room in filled)),
        memory_slices=MemorySlices(sum(_free_memory(room) for room in filled)),
        could_add=tuple(dict.fromkeys(profile.name for room in filled for profile in could_add(room))),
        notices=tuple(_near_misses(plan.jobs, shares)),
    )


def _near_misses(jobs: Sequence[Job], shares: Mapping[str, GpuShare]) -> Iterator[Notice]:
    """Jobs that a little less memory would have made smaller, once for each way to ask."""
    told: set[object] = set()
    for job in jobs:
        share = shares.get(job.name)
        request = instance_request(job)
        if share is None or share.profile is None or request in told:
            continue
        told.add(request)
        notice = near_miss_notice(request, share.gpu)
        if notice is not None:
            yield replace(notice, where=f"job {job.name}")


@dataclass(frozen=True, slots=True)
class _Outcome:
    placed: Placed
    waiting: tuple[str, ...] = ()
    conflict: tuple[str, ...] = ()
    blocked: MigctlError | None = None


def _best(
    run: str, groups: Sequence[Party], reach: Mapping[str, Sequence[Gpu]], able: Sequence[Gpu], rooms: Sequence[Room]
) -> _Outcome:
    """The first reading with which all run at once; if there is none, the last one (smallest auto profile), and the rest queues."""
    jobs = [group[0] for group in groups]
    if not jobs:
        return _Outcome(Placed(()))
    demands: Sequence[Demand] = ()
    conflict: Conflict | None = None
    for demands in _readings(jobs, reach, able):
        result = place(demands, rooms)
        if isinstance(result, Placed):
            return _Outcome(result)
        conflict = result
    assert conflict is not None
    conflict = replace(conflict, jobs=crowd(conflict.jobs, groups), never=members(conflict.never, groups))
    error = explain(conflict, demands, rooms, run=run)
    if conflict.never:
        raise error
    placed, waiting = place_most(demands, rooms)
    return _Outcome(placed, members(waiting, groups), conflict.jobs, error)


def _readings(
    jobs: Sequence[Job], reach: Mapping[str, Sequence[Gpu]], able: Sequence[Gpu]
) -> Iterator[tuple[Demand, ...]]:
    """The demands with every size that `auto` can mean, largest first; without auto jobs there is one reading."""
    sizes = sorted(
        {(p.compute_slices, p.memory_mib) for gpu in able for p in auto_candidates(gpu)},
        reverse=True,
    )
    if not any(isinstance(job.request, Auto) for job in jobs):
        sizes = sizes[:1]
    for size in sizes:
        yield tuple(_demand(job, reach[job.name], size) for job in jobs)


def _demand(job: Job, allowed: Sequence[Gpu], auto_size: tuple[int, int]) -> Demand:
    found: dict[str, Profile] = {}
    problems: list[MigctlError] = []
    for gpu in allowed:
        if isinstance(job.request, Auto):
            # On mixed boards one size means on each GPU the largest profile that does not exceed it.
            fitting = (p for p in auto_candidates(gpu) if (p.compute_slices, p.memory_mib) <= auto_size)
            profile = next(fitting, None)
            if profile is not None:
                found[gpu.uuid] = profile
            continue
        try:
            found[gpu.uuid] = options(instance_request(job), gpu)
        except MigctlError as error:
            problems.append(error)
    if not found and problems:
        first = problems[0]
        raise type(first)(first.id, first.message, where=job.place(*SIZES), hint=first.hint, data=first.data)
    return Demand(job.name, found)


def _reach(plan: Plan, jobs: Sequence[Job], gpus: Sequence[Gpu], able: Sequence[Gpu]) -> dict[str, tuple[Gpu, ...]]:
    """Those of the able GPUs that each job may have.

    Raises:
        HostError: a job names only GPUs on which no instance can be made now.
    """
    ready = {gpu.uuid for gpu in able}
    by_selectors: dict[tuple[GpuSelector, ...], tuple[Gpu, ...]] = {}
    for job in jobs:
        if job.gpus in by_selectors:
            continue
        named = job_gpus(job, plan, gpus)
        by_selectors[job.gpus] = tuple(gpu for gpu in named if gpu.uuid in ready)
        if not by_selectors[job.gpus]:
            # One without MIG is given whole before, so a change of mode or root is what this takes.
            gpu = next(gpu for gpu in named if gpu.mig is not None)
            raise hidden_error(gpu) if gpu.instances_reason is not None else mode_error(gpu)
    return {job.name: by_selectors[job.gpus] for job in jobs}


def _able(gpus: Sequence[Gpu], *, enabling: bool) -> tuple[Gpu, ...]:
    """The GPUs on which instances can be made now (or after enabling the mode), or the reason why there is none."""
    able = tuple(
        gpu
        for gpu in gpus
        if gpu.mig is not None and gpu.mig.settled and (gpu.mig.current or (enabling and gpu.profiles))
    )
    readable = tuple(gpu for gpu in able if gpu.instances_reason is None)
    if readable:
        return readable
    if able:
        raise hidden_error(able[0])
    gpu = gpus[0]
    if gpu.mig is None:
        raise HostError(
            "no-mig",
            f"GPU {gpu.index} ({gpu.name}) has no MIG",
            where=f"GPU {gpu.index}",
            hint="strategy: shared runs several jobs on the whole GPU, each with its own cores and workers",
        )
    raise mode_error(gpu)


def hidden_error(gpu: Gpu) -> HostError:
    """Why nothing is planned on a GPU whose instances are not all known: what cannot be seen there is not free."""
    if gpu.instances_doubtful:
        return HostError(
            "instances-doubtful",
            f"GPU {gpu.index} ({gpu.name}): {gpu.instances_reason}; so it cannot be told what is free, and nothing is planned or "
            "made there",
            where=f"GPU {gpu.index}",
            hint="try again; if it stays, update the NVIDIA driver, or let the plan's gpu: name another GPU",
            data={"gpu": gpu.uuid},
        )
    count = len(gpu.instances)
    seen = f"{counted(count, 'instance')} can be seen there" if count else "none can be seen there"
    return HostError(
        "no-permission",
        f"GPU {gpu.index} ({gpu.name}): {seen}, but where they lie, and whether there are others, only root may read; so it "
        "cannot be told what is free, and nothing is planned or made there",
        where=f"GPU {gpu.index}",
        hint="ask an administrator for the mig/config capability (migctl check); plan --on BOARD plans for an empty GPU",
        data={"needs_root": True, "gpu": gpu.uuid},
    )


def pending_advice(gpu: Gpu) -> str:
    """The command that brings an outstanding change of the MIG mode into force."""
    assert gpu.mig is not None
    word = "enable" if gpu.mig.pending else "disable"
    return f"sudo migctl mode {word} --gpu {gpu.index} --reset (in a virtual machine: reboot it)"


def mode_error(gpu: Gpu) -> HostError:
    """Why a GPU with MIG cannot hold instances now: its mode is off, or a change is outstanding."""
    assert gpu.mig is not None
    if not gpu.mig.settled:
        word = "enabled" if gpu.mig.pending else "disabled"
        return HostError(
            "mig-mode-pending",
            f"GPU {gpu.index}: MIG mode is still {'on' if gpu.mig.current else 'off'}, and will be {word} only after a "
            "GPU reset or a reboot",
            where=f"GPU {gpu.index}",
            hint=pending_advice(gpu),
        )
    return HostError(
        "mig-mode-off",
        f"GPU {gpu.index} ({gpu.name}): MIG mode is off. "
        "Changing it concerns everybody who uses this GPU, so it is done only on request",
        where=f"GPU {gpu.index}",
        hint="migctl up --enable-mig, or enable_mig: true in the plan",
    )


def _held(plan: Plan, machine: Machine) -> dict[str, GpuShare]:
    """The shares of jobs that have a place already: it stays whatever the plan would choose today."""
    gpus = {gpu.uuid: gpu for gpu in machine.gpus}
    shares: dict[str, GpuShare] = {}
    for job in plan.jobs:
        record = machine.held.get(job.name)
        gpu = gpus.get(record.gpu_uuid or "") if record is not None else None
        if record is None or gpu is None:
            continue
        profile = next((p for p in gpu.profiles if p.id == record.profile_id), None)
        shares[job.name] = GpuShare(
            gpu=gpu,
            profile=profile,
            placement=record.placement,
            memory_mib=record.memory_mib or gpu.memory_mib,
            instance_uuid=record.instance.mig_uuid if record.instance is not None and record.instance.foreign else None,
        )
    return shares


def _room(gpu: Gpu, machine: Machine) -> Room:
    """What lies on a GPU: its instances, and the places of this run's jobs whose instance is not made yet."""
    occupied = [
        Occupied(i.placement, i.profile_id, machine.owners.get((gpu.uuid, i.gi_id), NOT_OURS))
        for i in gpu.instances
        if i.placement != UNKNOWN_PLACEMENT
    ]
    there = {o.placement: o for o in occupied}
    for record in machine.held.values():
        if record.gpu_uuid != gpu.uuid or record.placement is None or record.profile_id is None:
            continue
        # The place of an ended job whose instance is gone (a reboot) is free; jobs that share one have it together.
        if not (record.instance is None and record.state.ended):
            fresh = Occupied(record.placement, record.profile_id, f"{record.run}/{record.job}")
            there.setdefault(record.placement, fresh)
    return Room(gpu, tuple(there.values()))


def _fill(room: Room, placed: Placed) -> Room:
    more = tuple(Occupied(p.placement, p.profile.id, p.job) for p in placed.places if p.gpu_uuid == room.gpu.uuid)
    return replace(room, occupied=(*room.occupied, *more))


def _free_compute(room: Room) -> int:
    slices = {p.id: p.compute_slices for p in room.gpu.profiles}
    return room.gpu.compute_slices - sum(slices.get(o.profile_id, 0) for o in room.occupied)


def _free_memory(room: Room) -> int:
    return room.gpu.memory_slices - sum(o.placement.size for o in room.occupied)
