"""What the pictures of a plan show, taken from an allocation and the machine it was made for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from migctl.core.allocation import Allocation
from migctl.core.cpu.corecells import core_cells
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.pool import Cause, Pool
from migctl.core.cpu.topology import Core, Topology
from migctl.core.gpu.mig import Gpu, Instance, Placement
from migctl.core.machine import Machine
from migctl.core.runs.ownership import ADMINISTRATORS, NO_COMPUTE_INSTANCE, NOT_OURS
from migctl.core.views.cores import CoreMark, CoresView
from migctl.core.views.pictures import GpuPicture, Seat

_MARKS: Mapping[Cause, CoreMark] = {
    Cause.AFFINITY: CoreMark.UNAVAILABLE,
    Cause.ENGINE: CoreMark.UNAVAILABLE,
    Cause.ISOLATED: CoreMark.ISOLATED,
    Cause.RESERVED: CoreMark.RESERVED,
    Cause.CLAIMED: CoreMark.CLAIMED,
    Cause.FOREIGN: CoreMark.CONTAINER,
    Cause.SIBLING: CoreMark.UNAVAILABLE,
}


def gpu_pictures(allocation: Allocation, machine: Machine, gpus: Sequence[Gpu], run: str) -> tuple[GpuPicture, ...]:
    """The selected GPUs with the jobs of the plan beside what is there already.

    Args:
        allocation: the answer to the plan.
        machine: on which it was planned.
        gpus: those to draw.
        run: name of the plan.
    """
    return tuple(_gpu(allocation, machine, gpu, run) for gpu in gpus)


def _gpu(allocation: Allocation, machine: Machine, gpu: Gpu, run: str) -> GpuPicture:
    here = [a for a in allocation.assignments if a.gpu_uuid == gpu.uuid]
    together: dict[Placement, list[str]] = {}
    for a in here:
        if a.placement is not None and a.profile is not None:
            together.setdefault(a.placement, []).append(a.job.name)
    seats = [
        Seat(
            placement=a.placement,
            profile=a.profile.name,
            compute_slices=a.profile.compute_slices,
            owner=f"{run}/{a.job.name}" if a.instance_uuid is None else ADMINISTRATORS,
            job=a.job.name,
            mates=tuple(together[a.placement][1:]),
            note="" if a.instance_uuid is None else f"used by {a.job.name}, and left as it is at the end",
        )
        for a in here
        if a.placement is not None and a.profile is not None and together[a.placement][0] == a.job.name
    ]
    taken = {seat.placement for seat in seats}
    seats += [
        _instance(gpu, i, machine.owners.get((gpu.uuid, i.gi_id))) for i in gpu.instances if i.placement not in taken
    ]
    return GpuPicture(
        uuid=gpu.uuid,
        index=gpu.index,
        name=gpu.name,
        memory_slices=gpu.memory_slices,
        compute_slices=gpu.compute_slices,
        memory_mib=gpu.memory_mib,
        mig=gpu.mig,
        seats=tuple(sorted(seats, key=lambda seat: seat.placement)),
        whole=tuple(a.job.name for a in here if a.placement is None and a.instance_uuid is None),
        reason=gpu.instances_reason or "",
    )


def _instance(gpu: Gpu, instance: Instance, owner: str | None) -> Seat:
    profile = next((p for p in gpu.profiles if p.id == instance.profile_id), None)
    return Seat(
        placement=instance.placement,
        profile=instance.profile,
        compute_slices=profile.compute_slices if profile is not None else None,
        owner=owner or NOT_OURS,
        foreign=owner is None,
        note="" if instance.compute_instances else NO_COMPUTE_INSTANCE,
    )


def pool_view(topology: Topology, pool: Pool, jobs: Mapping[str, CpuSet], *, reserved: int = 0) -> CoresView:
    """The machine's cores as they are to a plan.

    Args:
        topology: of the machine.
        pool: the plan's part of it.
        jobs: logical CPUs by job.
        reserved: so many of the free cores, the last ones, are kept for the system.
    """
    regrouped = {core.id: core for core in (*pool.cores, *pool.rest)}
    cores = [
        core
        for core in (regrouped.get(core.id, core) for core in topology.cores)
        if core.id in regrouped or not any(core.cpus <= other.cpus for other in regrouped.values())
    ]
    cells = list(core_cells(cores, jobs, lambda core: _mark(core, pool)))
    free = [n for n, cell in enumerate(cells) if cell.mark is CoreMark.FREE]
    for n in free[len(free) - reserved :] if reserved else ():
        cells[n] = replace(cells[n], mark=CoreMark.RESERVED)
    return CoresView(cells=tuple(cells), hidden=topology.hidden)


def _mark(core: Core, pool: Pool) -> CoreMark:
    if any(core.id == one.id for one in pool.cores):
        return CoreMark.FREE
    if any(core.id == one.id for one in pool.rest):
        return CoreMark.REST
    # The last cause says most: what is left of a core is excluded as a part of it, after what took the other part.
    causes = [e.cause for e in pool.excluded if e.cpus & core.cpus and e.cause is not Cause.SIBLING]
    return _MARKS[causes[-1]] if causes else CoreMark.UNAVAILABLE
