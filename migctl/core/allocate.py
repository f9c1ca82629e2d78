"""The decision: which job gets which GPU instance and which CPUs, or what is in conflict. Pure: same machine, same answer."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from migctl.core.allocation import WHOLE_GPU_SLICES, Allocation, Assignment, CpuGrant, Idle
from migctl.core.choices import Strategy
from migctl.core.cpu.cpus import CpuAllocation, CpuDemand, assign, no_free_core
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.pool import Pool, fair_part, make_pool
from migctl.core.cpu.workers import batch_size
from migctl.core.gpu.administered import chosen_gpus
from migctl.core.gpu.company import weight
from migctl.core.gpu.layout import lay_out
from migctl.core.gpu.mig import Gpu
from migctl.core.gpu.share import GpuShare
from migctl.core.gpu.sharing import share_out
from migctl.core.machine import Machine
from migctl.core.memory import memory_notices
from migctl.core.plan import SIZES, ByInstance, ByProfile, BySlices, Job, Plan
from migctl.core.storage import effective, storage_notices
from migctl.errors import DoesNotFit, HostError, MigctlError


def strategy_of(plan: Plan, gpus: Sequence[Gpu]) -> Strategy:
    """The plan's strategy on these GPUs: as it says, else mig where one of them can, else shared."""
    return plan.strategy or (Strategy.MIG if any(gpu.mig is not None for gpu in gpus) else Strategy.SHARED)


def run_pool(plan: Plan, machine: Machine, gpus: Sequence[Gpu]) -> Pool:
    """The cores of a run whose jobs come and go on all these GPUs."""
    return _pool(plan, machine, (), gpus)


def allocate(
    plan: Plan, machine: Machine, *, gpus: Sequence[Gpu] | None = None, weights: Sequence[int] = ()
) -> Allocation:
    """Answer a plan on a machine.

    Args:
        plan: what is asked for.
        machine: what is there.
        gpus: those whose part of the cores the plan has, where its jobs do not use all of them now; `None` = those that they use.
        weights: compute slices of the jobs among which the cores were first shared out; a share stays what it was then.

    Raises:
        PlanError: the plan asks for something that does not exist here (a profile, a GPU, a CPU).
        DoesNotFit: a job can never run on the selected GPUs.
        Busy: others hold what the plan needs.
        HostError: no selected GPU can do what the strategy needs.
    """
    spread, gpus = gpus, chosen_gpus(plan, machine.usable) if gpus is None else gpus
    strategy = strategy_of(plan, gpus)
    if strategy is Strategy.SHARED and plan.strategy is None:
        _refuse_instances(plan, gpus)
    shares, left = (share_out if strategy is Strategy.SHARED else lay_out)(plan, machine, gpus)

    running = [job for job in plan.jobs if job.name in shares]
    pool = _pool(plan, machine, list(shares.values()) if spread is None else (), gpus)
    cpus = assign(
        [_cpu_demand(job, shares[job.name], machine) for job in running],
        pool,
        machine.topology,
        reserve_cores=plan.reserve_cores,
        cpu_split=plan.cpu_split,
        numa=plan.numa,
        oversubscribe=plan.oversubscribe,
        max_parallel=plan.max_parallel,
        weights=weights,
        keep={name: record.cpus for name, record in machine.held.items() if name in shares},
    )
    names = {*left.waiting, *cpus.waiting}
    waiting = tuple(job.name for job in plan.jobs if job.name in names)
    blocked = left.blocked or _cores_blocked(cpus, pool, plan)
    assignments = tuple(
        _assignment(job, shares[job.name], cpus.grants[job.name]) for job in running if job.name in cpus.grants
    )
    return Allocation(
        strategy=strategy,
        assignments=assignments,
        waiting=waiting,
        conflict=left.conflict or tuple(name for name in cpus.waiting if name not in cpus.over_limit),
        blocked=blocked,
        idle=Idle(
            compute_slices=left.compute_slices,
            memory_slices=left.memory_slices,
            cores=sum(core.cpus <= cpus.left_cores for core in pool.cores),
            could_add=left.could_add,
        ),
        pool=pool,
        notices=(
            *plan.notices,
            *left.notices,
            *pool.notices,
            *cpus.notices,
            *storage_notices(running, machine.storage),
            *memory_notices(assignments, machine.memory_total_mib),
        ),
    )


def _refuse_instances(plan: Plan, gpus: Sequence[Gpu]) -> None:
    """`shared` was chosen for want of MIG: a job that asks for an instance must not silently get a whole GPU with others on it."""
    asking = [
        job for job in plan.jobs if isinstance(job.request, ByProfile | BySlices | ByInstance) or job.per_instance > 1
    ]
    if asking:
        raise HostError(
            "no-mig",
            f"GPU {gpus[0].index} ({gpus[0].name}) has no MIG, and "
            f"{', '.join(job.name for job in asking[:5])}{' …' if len(asking) > 5 else ''} "
            f"{'asks' if len(asking) == 1 else 'ask'} for a GPU instance",
            where=asking[0].place(*SIZES),
            hint="strategy: shared, without profile, slices and instance: then each job has cores and workers of its own",
            data={"jobs": [job.name for job in asking]},
        )


