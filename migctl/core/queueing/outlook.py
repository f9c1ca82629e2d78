"""From a plan, a machine and how far the run has come to what the queue decides on: turns, rooms, free cores."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from migctl.core.choices import Numa, Strategy
from migctl.core.cpu.coreshares import home_node
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.pool import Pool
from migctl.core.gpu.company import Company, company_of
from migctl.core.gpu.layout import hidden_error, mode_error
from migctl.core.gpu.mig import UNKNOWN_PLACEMENT, Gpu, Instance
from migctl.core.machine import Machine
from migctl.core.plan import Plan
from migctl.core.queueing.progress import Progress
from migctl.core.queueing.situation import Situation
from migctl.core.queueing.turn import WHOLE_GPU, WHOLE_PLACEMENT, History, Site, Spare, Stay, Turn
from migctl.core.queueing.wishes import Wishes, sliced
from migctl.core.runs.ownership import NOT_OURS
from migctl.core.runs.record import JobState, Record
from migctl.errors import HostError


def situation(
    plan: Plan,
    machine: Machine,
    progress: Progress,
    *,
    gpus: Sequence[Gpu],
    strategy: Strategy,
    pool: Pool,
    now: float,
) -> Situation:
    """What the queue decides on.

    Args:
        plan: all jobs of the run.
        machine: what is there, the instances of the run's own jobs included.
        progress: what became of the run's jobs.
        gpus: those that the plan means.
        strategy: what the plan's automatic choice came to.
        pool: the cores that the run may use, its own jobs' included.
        now: Unix seconds.

    Raises:
        MigctlError: a job can never run there, whatever ends.
    """
    expected = {job.name: job.expect_s for job in plan.jobs if job.expect_s is not None}
    declared = {job.name: job.memory_mib for job in plan.jobs if job.memory_mib is not None}
    stays = {
        name: _stay_of(record, expected.get(name), declared.get(name, 0), now)
        for name, record in progress.records.items()
        if not record.state.ended and record.state is not JobState.QUEUED
    }
    sites = tuple(_site(gpu, machine, progress, strategy, stays) for gpu in _sites(gpus, strategy, plan))
    wishes = Wishes(plan, machine, sites, strategy, progress.queue.wave, pool)
    turns = tuple(
        Turn(
            name=job.name,
            wish=wishes.of(job),
            priority=job.priority,
            needs=job.needs,
            stage=job.stage,
            expect_s=job.expect_s,
        )
        for job in plan.jobs
    )
    busy = CpuSet(cpu for record in progress.records.values() if not record.state.ended for cpu in record.cpus)
    nodes = _nodes(machine, sites, plan.numa)
    sites = tuple(replace(site, scope=_scope(nodes[site.gpu.uuid])) for site in sites)
    return Situation(
        turns=turns,
        states={job.name: progress.state(job.name) for job in plan.jobs},
        sites=sites,
        now=now,
        strategy=strategy,
        max_parallel=plan.max_parallel,
        free_cores={_scope(node): _free(pool, busy, node, threads=wishes.threads) for node in set(nodes.values())}
        if not plan.oversubscribe
        else None,
        free_cpus=CpuSet(pool.cpus - busy),
        lent=frozenset(
            r.instance.mig_uuid
            for r in progress.records.values()
            if r.instance is not None and r.instance.foreign and r.instance.mig_uuid and not r.state.ended
        ),
        held=progress.queue.held,
        held_words=f"the run is held: {progress.queue.reason}" if progress.queue.reason else "the run is held",
        held_jobs=frozenset(progress.queue.held_jobs),
        not_before=progress.again,
        history=History(
            submitted={entry.job: entry.submitted_at for entry in progress.queue.entries},
            started={n: r.started_at for n, r in progress.records.items() if r.started_at is not None},
            finished={n: r.finished_at for n, r in progress.records.items() if r.finished_at is not None},
        ),
    )


def _nodes(machine: Machine, sites: Sequence[Site], numa: Numa) -> dict[str, int | None]:
    """GPU UUID → the NUMA node whose cores its jobs must have; `None`: they may have any."""
    known = machine.topology.pci_nodes
    return {
        site.gpu.uuid: home_node(known.get(site.gpu.pci_bus_id), machine.topology) if numa is Numa.STRICT else None
        for site in sites
    }


def _scope(node: int | None) -> int:
    return 0 if node is None else node + 1


def _free(pool: Pool, busy: Collection[int], node: int | None, *, threads: bool) -> int:
    taken = set(busy)
    cores = [core for core in pool.cores if node is None or core.node == node]
    if threads:
        return sum(len(core.cpus - taken) for core in cores)
    return sum(not core.cpus & taken for core in cores)


def _sites(gpus: Sequence[Gpu], strategy: Strategy, plan: Plan) -> tuple[Gpu, ...]:
    """The GPUs on which a job can be started now.

    Raises:
        HostError: none of them; why the first is not.
    """
    found = tuple(gpu for gpu in gpus if _able(gpu, strategy, enabling=plan.enable_mig))
    if found:
        return found
    first = gpus[0]
    if strategy is Strategy.SHARED:
        raise HostError(
            "gpu-in-mig-mode",
            f"GPU {first.index} ({first.name}) is in MIG mode: CUDA sees only its instances there, never the whole GPU",
            where=f"GPU {first.index}",
            hint="strategy: mig or sequential, or another GPU; `migctl status` shows every GPU's mode",
        )
    raise hidden_error(first) if first.instances_reason is not None else mode_error(first)


def _able(gpu: Gpu, strategy: Strategy, *, enabling: bool) -> bool:
    if gpu.mig is None:
        return True
    if strategy is Strategy.SHARED:
        return not (gpu.mig.current or gpu.mig.pending)
    if not gpu.mig.settled or gpu.instances_reason is not None:
        return False
    # One after another a job has the whole GPU, in whichever mode that is.
    return gpu.mig.current or strategy is Strategy.SEQUENTIAL or (enabling and bool(gpu.profiles))


def _site(gpu: Gpu, machine: Machine, progress: Progress, strategy: Strategy, running: Mapping[str, Stay]) -> Site:
    here = {name: r for name, r in progress.records.items() if r.gpu_uuid == gpu.uuid}
    if not sliced(gpu, strategy):
        own = [running[name] for name in here if name in running]
        return Site(gpu=gpu, stays=tuple(own) or _strangers(gpu, machine))
    owners: dict[int, list[Record]] = {}
    for r in here.values():
        if r.instance is not None and not r.instance.foreign:
            owners.setdefault(r.instance.gi_id, []).append(r)
    stays: list[Stay] = []
    spares: list[Spare] = []
    for instance in gpu.instances:
        if instance.placement == UNKNOWN_PLACEMENT:
            continue
        records = owners.get(instance.gi_id, [])
        own = [running[r.job] for r in records if r.job in running]
        if own:
            stays += own
        elif records and all(r.state.ended for r in records) and (gpu.uuid, instance.gi_id) not in progress.blocked:
            spares.append(_spare(gpu, instance, max(records, key=lambda r: (r.created_at or 0.0, r.job))))
        else:
            owner = machine.owners.get((gpu.uuid, instance.gi_id), NOT_OURS)
            stays.append(Stay(placement=instance.placement, profile_id=instance.profile_id, owner=owner))
    there = {stay.placement: stay.company for stay in stays}
    known = {stay.job for stay in stays}
    # Jobs whose instance is about to be made, or to be shared by them too.
    for name, r in here.items():
        if name not in running or name in known or r.placement is None:
            continue
        if r.placement not in there or (r.instance is None and _shares(r, there[r.placement])):
            stays.append(running[name])
    return Site(gpu=gpu, stays=tuple(stays), spares=tuple(spares))


def _shares(record: Record, kept: Company | None) -> bool:
    return kept is not None and company_of(record) == kept


def _spare(gpu: Gpu, instance: Instance, record: Record) -> Spare:
    computes = instance.compute_instances
    return Spare(
        gpu_uuid=gpu.uuid,
        gi_id=instance.gi_id,
        profile_id=instance.profile_id,
        placement=instance.placement,
        owner=f"{record.run}/{record.job}",
        mig_uuid=computes[0].mig_uuid if len(computes) == 1 else None,
    )


def _stay_of(record: Record, expect_s: float | None, memory_mib: int, now: float) -> Stay:
    sliced = record.placement is not None and record.profile_id is not None
    ends = None
    if expect_s is not None and record.started_at is not None:
        ends = max(now, record.started_at + expect_s)
    stay = Stay(
        placement=WHOLE_PLACEMENT,
        profile_id=WHOLE_GPU,
        owner=f"{record.run}/{record.job}",
        job=record.job,
        cores=record.cores,
        memory_mib=memory_mib,
        ends_at=ends,
    )
    if record.placement is None or record.profile_id is None or not sliced:
        return stay
    return replace(stay, placement=record.placement, profile_id=record.profile_id, company=company_of(record))


def _strangers(gpu: Gpu, machine: Machine) -> tuple[Stay, ...]:
    """Who else has the GPU itself: another run by its claim, or processes that are nobody's job here."""
    other = machine.whole.get(gpu.uuid)
    if other is None and gpu.processes:
        other = ", ".join(machine.processes.get(p.pid, f"pid {p.pid}") for p in gpu.processes[:3])
    return (Stay(placement=WHOLE_PLACEMENT, profile_id=WHOLE_GPU, owner=other),) if other is not None else ()
