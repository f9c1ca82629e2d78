"""What the user should know about how the cores were given out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from migctl.core.allocation import CpuGrant
from migctl.core.choices import CpuSplit, Numa
from migctl.core.cpu.coreshares import divide, home_node
from migctl.core.cpu.cpurequests import CpuDemand
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.pool import Cause, Pool
from migctl.core.cpu.topology import Core, Topology
from migctl.core.cpu.workers import num_workers
from migctl.core.words import are, counted
from migctl.errors import Notice


def notices(
    wave: Sequence[CpuDemand],
    grants: Mapping[str, CpuGrant],
    pool: Pool,
    topology: Topology,
    by_cpu: Mapping[int, Core],
    *,
    reserve_cores: int | None,
    cpu_split: CpuSplit,
    numa: Numa,
) -> tuple[Notice, ...]:
    """All notices about one division of cores; none of them stops anything."""
    granted = [d for d in wave if d.job in grants]
    if not granted:
        return ()
    return (
        *_single_threads(granted, grants, by_cpu),
        *_shared(granted, grants),
        *_system(wave, grants, pool, topology, by_cpu, reserve_cores=reserve_cores, cpu_split=cpu_split, numa=numa),
        *_main_process(granted, grants, by_cpu),
        *_workers(granted, grants),
        *_places(granted, grants, topology, by_cpu, numa),
    )


def _single_threads(
    granted: Sequence[CpuDemand], grants: Mapping[str, CpuGrant], by_cpu: Mapping[int, Core]
) -> Iterator[Notice]:
    """Fewer cores than jobs: the one case in which a core is divided."""
    split = [d.job for d in granted if d.cpuset is None and _splits(grants[d.job].cpus, by_cpu)]
    if split:
        cores = len({by_cpu[cpu].id for job in split for cpu in grants[job].cpus})
        room = "a whole core each" if cores > 1 else "it has the whole core"
        yield Notice(
            "one-thread-each",
            f"fewer cores than jobs: {_names(split)} get one hardware thread and one worker each, on {counted(cores, 'core')}",
            hint=f"max_parallel: {cores}: {room}, and the others run after",
        )


def _splits(cpus: CpuSet, by_cpu: Mapping[int, Core]) -> bool:
    return any(cpu in by_cpu and not by_cpu[cpu].cpus <= cpus for cpu in cpus)


def _splits_any(grants: Mapping[str, CpuGrant], by_cpu: Mapping[int, Core]) -> bool:
    return any(_splits(grant.cpus, by_cpu) for grant in grants.values())


def _shared(granted: Sequence[CpuDemand], grants: Mapping[str, CpuGrant]) -> Iterator[Notice]:
    load = Counter(cpu for d in granted for cpu in grants[d.job].cpus)
    shared = [d.job for d in granted if any(load[cpu] > 1 for cpu in grants[d.job].cpus)]
    if shared:
        yield Notice(
            "cpus-shared",
            f"oversubscribe: {_names(shared)} share CPUs, up to {max(load.values())} jobs on one",
            hint=f"max_parallel: {len(load)}: {'a CPU each' if len(load) > 1 else 'it has the CPU alone'}, "
            "and the others run after",
        )


def _system(
    wave: Sequence[CpuDemand],
    grants: Mapping[str, CpuGrant],
    pool: Pool,
    topology: Topology,
    by_cpu: Mapping[int, Core],
    *,
    reserve_cores: int | None,
    cpu_split: CpuSplit,
    numa: Numa,
) -> Iterator[Notice]:
    """Whether what was asked for is left for everything that is not a job, or a CPU at all; what keeping one core would mean.

    Silent where nothing can be done about it: on one core, or where the jobs share cores, which is told already.
    """
    held = CpuSet(cpu for grant in grants.values() for cpu in grant.cpus)
    free = sum(not core.cpus & held for core in pool.cores)
    if reserve_cores and free < reserve_cores:
        most = len(pool.cores) - len(grants)
        ways = [f"at most reserve_cores: {most}"] if most > 0 else []
        ways += ["fewer jobs at once"] if len(grants) > 1 else []
        yield Notice(
            "reserve-not-kept",
            f"reserve_cores: {reserve_cores} cannot be kept: of {counted(len(pool.cores), 'core')} "
            f"{free or 'none'} {are(free) if free else 'is'} left for the system, since every job gets one",
            hint=", or ".join(ways) or "delete it: a job needs a core",
        )
        return
    others = CpuSet(cpu for e in pool.excluded if e.cause in (Cause.CLAIMED, Cause.FOREIGN) for cpu in e.cpus)
    shared = len(held) < sum(len(grant.cpus) for grant in grants.values())
    if topology.online - topology.isolated - held - others or shared or _splits_any(grants, by_cpu):
        return
    one_kept = divide(wave, pool, topology, reserve_cores=1, cpu_split=cpu_split, numa=numa)
    sizes = {job: size for group in one_kept for job, size in group.sizes.items() if job in grants}
    now = {job: grants[job].cores for job in sizes}
    if sum(sizes.values()) < sum(now.values()):
        kept = sum(now.values()) - sum(sizes.values())
        hint = f"reserve_cores: 1 keeps {counted(kept, 'core')}: {_changes(now, sizes)}"
    elif len(grants) > 1:
        most = len(grants) - 1
        hint = f"{counted(most, 'job')} at once with reserve_cores: 1 {'keeps' if most == 1 else 'keep'} one core"
    else:
        return
    yield Notice("nothing-for-system", "nothing is left for the system: the jobs have every core", hint=hint)


def _changes(now: Mapping[str, int], then: Mapping[str, int]) -> str:
    """Who would get other cores, and how many: `wide gets 4 cores and workers instead of 5`."""
    changed = {job: (then[job], now[job]) for job in now if then[job] != now[job]}
    (size, before), *others = set(changed.values())
    if others:
        return _names([f"{job} gets {new} instead of {old}" for job, (new, old) in changed.items()])
    who = (
        f"{_names(tuple(changed))} {'gets' if len(changed) == 1 else 'get'}"
        if len(changed) < len(now)
        else "each job gets"
    )
    return f"{who} {counted(size, 'core')} and as many workers instead of {before}"


def _main_process(
    granted: Sequence[CpuDemand], grants: Mapping[str, CpuGrant], by_cpu: Mapping[int, Core]
) -> Iterator[Notice]:
    """By the rule there are as many workers as cores; the main process then runs on a second hardware thread, if any."""
    crowded = [
        d.job
        for d in granted
        if d.num_workers is None
        and grants[d.job].num_workers >= max(2, len(grants[d.job].cpus))  # of one worker none can be given up
        and not _splits(grants[d.job].cpus, by_cpu)
    ]
    if crowded:
        yield Notice(
            "main-without-thread",
            f"no sibling thread for the main process of {_names(crowded)}: it runs on the cores of its workers",
            hint="num_workers: one less leaves it a core; measure both",
        )


def _workers(granted: Sequence[CpuDemand], grants: Mapping[str, CpuGrant]) -> Iterator[Notice]:
    """More workers asked for than the rule gives: with the main processes they are more than the cores."""
    too_many: list[str] = []
    for demand in granted:
        grant = grants[demand.job]
        by_rule = num_workers(grant.cores, len(grant.cpus), demand.storage, smt=len(grant.cpus) > grant.cores)
        if demand.num_workers is not None and demand.num_workers > by_rule:
            too_many.append(f"{demand.job} ({demand.num_workers} on {grant.cores})")
    if too_many:
        workers = sum(grants[d.job].num_workers for d in granted)
        cores = len({cpu for d in granted for cpu in grants[d.job].cpus})
        yield Notice(
            "workers-exceed-cores",
            f"more workers than cores: {_names(too_many)}; in all {counted(workers, 'worker')} and "
            f"{counted(len(granted), 'main process', 'main processes')} on {counted(cores, 'logical CPU')}",
            hint="num_workers: auto gives as many as the job's cores carry",
        )


def _places(
    granted: Sequence[CpuDemand],
    grants: Mapping[str, CpuGrant],
    topology: Topology,
    by_cpu: Mapping[int, Core],
    numa: Numa,
) -> Iterator[Notice]:
    """Jobs that are not where they would run best."""
    far: list[str] = []
    mixed: list[str] = []
    unknown: list[str] = []
    homes = {near: home_node(near, topology) for near in {d.near_node for d in granted}}
    for demand in granted:
        cores = [by_cpu[cpu] for cpu in grants[demand.job].cpus if cpu in by_cpu]
        home = homes[demand.near_node]
        if home is not None and any(core.node != home for core in cores):
            far.append(demand.job)
        if len({core.capacity for core in cores}) > 1:
            mixed.append(demand.job)
        if numa is Numa.STRICT and home is None:
            unknown.append(demand.job)
    if far:
        yield Notice(
            "far-from-gpu",
            f"{_names(far)}: CPUs on another NUMA node than the GPU's, whose cores do not suffice",
            hint="numa: strict keeps jobs on the GPU's node, with fewer cores",
        )
    if mixed:
        yield Notice("mixed-cores", f"{_names(mixed)}: fast and slow cores together, since neither kind suffices alone")
    if unknown:
        yield Notice("numa-unknown", f"numa: strict: the kernel knows no NUMA node for the GPU of {_names(unknown)}")


def _names(names: Sequence[str]) -> str:
    """Up to four names, then how many more."""
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"
