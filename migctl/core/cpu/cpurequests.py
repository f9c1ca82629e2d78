"""CPUs that a job asks for by itself, `cpus` and `cpuset`, checked against the machine, the pool and the other jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from migctl.core.choices import Numa, Storage
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.pool import Cause, Pool
from migctl.core.cpu.topology import Core, Topology
from migctl.core.words import are, counted
from migctl.errors import Busy, HostError, MigctlError, PlanError, Where


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuDemand:
    """What matters of one job when cores are given out."""

    job: str
    compute_slices: int
    """Weight where jobs share by slices."""
    near_node: int | None = None
    """NUMA node of its GPU, `None` where unknown."""
    cpus: int | None = None
    """Physical cores asked for."""
    cpuset: CpuSet | None = None
    """Logical CPUs asked for."""
    num_workers: int | None = None
    """`None` = by the rule."""
    storage: Storage | None = None
    where: Where | str | None = None

    @property
    def place(self) -> Where | str:
        """What errors name."""
        return self.where or f"job {self.job}"


def cores_by_cpu(pool: Pool, topology: Topology) -> dict[int, Core]:
    """The core of each online logical CPU, as the pool groups them."""
    found = {cpu: core for core in (*pool.cores, *pool.rest) for cpu in core.cpus}
    for core in topology.cores:
        if found.get(core.id) is not core:
            for cpu in core.cpus:
                found.setdefault(cpu, core)
    return found


def problems(
    demands: Sequence[CpuDemand],
    pool: Pool,
    topology: Topology,
    *,
    numa: Numa,
    oversubscribe: bool,
) -> Iterator[MigctlError]:
    """Everything that is wrong with what these jobs ask for; jobs that run at the same time.

    Args:
        demands: the jobs.
        pool: the plan's part of the cores.
        topology: of the machine.
        numa: under `strict` a request must lie on the node of the job's GPU.
        oversubscribe: whether jobs may share CPUs.
    """
    asking = [demand for demand in demands if demand.cpuset is not None or demand.cpus is not None]
    by_cpu = cores_by_cpu(pool, topology) if asking else {}
    for demand in asking:
        if demand.cpuset is not None:
            error = _cpuset_problem(demand, demand.cpuset, pool, topology, by_cpu, numa)
        elif demand.cpus is not None:
            error = _count_problem(demand, demand.cpus, pool, topology, numa)
        else:
            error = None
        if error is not None:
            yield error
    if not oversubscribe:
        yield from _overlaps(asking)


def _cpuset_problem(
    demand: CpuDemand, cpuset: CpuSet, pool: Pool, topology: Topology, by_cpu: Mapping[int, Core], numa: Numa
) -> MigctlError | None:
    """The first of: empty, beyond the machine, offline, isolated, splits siblings, not in the pool, far under `strict`."""
    present = topology.online | topology.offline | CpuSet(c for core in topology.cores for c in core.offline)
    data: dict[str, object] = {"job": demand.job, "cpuset": str(cpuset)}
    if not cpuset:
        return PlanError("cpuset-empty", f"{demand.job}: cpuset names no CPU", where=demand.place, data=data)
    if beyond := cpuset - present:
        return PlanError(
            "cpuset-beyond-machine",
            f"{demand.job}: cpuset {cpuset} names {_cpus(beyond)}; this machine has {_cpus(present)}",
            where=demand.place,
            hint="`migctl check` shows the cores; `cpus: N` leaves the choice to migctl",
            data={**data, "missing": str(beyond)},
        )
    if offline := cpuset - topology.online:
        return HostError(
            "cpus-offline",
            f"{demand.job}: {_cpus(offline)} of cpuset {cpuset} {_are(offline)} offline",
            where=demand.place,
            hint=f"online are {topology.online}; an administrator switches one on with "
            f"`echo 1 > /sys/devices/system/cpu/cpu{min(offline)}/online`",
            data={**data, "offline": str(offline)},
        )
    if isolated := cpuset & topology.isolated:
        return HostError(
            "cpus-isolated",
            f"{demand.job}: {_cpus(isolated)} of cpuset {cpuset} {_are(isolated)} isolated (isolcpus or nohz_full): the "
            "scheduler does not balance there, and all processes of the job would stay on one CPU",
            where=demand.place,
            hint=f"choose from {topology.online - topology.isolated}",
            data={**data, "isolated": str(isolated)},
        )
    for excluded in pool.excluded:
        taken = cpuset & excluded.cpus
        if taken and excluded.cause is not Cause.SIBLING:
            busy = excluded.cause in (Cause.CLAIMED, Cause.FOREIGN)
            hint = f"choose from {_available(pool)}"
            if excluded.cause is Cause.FOREIGN:
                hint += f", or allow_overlap: [{excluded.owner}]"
            return (Busy if busy else HostError)(
                "cpus-taken" if busy else "cpus-not-allowed",
                f"{demand.job}: {_cpus(taken)} of cpuset {cpuset} {_are(taken)} {excluded.reason}",
                where=demand.place,
                hint=hint,
                data={**data, "taken": str(taken), "owner": excluded.owner},
            )
    completed = CpuSet(cpu for mine in cpuset for cpu in by_cpu[mine].cpus)
    if completed != cpuset:
        return PlanError(
            "cpuset-splits-cores",
            f"{demand.job}: cpuset {cpuset} has some hardware threads of a core and leaves {_cpus(completed - cpuset)} of "
            "the same cores to others",
            where=demand.place,
            hint=f"the completed set is `cpuset: {completed}`",
            data={**data, "completed": str(completed)},
        )
    nodes = {by_cpu[cpu].node for cpu in cpuset}
    if numa is Numa.STRICT and demand.near_node is not None and nodes - {demand.near_node}:
        others = ", ".join(str(node) for node in sorted(n for n in nodes if n is not None))
        return PlanError(
            "numa-conflict",
            f"{demand.job}: cpuset {cpuset} lies on NUMA node {others}, its GPU on node {demand.near_node}, and the plan "
            "says numa: strict",
            where=demand.place,
            hint="numa: prefer, or CPUs of the GPU's node",
            data=data,
        )
    return None


def _count_problem(demand: CpuDemand, count: int, pool: Pool, topology: Topology, numa: Numa) -> MigctlError | None:
    data: dict[str, object] = {"job": demand.job, "cpus": count}
    if count < 1:
        return PlanError("cpus-too-few", f"{demand.job}: a job needs at least one core", where=demand.place, data=data)
    if count > len(topology.cores):
        return PlanError(
            "cpus-beyond-machine",
            f"{demand.job}: cpus: {count} asks for {counted(count, 'physical core')}; this machine has {len(topology.cores)} "
            f"with {counted(len(topology.online), 'logical CPU')}",
            where=demand.place,
            hint=f"at most cpus: {len(pool.cores)}" if pool.cores else None,
            data=data,
        )
    if count > len(pool.cores):
        held = sorted({e.owner for e in pool.excluded if e.cause in (Cause.CLAIMED, Cause.FOREIGN)})
        blocked = bool(held) and not pool.rest and count <= pool.base_cores
        hint = f"at most cpus: {len(pool.cores)}"
        if blocked:
            hint += ", or wait until others have ended"
        elif pool.most is not None and count > pool.most:
            hint += ", since a CPU quota pays for no more"
        elif pool.rest and count <= len(pool.cores) + len(pool.rest):
            hint += ", or cpu_share: all, which takes the cores beyond the plan's fair part"
        return (Busy if blocked else PlanError)(
            "cpus-taken" if blocked else "cpus-beyond-pool",
            f"{demand.job}: cpus: {count} asks for {counted(count, 'physical core')}; this plan can have {len(pool.cores)} of the "
            f"machine's {len(topology.cores)}" + (f" ({', '.join(held)} hold others)" if held else ""),
            where=demand.place,
            hint=hint,
            data={**data, "owners": held},
        )
    near = [core for core in pool.cores if core.node == demand.near_node]
    if numa is Numa.STRICT and demand.near_node is not None and near and count > len(near):
        return PlanError(
            "numa-conflict",
            f"{demand.job}: cpus: {count} is more than the {counted(len(near), 'core')} of NUMA node {demand.near_node}, where its "
            "GPU is, and the plan says numa: strict",
            where=demand.place,
            hint=f"numa: prefer, or at most cpus: {len(near)}",
            data=data,
        )
    return None


def _overlaps(demands: Sequence[CpuDemand]) -> Iterator[MigctlError]:
    pinned = [(demand, demand.cpuset) for demand in demands if demand.cpuset is not None]
    for n, (second, theirs) in enumerate(pinned):
        for first, ours in pinned[:n]:
            if shared := ours & theirs:
                yield PlanError(
                    "cpusets-overlap",
                    f"{first.job} and {second.job} run at the same time and both name {_cpus(shared)}",
                    where=second.place,
                    hint="give each its own CPUs, or oversubscribe: true to let them share",
                    data={"jobs": [first.job, second.job], "shared": str(shared)},
                )
                break


def _available(pool: Pool) -> CpuSet:
    return CpuSet(cpu for core in (*pool.cores, *pool.rest) for cpu in core.cpus)


def _cpus(cpus: CpuSet) -> str:
    return f"CPU {cpus}" if len(cpus) == 1 else f"CPUs {','.join(map(str, cpus)) if len(cpus) <= 8 else cpus}"


def _are(cpus: CpuSet) -> str:
    return are(len(cpus))
