"""How many cores each job gets, before it is decided which."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from migctl.core.choices import CpuSplit, Numa
from migctl.core.cpu.apportion import apportion
from migctl.core.cpu.cpurequests import CpuDemand
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.nearness import distance_from, nearest_first
from migctl.core.cpu.pool import Pool
from migctl.core.cpu.topology import Core, Topology
from migctl.core.cpu.workers import reserved_cores


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Jobs that divide the same cores: all of them, or under `numa: strict` those of one node."""

    scope: tuple[Core, ...]
    """The cores."""
    members: tuple[CpuDemand, ...]
    """The jobs without a `cpuset` of their own."""
    sizes: Mapping[str, int]
    """Cores for each job without a request of its own; empty where there are more such jobs than cores."""
    thread_cores: tuple[Core, ...]
    """Where `sizes` is empty: the cores whose hardware threads are given out one by one, nearest first."""


def divide(
    wave: Sequence[CpuDemand],
    pool: Pool,
    topology: Topology,
    *,
    reserve_cores: int | None,
    cpu_split: CpuSplit,
    numa: Numa,
    weights: Sequence[int] = (),
) -> tuple[Group, ...]:
    """Divide the pool among jobs that run at the same time, as if none had started yet.

    Requests (`cpus`, `cpuset`) come first, the others share the rest: the guide's rule, by compute slices where they differ.

    Args:
        wave: the jobs.
        pool: the cores.
        topology: of the machine.
        reserve_cores: as in the plan.
        cpu_split: as in the plan.
        numa: as in the plan.
        weights: compute slices of the jobs of the run's first wave: where fewer run now, the share of those that are missing stays
            free for the next ones.
    """
    members: dict[int | None, list[CpuDemand]] = {}
    for demand in wave:
        node = home_node(demand.near_node, topology) if numa is Numa.STRICT else None
        members.setdefault(node, []).append(demand)
    scopes = {node: tuple(c for c in pool.cores if node is None or c.node == node) for node in members}
    # Cores on nodes that no job may use are the system's already.
    covered = {core.id for scope in scopes.values() for core in scope}
    reserve = max(0, reserved_cores(max(len(wave), len(weights)), reserve_cores) - (len(pool.cores) - len(covered)))
    pinned = CpuSet(cpu for d in wave if d.cpuset is not None for cpu in d.cpuset)
    groups: list[Group] = []
    for node, demands in members.items():
        open_cores = tuple(core for core in scopes[node] if not core.cpus & pinned)
        sharing = [d for d in demands if d.cpuset is None and d.cpus is None]
        asked = sum(d.cpus for d in demands if d.cpuset is None and d.cpus is not None)
        total = len(open_cores) - asked
        sizes: dict[str, int] = {}
        thread_cores: tuple[Core, ...] = ()
        if sharing and total >= len(sharing):
            own = [int(d.compute_slices) if cpu_split is CpuSplit.SLICES else 1 for d in sharing]
            first = weights if cpu_split is CpuSplit.SLICES else [1] * len(weights)
            others = absent(first, own) if node is None else ()
            parts = apportion(max(total - reserve, len(sharing) + len(others)), [*own, *others])
            sizes = {d.job: part for d, part in zip(sharing, parts, strict=False)}
        elif sharing:
            thread_cores = _with_threads(open_cores, node, topology, jobs=len(sharing), asked=asked, reserve=reserve)
        groups.append(
            Group(
                scope=scopes[node],
                members=tuple(d for d in demands if d.cpuset is None),
                sizes=sizes,
                thread_cores=thread_cores,
            )
        )
        reserve = 0
    return tuple(groups)


def absent(first: Sequence[int], now: Sequence[int]) -> tuple[int, ...]:
    """Weights that make up for the part of the first wave that does not run now, cut as finely as the smallest present one."""
    missing = sum(first) - sum(now)
    if missing <= 0 or not now:
        return ()
    least = min(now)
    return (*(least for _ in range(missing // least)), *((missing % least,) if missing % least else ()))


def home_node(near: int | None, topology: Topology) -> int | None:
    """The NUMA node that stands for a GPU's: its own, or the nearest with CPUs where that one has none."""
    nodes = {core.node for core in topology.cores if core.node is not None}
    if near is None or near in nodes or not nodes:
        return near if nodes else None
    distance = distance_from(near, topology)
    return min(nodes, key=lambda node: (distance(node), node))


def sized(group: Group, placed: Collection[str], room: int) -> list[tuple[CpuDemand, int]]:
    """Jobs that get whole cores now and how many, where only `room` cores are free.

    A request gets all it asks for or nothing. Of the others each gets min(share, free cores), with one core left for
    each job behind it.

    Args:
        group: the jobs.
        placed: jobs that have their CPUs.
        room: free cores.
    """
    given: list[tuple[CpuDemand, int]] = []
    for demand in group.members:
        if demand.cpus is not None and demand.job not in placed and demand.cpus <= room:
            given.append((demand, demand.cpus))
            room -= demand.cpus
    late = [d for d in group.members if d.job in group.sizes and d.job not in placed]
    for n, demand in enumerate(late, start=1):
        size = min(group.sizes[demand.job], room, max(1, room - (len(late) - n)))
        if size:
            given.append((demand, size))
            room -= size
    return given


def _with_threads(
    cores: Sequence[Core], node: int | None, topology: Topology, *, jobs: int, asked: int, reserve: int
) -> tuple[Core, ...]:
    """Cores for one hardware thread a job; the reserve is kept where the threads suffice without it."""
    ordered = tuple(nearest_first(cores, distance_from(node, topology)))
    kept = ordered[: len(ordered) - reserve]
    threads = sum(len(core.cpus) for core in kept[: len(kept) - asked])
    return kept if reserve and threads >= jobs else ordered
