"""The cores that a plan may use: what the machine has, less what is not for us, and of that the plan's fair part."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction

from migctl.core.choices import CpuShare
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.nearness import by_domain, distance_from, gather, without
from migctl.core.cpu.topology import Core, Topology
from migctl.core.runs.observed import ForeignContainer
from migctl.core.words import are, counted
from migctl.errors import HostError, Notice


class Cause(StrEnum):
    """Why a logical CPU is not in the pool."""

    AFFINITY = "affinity"
    ENGINE = "engine"
    ISOLATED = "isolated"
    RESERVED = "reserved"
    CLAIMED = "claimed"
    FOREIGN = "foreign"
    SIBLING = "sibling"


@dataclass(frozen=True, slots=True)
class Excluded:
    """Logical CPUs that are online and not in the pool."""

    cpus: CpuSet
    cause: Cause
    reason: str
    """Half a sentence: `claimed by anna/sweep`."""
    owner: str = ""
    """The run or container that has them, for `claimed` and `foreign`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Cores for jobs; all hardware threads of each are available."""

    cores: tuple[Core, ...]
    """Ascending by id."""
    rest: tuple[Core, ...] = ()
    """Available too, but beyond the plan's fair part: only an explicit `cpuset` takes them."""
    excluded: tuple[Excluded, ...] = ()
    base_cores: int
    """Cores before subtracting what other runs and containers hold: what fair parts are parts of."""
    most: int | None = None
    """As many cores as a CPU quota pays for; `None` = no quota. Which ones is left to the choice near the GPUs."""
    notices: tuple[Notice, ...] = ()

    @property
    def cpus(self) -> CpuSet:
        """All logical CPUs of the cores."""
        return CpuSet(cpu for core in self.cores for cpu in core.cpus)


def make_pool(
    topology: Topology,
    *,
    affinity: CpuSet,
    engine: CpuSet | None,
    claimed: Mapping[str, CpuSet],
    foreign: Sequence[ForeignContainer],
    allow_overlap: Collection[str] = (),
    threads_per_core: int | None = None,
    reserved: CpuSet | None = None,
    reserved_by: str = "",
    quota: Fraction | None = None,
) -> Pool:
    """Online ∩ affinity ∩ engine − isolated − reserved − claimed − foreign containers' cpusets, as whole cores.

    Args:
        topology: of the machine.
        affinity: logical CPUs that this process may use.
        engine: those that the container engine may use; `None` = no limit.
        claimed: what other runs hold, by `user/run`.
        foreign: running containers of others. One that may use more than half of the pool is not pinned in any useful
            sense: it is reported and not subtracted.
        allow_overlap: names of containers whose CPUs are used all the same.
        threads_per_core: corrects a machine whose topology is hidden.
        reserved: CPUs that the administrator keeps for the system; `None` = none.
        reserved_by: the rule that says so.
        quota: CPUs' worth of time that jobs may use altogether; `None` = no limit. Each worker keeps a CPU busy, so there are
            never more cores than that.

    Raises:
        HostError: this process, or the engine, has no CPU for jobs at all.
    """
    cores, notices = _regrouped(topology, threads_per_core)
    excluded: list[Excluded] = []
    left = topology.online

    def withhold(cpus: CpuSet, cause: Cause, reason: str, owner: str = "") -> CpuSet:
        taken = left & cpus
        if taken:
            excluded.append(Excluded(taken, cause, reason, owner))
        return left - taken

    left = withhold(left - affinity, Cause.AFFINITY, "not among the CPUs this process may use (affinity or cgroup)")
    if engine is not None:
        left = withhold(left - engine, Cause.ENGINE, "not among the CPUs the container engine may use")
    cores, half = _allowed(cores, left)
    notices += half
    left = withhold(topology.isolated, Cause.ISOLATED, "isolated (isolcpus or nohz_full)")
    if reserved is not None:
        left = withhold(reserved, Cause.RESERVED, f"kept for the system (rule {reserved_by})")
    if not left:
        raise HostError(
            "no-cpus",
            f"no CPU is left for jobs: of the online CPUs {topology.online}, "
            + "; ".join(f"{e.cpus} {'is' if len(e.cpus) == 1 else 'are'} {e.reason}" for e in excluded),
            hint="start migctl outside of the restricted cgroup, or widen its cpuset",
        )
    base = left
    base_cores = sum(core.cpus <= base for core in cores)
    for owner in sorted(claimed):
        left = withhold(claimed[owner], Cause.CLAIMED, f"claimed by {owner}", owner)
    for container in sorted(foreign, key=lambda c: c.name):
        if container.name in allow_overlap:
            continue
        covered = base & container.cpus
        if 2 * len(covered) > len(base):
            notices.append(
                Notice(
                    "wide-container",
                    f"container {container.name} may use {len(covered)} of the {len(base)} CPUs in the pool: "
                    "too many to leave to it, so jobs share them with it",
                    hint=f"pin it to fewer CPUs, or allow_overlap: [{container.name}] to say that this is meant",
                )
            )
            continue
        left = withhold(container.cpus, Cause.FOREIGN, f"used by container {container.name}", container.name)
    whole = tuple(core for core in cores if core.cpus <= left)
    excluded += [
        Excluded(core.cpus & left, Cause.SIBLING, f"only a part of core {core.id}, whose threads stay together")
        for core in cores
        if core.cpus & left and not core.cpus <= left
    ]
    most = None
    if quota is not None and (paid := max(1, int(quota))) < base_cores:
        notices.append(_limited(quota, paid, base_cores))
        base_cores = most = paid
    return Pool(cores=whole, excluded=tuple(excluded), base_cores=base_cores, most=most, notices=tuple(notices))


