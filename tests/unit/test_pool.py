from collections.abc import Mapping, Sequence
from fractions import Fraction

import pytest

from migctl.core.choices import CpuShare
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.pool import Cause, Pool, fair_part, make_pool
from migctl.core.cpu.topology import Topology, uniform_topology
from migctl.core.runs.observed import ForeignContainer
from migctl.errors import HostError
from tests.support.topologies import topology_of


def pool_of(
    topology: Topology,
    *,
    affinity: str | None = None,
    engine: str | None = None,
    claimed: Mapping[str, str] | None = None,
    foreign: Mapping[str, str] | None = None,
    allow: Sequence[str] = (),
    threads_per_core: int | None = None,
) -> Pool:
    return make_pool(
        topology,
        affinity=topology.online if affinity is None else CpuSet.parse(affinity),
        engine=None if engine is None else CpuSet.parse(engine),
        claimed={owner: CpuSet.parse(cpus) for owner, cpus in (claimed or {}).items()},
        foreign=[ForeignContainer(name, CpuSet.parse(cpus)) for name, cpus in (foreign or {}).items()],
        allow_overlap=allow,
        threads_per_core=threads_per_core,
    )


EIGHT = uniform_topology(8, 2)
"""CPUs 0-7 are first threads, 8-15 their siblings."""

SUBTRACTIONS = {
    "nothing": ({}, "0-15", []),
    "own affinity": ({"affinity": "0-3,8-11"}, "0-3,8-11", [(Cause.AFFINITY, "4-7,12-15")]),
    "the engine's cgroup": ({"engine": "4-7,12-15"}, "4-7,12-15", [(Cause.ENGINE, "0-3,8-11")]),
    "another run": ({"claimed": {"anna/a": "0-1,8-9"}}, "2-7,10-15", [(Cause.CLAIMED, "0-1,8-9")]),
    "one thread claimed takes the core": (
        {"claimed": {"anna/a": "0"}},
        "1-7,9-15",
        [(Cause.CLAIMED, "0"), (Cause.SIBLING, "8")],
    ),
    "a pinned container": ({"foreign": {"db": "6-7,14-15"}}, "0-5,8-13", [(Cause.FOREIGN, "6-7,14-15")]),
    "a container on half of the pool": ({"foreign": {"db": "0-3,8-11"}}, "4-7,12-15", [(Cause.FOREIGN, "0-3,8-11")]),
    "an unpinned container": ({"foreign": {"db": ""}}, "0-15", []),
    "a container that is allowed to overlap": ({"foreign": {"db": "6-7,14-15"}, "allow": ["db"]}, "0-15", []),
}


@pytest.mark.parametrize("name", SUBTRACTIONS)
def test_the_pool_is_what_nobody_else_has(name: str) -> None:
    arguments, left, excluded = SUBTRACTIONS[name]
    pool = pool_of(EIGHT, **arguments)  # type: ignore[arg-type]  # a table of keyword arguments

    assert str(pool.cpus) == left
    assert [(e.cause, str(e.cpus)) for e in pool.excluded] == excluded
    assert pool.notices == ()


def test_a_container_on_more_than_half_of_the_pool_is_reported_and_not_subtracted() -> None:
    pool = pool_of(EIGHT, foreign={"wide": "0-4,8-11"})

    assert len(pool.cores) == 8
    assert [n.id for n in pool.notices] == ["wide-container"]
    assert "wide" in pool.notices[0].message


def test_isolated_cpus_and_their_siblings_are_left_out() -> None:
    pool = pool_of(topology_of("isolated"))

    assert str(pool.cpus) == "0-4,8-12"
    assert [(e.cause, str(e.cpus)) for e in pool.excluded] == [(Cause.ISOLATED, "5-7,13-15")]


def test_offline_cpus_are_not_in_the_pool_and_their_siblings_are() -> None:
    pool = pool_of(topology_of("offline-siblings"))

    assert str(pool.cpus) == "0,2,4,6,8,10,12,14,16-31"
    assert len(pool.cores) == 16


def test_where_a_batch_system_gives_one_thread_of_each_core_these_are_the_cores() -> None:
    pool = pool_of(EIGHT, affinity="0-3")

    assert [str(core.cpus) for core in pool.cores] == ["0", "1", "2", "3"]
    assert [n.id for n in pool.notices] == ["half-cores"]


def test_half_a_core_beside_whole_ones_is_left_out() -> None:
    pool = pool_of(EIGHT, affinity="0-2,8-9")

    assert str(pool.cpus) == "0-1,8-9"
    assert (Cause.SIBLING, CpuSet({2})) in [(e.cause, e.cpus) for e in pool.excluded]


def test_a_machine_that_leaves_no_cpu_is_an_error_that_says_why() -> None:
    with pytest.raises(HostError) as caught:
        pool_of(EIGHT, affinity="0-3", engine="4-7")

    assert caught.value.id == "no-cpus"
    assert "0-3 are not among the CPUs the container engine may use" in caught.value.message


