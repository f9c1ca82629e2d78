"""Which of the free cores lie best for a job: near its GPU, in one NUMA node, of one kind, and in as few L3 domains as possible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from migctl.core.cpu.topology import Core, Topology

NO_NODE = -1
"""Stands for the NUMA node of cores where the kernel knows none."""

Distance = Callable[[int], int]
"""How far a NUMA node is from where the job's GPU hangs."""


class Domain(NamedTuple):
    """Cores that are equal in everything that matters here."""

    node: int
    capacity: int
    l3: int


Free = Mapping[Domain, Sequence[Core]]
"""Free cores by domain, ascending by id; no domain is empty."""


def by_domain(cores: Iterable[Core]) -> dict[Domain, Sequence[Core]]:
    """Group cores; those of one domain keep their order."""
    groups: dict[Domain, list[Core]] = {}
    for core in cores:
        node = NO_NODE if core.node is None else core.node
        groups.setdefault(Domain(node, core.capacity, core.l3), []).append(core)
    return dict(groups)


def distance_from(near: int | None, topology: Topology) -> Distance:
    """Distances from one NUMA node; all equal where it is not known.

    The firmware's table (SLIT) counts; without it a node of the same socket is nearer than one of another socket.
    """
    if near is None:
        return _everywhere
    table = topology.node_distances.get(near, {})
    sockets = {core.node: core.socket for core in topology.cores}

    def distance(node: int) -> int:
        if node == near:
            return 0
        if node in table:
            return table[node]
        return 15 if near in sockets and sockets[near] == sockets.get(node) else 20

    return distance


def _everywhere(node: int) -> int:  # noqa: ARG001 -- a Distance
    return 0


def nearest_first(cores: Iterable[Core], distance: Distance) -> list[Core]:
    """All cores in the order in which a job near `distance`'s origin wants them."""
    return sorted(cores, key=lambda c: (distance(NO_NODE if c.node is None else c.node), -c.capacity, c.l3, c.id))


def choose(free: Free, count: int, distance: Distance) -> tuple[Core, ...]:
    """Choose `count` free cores for one job (fewer only if there are fewer).

    In this order: one NUMA node, the nearest that has room, and one kind of core; one node; one kind; whatever is free.
    A job on one remote node runs better than one that straddles two, so a node is left before it is split.
    """
    order = _ordered(free, distance)
    for scope in _scopes(order):
        if sum(len(free[d]) for d in scope) >= count:
            return _gather(free, scope, count)
    return _gather(free, order, count)


def _scopes(order: Sequence[Domain]) -> Iterator[Sequence[Domain]]:
    """The places to look for a job, best first."""
    nodes: dict[int, list[Domain]] = {}
    for domain in order:
        nodes.setdefault(domain.node, []).append(domain)
    kinds = sorted({d.capacity for d in order}, reverse=True)
    if len(kinds) == 1:
        yield from nodes.values()
        return
    for domains in nodes.values():
        for kind in kinds:
            yield [d for d in domains if d.capacity == kind]
    yield from nodes.values()
    for kind in kinds:
        yield [d for d in order if d.capacity == kind]


def gather(free: Free, count: int, distance: Distance) -> tuple[Core, ...]:
    """Collect `count` cores that several jobs will share: the nearest node first, L3 domain by L3 domain."""
    return _gather(free, _ordered(free, distance), count)


def without(free: Free, cores: Iterable[Core]) -> dict[Domain, Sequence[Core]]:
    """What is free once `cores` are not."""
    gone = by_domain(cores)
    left = dict(free)
    for domain, taken in gone.items():
        ids = {core.id for core in taken}
        rest = [core for core in free[domain] if core.id not in ids]
        if rest:
            left[domain] = rest
        else:
            del left[domain]
    return left


def _ordered(free: Free, distance: Distance) -> list[Domain]:
    far = {node: distance(node) for node in {domain.node for domain in free}}
    return sorted(free, key=lambda d: (far[d.node], d.node, -d.capacity, d.l3))


def _gather(free: Free, scope: Sequence[Domain], count: int) -> tuple[Core, ...]:
    """Take cores node by node and kind by kind, in the scope's order."""
    chosen: list[Core] = []
    for place in dict.fromkeys((d.node, d.capacity) for d in scope):
        here = [d for d in scope if (d.node, d.capacity) == place]
        wanted = min(count - len(chosen), sum(len(free[d]) for d in here))
        chosen += _fewest_domains(free, here, wanted)
    return tuple(sorted(chosen, key=lambda core: core.id))


def _fewest_domains(free: Free, here: Sequence[Domain], count: int) -> list[Core]:
    """The smallest L3 domain that holds the rest, else the largest one whole and go on."""
    chosen: list[Core] = []
    left = list(here)
    while left and len(chosen) < count:
        rest = count - len(chosen)
        fitting = [d for d in left if len(free[d]) >= rest]
        smallest = min(fitting, key=lambda d: (len(free[d]), d.l3), default=None)
        best = smallest or max(left, key=lambda d: (len(free[d]), -d.l3))
        left.remove(best)
        chosen += free[best][:rest]
    return chosen