def _limited(quota: Fraction, paid: int, cores: int) -> Notice:
    return Notice(
        "cpu-quota",
        f"a CPU quota of {float(quota):g} CPUs is set here: {counted(paid, 'core')} of {cores} {are(paid)} used",
        hint="raise the quota of the cgroup (systemd: CPUQuota=, docker run: --cpus), or limit it by CPUs (a cpuset) instead",
    )


def fair_part(
    pool: Pool,
    topology: Topology,
    *,
    gpus_of_plan: int,
    gpus_in_machine: int,
    slices_share: Fraction,
    cpu_share: CpuShare,
    near_nodes: Collection[int],
) -> Pool:
    """The plan's part of the pool: as large as its part of the GPUs, near them, at least one core.

    The part is measured on the pool before other runs took theirs, and limited by what is free: whoever comes second
    gets as much as whoever came first.

    Args:
        pool: all that may be used.
        topology: of the machine, for distances.
        gpus_of_plan: GPUs that the plan uses.
        gpus_in_machine: all of the machine; 0 counts as the plan's own.
        slices_share: the plan's part of its GPUs' compute slices; 1 unless others hold some.
        cpu_share: `all` takes the whole pool, as far as a quota pays for it.
        near_nodes: NUMA nodes of the plan's GPUs, as far as known.
    """
    part = min(Fraction(1), Fraction(gpus_of_plan, max(gpus_of_plan, gpus_in_machine, 1)) * slices_share)
    fair = len(pool.cores) if cpu_share is CpuShare.ALL else max(1, int(pool.base_cores * part))
    count = min(len(pool.cores), fair, len(pool.cores) if pool.most is None else pool.most)
    if count == len(pool.cores):
        return pool
    free = by_domain(pool.cores)
    near = sorted(near_nodes)
    chosen: tuple[Core, ...] = ()
    for n, node in enumerate(near):
        # Two GPUs on two sockets: each socket gives half.
        quota = (count - len(chosen)) // (len(near) - n)
        here = {domain: cores for domain, cores in free.items() if domain.node == node}
        taken = gather(here, min(quota, sum(map(len, here.values()))), distance_from(node, topology))
        free = without(free, taken)
        chosen += taken
    distances = [distance_from(node, topology) for node in near] or [distance_from(None, topology)]
    chosen += gather(free, count - len(chosen), lambda node: min(distance(node) for distance in distances))
    ids = {core.id for core in chosen}
    return replace(
        pool,
        cores=tuple(core for core in pool.cores if core.id in ids),
        rest=(*(core for core in pool.cores if core.id not in ids), *pool.rest),
    )


def _regrouped(topology: Topology, threads_per_core: int | None) -> tuple[tuple[Core, ...], list[Notice]]:
    """The cores with the user's correction, where the kernel shows one hardware thread a core."""
    if threads_per_core is None:
        if not topology.hidden:
            return topology.cores, []
        return topology.cores, [
            Notice(
                "topology-hidden",
                "topology hidden: vCPUs counted as cores",
                hint="threads_per_core: 2 where the virtual machine's CPUs are hardware threads",
            )
        ]
    shown = max((len(core.cpus) + len(core.offline) for core in topology.cores), default=1)
    if shown > 1:
        if shown == threads_per_core:
            return topology.cores, []
        return topology.cores, [
            Notice(
                "threads-per-core-ignored",
                f"threads_per_core: {threads_per_core} is ignored: the kernel shows {shown} hardware threads a core",
                hint="it is for virtual machines that hide their topology",
            )
        ]
    if threads_per_core == 1:
        return topology.cores, []
    grouped: list[Core] = []
    for socket in sorted({(core.socket, core.node is None, core.node or 0) for core in topology.cores}):
        # Hypervisors that hide siblings number them side by side (KVM, Hyper-V and Xen guests).
        members = [c for c in topology.cores if (c.socket, c.node is None, c.node or 0) == socket]
        for start in range(0, len(members), threads_per_core):
            group = members[start : start + threads_per_core]
            grouped.append(replace(group[0], cpus=CpuSet(cpu for core in group for cpu in core.cpus)))
    return tuple(sorted(grouped, key=lambda core: core.id)), []


def _allowed(cores: tuple[Core, ...], allowed: CpuSet) -> tuple[tuple[Core, ...], list[Notice]]:
    """The cores as they are, or, where no core is allowed to us whole (one thread each, as batch systems give), the threads
    that are.
    """
    if any(core.cpus <= allowed for core in cores) or not allowed:
        return cores, []
    parts = tuple(replace(core, cpus=core.cpus & allowed) for core in cores if core.cpus & allowed)
    return parts, [
        Notice(
            "half-cores",
            f"of no core all hardware threads are available here (allowed: {allowed}): jobs get the allowed ones, and "
            "whoever uses the others slows them down",
        )
    ]
