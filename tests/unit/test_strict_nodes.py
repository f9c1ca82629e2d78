"""`numa: strict` in a queue: each GPU's jobs have the cores of its node alone, and the queue knows how many are free there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migctl.core.choices import Numa
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.topology import uniform_topology
from migctl.core.machine import Machine
from migctl.core.plan import ByProfile, GpuSelector, Job, Plan
from migctl.core.queueing.entries import requeued
from migctl.core.queueing.progress import Progress
from migctl.core.queueing.turn import Why
from migctl.core.queueing.wave import Wave, next_wave
from migctl.nvml.models import board_gpu, resolve_board

GPUS = tuple(board_gpu(resolve_board("a30"), n) for n in range(2))
NOW = 1_800_000_000.0


def wave(count: int, *, numa: Numa = Numa.STRICT, foreign: str = "", oversubscribe: bool = False) -> Wave:
    """So many jobs that take a whole A30 each, on two of them: cores 0 to 3 are of the first one's node, 4 to 7 of the other's."""
    flat = uniform_topology(8)
    cores = tuple(replace(core, node=core.id // 4) for core in flat.cores)
    nodes = {gpu.pci_bus_id: n for n, gpu in enumerate(GPUS)}
    topology = replace(flat, cores=cores, nodes_with_memory=frozenset({0, 1}), pci_nodes=nodes)
    jobs = tuple(Job(name=f"j{n}", origin="j", request=ByProfile("2g.12gb"), command=("x",)) for n in range(count))
    plan = Plan(
        name="sweep",
        path="",
        folder="/",
        jobs=jobs,
        gpus=(GpuSelector(all=True),),
        numa=numa,
        oversubscribe=oversubscribe,
    )
    there = Machine(
        gpus=GPUS,
        topology=topology,
        affinity=topology.online,
        claimed={"eva/x": CpuSet.parse(foreign)} if foreign else {},
    )
    return next_wave(plan, there, Progress(queue=requeued(None, plan, NOW)), now=NOW)


def test_each_gpus_node_is_a_scope_of_its_own() -> None:
    found = wave(6)

    assert found.situation.free_cores == {1: 4, 2: 4}
    assert [site.scope for site in found.situation.sites] == [1, 2]
    assert {a.job.name: a.cpu.mems for a in found.allocation.assignments} == {
        "j0": CpuSet({0}), "j1": CpuSet({0}), "j2": CpuSet({1}), "j3": CpuSet({1}),
    }  # fmt: skip


def test_where_a_node_has_no_core_left_its_gpu_takes_no_job() -> None:
    found = wave(6, foreign="0-3")

    assert found.situation.free_cores == {1: 0, 2: 4}
    assert {a.cpu.mems for a in found.allocation.assignments} == {CpuSet({1})}
    assert {reason.why for reason in found.waits.values()} <= {Why.NO_CORE, Why.NO_ROOM}


@pytest.mark.parametrize(("numa", "oversubscribe", "free"), [(Numa.PREFER, False, {0: 8}), (Numa.STRICT, True, None)])
def test_without_it_or_where_cores_limit_nothing_there_are_no_scopes(
    numa: Numa, oversubscribe: bool, free: dict[int, int] | None
) -> None:
    assert wave(6, numa=numa, oversubscribe=oversubscribe).situation.free_cores == free
