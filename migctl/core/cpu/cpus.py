"""Which job gets which logical CPUs: whole cores near its GPU, in the proportion of the guide's rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from migctl.core.allocation import CpuGrant
from migctl.core.choices import CpuSplit, Numa
from migctl.core.cpu.coreshares import divide, sized
from migctl.core.cpu.cpunotices import notices
from migctl.core.cpu.cpurequests import CpuDemand, cores_by_cpu, problems
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.nearness import by_domain, choose, distance_from, nearest_first, without
from migctl.core.cpu.pool import Cause, Pool
from migctl.core.cpu.topology import Core, Topology
from migctl.core.cpu.workers import num_workers, threads
from migctl.core.words import are, counted
from migctl.errors import Busy, DoesNotFit, MigctlError, Notice, Problems

__all__ = ["CpuAllocation", "CpuDemand", "assign", "no_free_core"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuAllocation:
    """Who gets which CPUs."""

    grants: Mapping[str, CpuGrant]
    """By job, in the order of the demands."""
    waiting: tuple[str, ...] = ()
    """Jobs that cannot run now: no free core, or more than `max_parallel`."""
    over_limit: tuple[str, ...] = ()
    """Those of `waiting` that wait because of `max_parallel` only."""
    left_cores: CpuSet = CpuSet()
    """Logical CPUs of the pool's cores of which nobody uses a thread."""
    notices: tuple[Notice, ...] = ()


def assign(
    demands: Sequence[CpuDemand],
    pool: Pool,
    topology: Topology,
    *,
    reserve_cores: int | None,
    cpu_split: CpuSplit,
    numa: Numa,
    oversubscribe: bool,
    max_parallel: int | None,
    keep: Mapping[str, CpuSet] | None = None,
    weights: Sequence[int] = (),
) -> CpuAllocation:
    """Give every job its CPUs; the same input gives the same answer.

    Shares are those of all the jobs together, so that a job that comes later takes min(share, free cores).

    Args:
        demands: jobs that are to run at the same time, in the plan's order.
        pool: the plan's part of the cores.
        topology: of the machine.
        reserve_cores: cores left for the system; `None` = by the guide.
        cpu_split: by compute slices, or equally.
        numa: `strict` keeps each job on the NUMA node of its GPU and binds its memory.
        oversubscribe: jobs that find no free CPU share one.
        max_parallel: jobs at the same time; `None` = all of `demands`.
        keep: logical CPUs of running jobs, which stay exactly those.
        weights: compute slices of the jobs among which the cores were shared out when the run began; empty = these `demands`.

    Raises:
        PlanError: a request that is wrong on this machine or contradicts another.
        HostError: a request for CPUs that are offline, isolated or not allowed here.
        Busy: a request for CPUs that others hold.
    """
    kept = {d.job: keep[d.job] for d in demands if keep.get(d.job)} if keep else {}
    starting = [d for d in demands if d.job not in kept]
    over = starting[max(0, max_parallel - len(kept)) :] if max_parallel is not None else []
    over_limit = {d.job for d in over}
    wave = [d for d in demands if d.job not in over_limit]
    wrong = [
        *problems([d for d in wave if d.job not in kept], pool, topology, numa=numa, oversubscribe=oversubscribe),
        *problems(over, pool, topology, numa=numa, oversubscribe=True),
    ]
    if wrong:
        raise wrong[0] if len(wrong) == 1 else Problems(wrong)

    by_cpu = cores_by_cpu(pool, topology)
    # Kept jobs may lie beyond the part that the plan would get today; together they stay within its size.
    outside = {by_cpu[cpu].id for d in wave if d.cpuset is None for cpu in kept.get(d.job, ()) if cpu in by_cpu}
    outside -= {core.id for core in pool.cores}
    granted = _place(
        wave,
        kept,
        pool,
        topology,
        reserve_cores=reserve_cores,
        cpu_split=cpu_split,
        numa=numa,
        oversubscribe=oversubscribe,
        beyond=len(outside),
        weights=weights,
    )
    grants = {d.job: _grant(d, granted[d.job], by_cpu, topology, numa) for d in demands if d.job in granted}
    used = CpuSet(cpu for cpus in granted.values() for cpu in cpus)
    return CpuAllocation(
        grants=grants,
        waiting=tuple(d.job for d in demands if d.job not in granted),
        over_limit=tuple(d.job for d in over),
        left_cores=CpuSet(cpu for core in pool.cores if not core.cpus & used for cpu in core.cpus),
        notices=notices(
            wave,
            grants,
            pool,
            topology,
            by_cpu,
            reserve_cores=reserve_cores,
            cpu_split=cpu_split,
            numa=numa,
        ),
    )