def test_everything_claimed_by_others_is_an_empty_pool_and_no_error() -> None:
    assert pool_of(EIGHT, claimed={"anna/a": "0-15"}).cores == ()


def test_hidden_topology_is_said_and_can_be_corrected() -> None:
    hidden = topology_of("vm-flat")

    assert len(pool_of(hidden).cores) == 12
    assert [n.message for n in pool_of(hidden).notices] == ["topology hidden: vCPUs counted as cores"]
    corrected = pool_of(hidden, threads_per_core=2)
    assert [str(core.cpus) for core in corrected.cores] == ["0-1", "2-3", "4-5", "6-7", "8-9", "10-11"]
    assert corrected.notices == ()
    assert len(pool_of(hidden, threads_per_core=1).cores) == 12


def test_a_correction_that_contradicts_the_kernel_is_ignored_and_said() -> None:
    pool = pool_of(EIGHT, threads_per_core=4)

    assert len(pool.cores) == 8
    assert [n.id for n in pool.notices] == ["threads-per-core-ignored"]
    assert pool_of(EIGHT, threads_per_core=2).notices == ()


def part_of(
    pool: Pool,
    topology: Topology,
    *,
    gpus: int = 1,
    of: int = 1,
    slices: Fraction = Fraction(1),
    share: CpuShare = CpuShare.FAIR,
    near: Sequence[int] = (),
) -> Pool:
    return fair_part(
        pool,
        topology,
        gpus_of_plan=gpus,
        gpus_in_machine=of,
        slices_share=slices,
        cpu_share=share,
        near_nodes=near,
    )


DGX = topology_of("epyc-nps4")


def test_one_gpu_of_eight_is_an_eighth_of_the_cores_on_the_gpus_node() -> None:
    part = part_of(pool_of(DGX), DGX, of=8, near=[3])

    assert len(part.cores) == 16
    assert {core.node for core in part.cores} == {3}
    assert {core.l3 for core in part.cores} == {48, 52, 56, 60}
    assert len(part.rest) == 112


def test_the_part_spills_to_the_next_node_of_the_same_socket() -> None:
    part = part_of(pool_of(DGX), DGX, gpus=2, of=8, near=[3])

    assert len(part.cores) == 32
    assert {core.node for core in part.cores} == {3, 0}


def test_gpus_on_two_sockets_take_half_from_each() -> None:
    part = part_of(pool_of(DGX), DGX, gpus=2, of=8, near=[3, 7])

    assert sorted(core.node or 0 for core in part.cores) == [3] * 16 + [7] * 16


def test_whoever_comes_second_gets_as_much_as_whoever_came_first() -> None:
    first = part_of(pool_of(DGX), DGX, of=8, near=[3])
    second = part_of(pool_of(DGX, claimed={"anna/a": str(first.cpus)}), DGX, of=8, near=[1])

    assert len(second.cores) == 16
    assert {core.node for core in second.cores} == {1}
    assert not first.cpus & second.cpus


def test_all_takes_everything_and_one_gpu_alone_does_too() -> None:
    pool = pool_of(DGX)

    assert part_of(pool, DGX, of=8, share=CpuShare.ALL) == pool
    assert part_of(pool, DGX) == pool
    assert part_of(pool, DGX, gpus=0, of=0).cores == pool.cores[:1]


def test_slices_that_others_hold_shrink_the_part() -> None:
    pool = pool_of(EIGHT)

    assert len(part_of(pool, EIGHT, slices=Fraction(3, 7)).cores) == 3
    assert len(part_of(pool, EIGHT, slices=Fraction(1, 100)).cores) == 1


# quota in CPUs → cores of the machine's eight that a plan gets, of all and of half of it
PAID = [("100", 8, 4), ("8", 8, 4), ("6.5", 6, 3), ("3", 3, 1), ("0.5", 1, 1)]


@pytest.mark.parametrize(("quota", "all_of_it", "half"), PAID)
def test_a_quota_pays_for_so_many_cores_and_the_part_is_a_part_of_those(quota: str, all_of_it: int, half: int) -> None:
    pool = make_pool(EIGHT, affinity=EIGHT.online, engine=None, claimed={}, foreign=(), quota=Fraction(quota))

    assert len(part_of(pool, EIGHT).cores) == len(part_of(pool, EIGHT, share=CpuShare.ALL).cores) == all_of_it
    assert len(part_of(pool, EIGHT, of=2).cores) == half
    assert [n.id for n in pool.notices] == (["cpu-quota"] if all_of_it < 8 else [])


def test_the_cores_that_a_quota_pays_for_are_the_ones_near_the_gpu() -> None:
    pool = make_pool(DGX, affinity=DGX.online, engine=None, claimed={}, foreign=(), quota=Fraction(4))

    assert {core.node for core in part_of(pool, DGX, near=[5]).cores} == {5}


def test_of_an_empty_pool_the_part_is_empty() -> None:
    pool = pool_of(EIGHT, claimed={"anna/a": "0-15"})

    assert part_of(pool, EIGHT, of=2).cores == ()
