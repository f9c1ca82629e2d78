"""The picture of the cores: each with the jobs that run on it, and what it is where none does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.topology import Core, Topology
from migctl.core.views.cores import CoreCell, CoreMark, CoresView


def core_cells(
    cores: Iterable[Core], jobs: Mapping[str, CpuSet], mark: Callable[[Core], CoreMark]
) -> tuple[CoreCell, ...]:
    """One cell a core.

    Args:
        cores: in the order to draw.
        jobs: logical CPUs by job.
        mark: what a core without a job is.
    """
    taken = CpuSet(cpu for cpus in jobs.values() for cpu in cpus)
    return tuple(
        CoreCell(
            id=core.id,
            cpus=core.cpus,
            node=core.node,
            l3=core.l3,
            mark=CoreMark.JOB if core.cpus & taken else mark(core),
            jobs=tuple(name for name, cpus in jobs.items() if cpus & core.cpus),
            part=bool(core.cpus & taken) and not core.cpus <= taken,
        )
        for core in cores
    )


def cores_view(topology: Topology, jobs: Mapping[str, CpuSet]) -> CoresView:
    """The machine's cores as they are; one without a job is free, whoever may use it."""
    return CoresView(cells=core_cells(topology.cores, jobs, lambda _: CoreMark.FREE), hidden=topology.hidden)