def no_free_core(waiting: Sequence[str], pool: Pool) -> MigctlError:
    """Why jobs wait for cores: others hold them (`Busy`), or the jobs are too many for this plan's cores (`DoesNotFit`)."""
    names = ", ".join(waiting)
    held = [e for e in pool.excluded if e.cause in (Cause.CLAIMED, Cause.FOREIGN)]
    data: dict[str, object] = {"jobs": list(waiting), "owners": sorted({e.owner for e in held})}
    cores = f"{counted(len(pool.cores), 'core')} with {counted(len(pool.cpus), 'logical CPU')}"
    if held and not pool.rest:
        return Busy(
            "no-free-core",
            f"no free core for {names}: {cores} {are(len(pool.cores))} free for this plan, others hold "
            + "; ".join(f"{e.cpus} ({e.owner})" for e in held),
            hint="try again when they have ended",
            data=data,
        )
    return DoesNotFit(
        "no-free-core",
        f"no free core for {names}: this plan has {cores}",
        hint="fewer jobs at once (max_parallel), or oversubscribe: true (one CPU each, shared)",
        data=data,
    )


def _place(
    wave: Sequence[CpuDemand],
    kept: Mapping[str, CpuSet],
    pool: Pool,
    topology: Topology,
    *,
    reserve_cores: int | None,
    cpu_split: CpuSplit,
    numa: Numa,
    oversubscribe: bool,
    beyond: int,
    weights: Sequence[int],
) -> dict[str, CpuSet]:
    """CPUs of all jobs that find some: first what is fixed, then whole cores, the largest first, then single threads."""
    granted = dict(kept)
    load = Counter(cpu for cpus in kept.values() for cpu in cpus)
    requested: set[int] = set()
    for demand in wave:
        if demand.cpuset is None:
            continue
        if demand.job not in granted and (oversubscribe or not load.keys() & demand.cpuset):
            granted[demand.job] = demand.cpuset
            load.update(demand.cpuset)
        requested |= granted.get(demand.job, CpuSet())

    order = {demand.job: n for n, demand in enumerate(wave)}
    distances = {node: distance_from(node, topology) for node in {d.near_node for d in wave}}
    groups = divide(wave, pool, topology, reserve_cores=reserve_cores, cpu_split=cpu_split, numa=numa, weights=weights)
    for group in groups:
        free = by_domain(core for core in group.scope if not load.keys() & core.cpus)
        room = sum(map(len, free.values()))
        due = sized(group, granted, max(0, room - beyond))
        beyond = max(0, beyond - room)
        for demand, size in sorted(due, key=lambda one: (-one[1], order[one[0].job])):
            cores = choose(free, size, distances[demand.near_node])
            free = without(free, cores)
            granted[demand.job] = CpuSet(cpu for core in cores for cpu in core.cpus)
            load.update(granted[demand.job])
        requested |= {cpu for d in group.members if d.cpus is not None for cpu in granted.get(d.job, ())}

    for group in groups:
        for demand in group.members:
            single = demand.cpus is None and (group.thread_cores or oversubscribe)
            if demand.job in granted or not single:
                continue
            cores = tuple(nearest_first(group.thread_cores or group.scope, distances[demand.near_node]))
            cpu = _least_loaded(cores, load, requested, share=oversubscribe)
            if cpu is not None:
                granted[demand.job] = CpuSet({cpu})
                load[cpu] += 1
    return granted


def _least_loaded(cores: Sequence[Core], load: Mapping[int, int], requested: set[int], *, share: bool) -> int | None:
    """The CPU with the fewest jobs, on the core with the fewest jobs, nearest first; only an unused one unless shared."""
    best: tuple[int, int, int, int] | None = None
    for position, core in enumerate(cores):
        on_core = sum(load.get(cpu, 0) for cpu in core.cpus)
        for cpu in core.cpus:
            if cpu in requested or (load.get(cpu) and not share):
                continue
            key = (load.get(cpu, 0), on_core, position, cpu)
            best = key if best is None or key < best else best
    return None if best is None else best[-1]


def _grant(demand: CpuDemand, cpus: CpuSet, by_cpu: Mapping[int, Core], topology: Topology, numa: Numa) -> CpuGrant:
    touched = {by_cpu[cpu].id: by_cpu[cpu] for cpu in cpus if cpu in by_cpu}
    cores = max(1, len(touched))
    workers = demand.num_workers
    if workers is None:
        workers = num_workers(cores, len(cpus), demand.storage, smt=len(cpus) > cores)
    return CpuGrant(
        cpus=cpus,
        cores=cores,
        num_workers=workers,
        threads=threads(cores, workers),
        mems=_mems(touched.values(), topology) if numa is Numa.STRICT else None,
    )


def _mems(cores: Iterable[Core], topology: Topology) -> CpuSet | None:
    """Memory nodes for `numa: strict`: those of the CPUs, or the nearest one where they have no memory; `None` if unknown."""
    nodes = {core.node for core in cores if core.node is not None}
    if mems := nodes & topology.nodes_with_memory:
        return CpuSet(mems)
    if not nodes or not topology.nodes_with_memory:
        return None
    distances = [distance_from(node, topology) for node in sorted(nodes)]
    nearest = min(topology.nodes_with_memory, key=lambda node: (min(d(node) for d in distances), node))
    return CpuSet({nearest})