def _pool(plan: Plan, machine: Machine, shares: Sequence[GpuShare], selected: Sequence[Gpu]) -> Pool:
    """The cores this plan may use: what nobody else holds, and of that its fair part near its GPUs."""
    pool = make_pool(
        machine.topology,
        affinity=machine.affinity,
        engine=machine.engine,
        claimed={**machine.claimed, **_left_running(plan, machine)},
        foreign=machine.foreign,
        allow_overlap=plan.allow_overlap,
        threads_per_core=plan.threads_per_core,
        reserved=machine.reserved,
        reserved_by=machine.reserved_by,
        quota=machine.quota,
    )
    used = {gpu.uuid: gpu for gpu in ([share.gpu for share in shares] or selected)}
    lent = frozenset(share.instance_uuid for share in shares if share.instance_uuid is not None)
    nodes = {machine.topology.pci_nodes.get(gpu.pci_bus_id) for gpu in used.values()}
    return fair_part(
        pool,
        machine.topology,
        gpus_of_plan=len(used),
        gpus_in_machine=len(machine.gpus) + len(machine.failures),
        slices_share=_slices_share(plan, machine, tuple(used.values()), lent),
        cpu_share=plan.cpu_share,
        near_nodes=frozenset(node for node in nodes if node is not None),
    )


def _left_running(plan: Plan, machine: Machine) -> dict[str, CpuSet]:
    """CPUs of this run's jobs that the plan no longer has, and that go on until they are taken out."""
    names = {job.name for job in plan.jobs}
    return {
        f"{record.run}/{record.job}": record.cpus
        for name, record in machine.held.items()
        if name not in names and not record.state.ended
    }


def _slices_share(plan: Plan, machine: Machine, gpus: Sequence[Gpu], lent: frozenset[str]) -> Fraction:
    """Which part of its GPUs' compute slices a plan can have where others hold some; 1 where nobody else does.

    `lent` are the MIG UUIDs of administrators' instances that it uses.
    """
    total = others = 0
    for gpu in gpus:
        slices = {p.id: p.compute_slices for p in gpu.profiles}
        total += gpu.compute_slices
        others += sum(
            slices.get(i.profile_id, 0)
            for i in gpu.instances
            if not machine.owners.get((gpu.uuid, i.gi_id), "").startswith(f"{plan.name}/")
            and not any(ci.mig_uuid in lent for ci in i.compute_instances)
        )
    return Fraction(max(total - others, 1), total) if others and total else Fraction(1)


def _cpu_demand(job: Job, share: GpuShare, machine: Machine) -> CpuDemand:
    return CpuDemand(
        job=job.name,
        compute_slices=weight(share.profile.compute_slices, job.per_instance)
        if share.profile is not None
        else WHOLE_GPU_SLICES,
        near_node=machine.topology.pci_nodes.get(share.gpu.pci_bus_id),
        cpus=job.cpus,
        cpuset=job.cpuset,
        num_workers=job.num_workers,
        storage=effective(job, machine.storage),
        where=job.place("cpuset", "cpus"),
    )


def _assignment(job: Job, share: GpuShare, grant: CpuGrant) -> Assignment:
    batch = None
    if job.batch_size is not None and job.batch_size_memory_mib is not None:
        batch = batch_size(
            job.batch_size,
            job.batch_size_memory_mib,
            share.memory_mib,
            job.batch_fixed_memory_mib,
            where=job.place("batch_size"),
        )
    elif job.batch_size is not None:
        batch = job.batch_size
    return Assignment(
        job=job,
        gpu_uuid=share.gpu.uuid,
        gpu_name=share.gpu.name,
        profile=share.profile,
        placement=share.placement,
        memory_mib=share.memory_mib,
        cpu=grant,
        batch_size=batch,
        instance_uuid=share.instance_uuid,
    )


def _cores_blocked(cpus: CpuAllocation, pool: Pool, plan: Plan) -> MigctlError | None:
    """Why jobs with a place on a GPU do not run at once all the same."""
    short = tuple(job for job in cpus.waiting if job not in cpus.over_limit)
    if short:
        return no_free_core(short, pool)
    if cpus.over_limit:
        return DoesNotFit(
            "over-max-parallel",
            f"max_parallel: {plan.max_parallel} leaves {len(cpus.over_limit)} of {len(plan.jobs)} jobs waiting "
            f"({', '.join(cpus.over_limit[:8])})",
            hint="they start when others end; a higher max_parallel starts them at once",
            data={"jobs": list(cpus.over_limit)},
        )
    return None
