"""The machine's logical CPUs with their cores, L3 domains and NUMA nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from migctl.core.cpu.cpuset import CpuSet


@dataclass(frozen=True, slots=True)
class Core:
    """A physical core: the SMT siblings that are online.

    Its id is the lowest *present* sibling, since the kernel's core ids repeat.
    """

    id: int
    cpus: CpuSet
    """Online SMT siblings."""
    offline: CpuSet
    """Siblings that exist and are offline."""
    socket: int
    node: int | None
    """NUMA node, `None` where the kernel knows none."""
    l3: int
    """L3 domain, named by its lowest CPU; without L3 information the socket's lowest CPU."""
    capacity: int = 1024
    """Relative speed (Linux cpu_capacity); 1024 = the fastest kind in this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """All cores of the machine, ascending by id."""

    cores: tuple[Core, ...]
    isolated: CpuSet = CpuSet()
    """isolcpus and nohz_full CPUs: the scheduler does not balance there."""
    nodes_with_memory: frozenset[int] = frozenset()
    node_distances: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """SLIT distances; missing = unknown."""
    pci_nodes: Mapping[str, int] = field(default_factory=dict)
    """NUMA node of a PCI device (`0000:3b:00.0`), only where the kernel knows one."""
    hidden: bool = False
    """A virtual machine shows no SMT or cache topology: vCPUs are counted as cores."""
    offline: CpuSet = CpuSet()
    """Logical CPUs that exist and are offline, whether or not their core is known."""

    @property
    def online(self) -> CpuSet:
        """All online logical CPUs."""
        return CpuSet(cpu for core in self.cores for cpu in core.cpus)


def uniform_topology(cores: int, threads: int = 1) -> Topology:
    """A machine with one socket, one L3 domain and nothing special: what `--cores N` stands for.

    Siblings are numbered N and N + cores, as most servers do.
    """
    return Topology(
        cores=tuple(
            Core(
                id=core,
                cpus=CpuSet(core + cores * thread for thread in range(threads)),
                offline=CpuSet(),
                socket=0,
                node=0,
                l3=0,
            )
            for core in range(cores)
        ),
        nodes_with_memory=frozenset({0}),
    )


def flat(cores: int) -> Topology:
    """A machine of so many cores of which nothing else is known: one hardware thread each, one socket, one L3 domain."""
    return Topology(
        cores=tuple(Core(id=n, cpus=CpuSet({n}), offline=CpuSet(), socket=0, node=None, l3=0) for n in range(cores))
    )
