"""The pictures of a plan agree with the pool it was made from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migctl.core.cpu.corecells import cores_view
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.pool import make_pool
from migctl.core.cpu.topology import uniform_topology
from migctl.core.pictures import pool_view
from migctl.core.runs.observed import ForeignContainer
from migctl.core.views.cores import CoreMark

TOPOLOGY = replace(uniform_topology(8, 2), isolated=CpuSet.parse("7,15"))


def marks(**changes: object) -> str:
    """A letter a core: J job, F free, R reserved, C claimed, X container, I isolated, U unavailable."""
    pool = make_pool(
        TOPOLOGY,
        affinity=TOPOLOGY.online - CpuSet.parse("6,14"),
        engine=None,
        claimed={"anna/sweep": CpuSet.parse("2-3,10-11")},
        foreign=(ForeignContainer("db", CpuSet.parse("4")),),
    )
    letters = {CoreMark.CONTAINER: "X"}
    view = pool_view(TOPOLOGY, pool, {"train": CpuSet.parse("0,8")}, **changes)  # type: ignore[arg-type]  # `reserved`
    return "".join(letters.get(cell.mark, cell.mark.value[0].upper()) for cell in view.cells)


@pytest.mark.parametrize(("reserved", "expected"), [(0, "JFCCXFUI"), (1, "JFCCXRUI"), (2, "JRCCXRUI")])
def test_every_core_says_why_it_is_not_free(reserved: int, expected: str) -> None:
    assert marks(reserved=reserved) == expected


def test_a_core_of_which_a_job_has_one_thread_is_marked_as_a_part() -> None:
    view = cores_view(TOPOLOGY, {"a": CpuSet({0}), "b": CpuSet({1}), "c": CpuSet({9})})

    assert [(cell.jobs, cell.part) for cell in view.cells[:3]] == [(("a",), True), (("b", "c"), False), ((), False)]


def test_hidden_threads_that_the_plan_groups_are_drawn_as_one_core() -> None:
    topology = replace(uniform_topology(8), hidden=True)
    pool = make_pool(topology, affinity=topology.online, engine=None, claimed={}, foreign=(), threads_per_core=2)

    view = pool_view(topology, pool, {"a": CpuSet.parse("0-1")})

    assert [str(cell.cpus) for cell in view.cells] == ["0-1", "2-3", "4-5", "6-7"]
    assert view.hidden
