from collections.abc import Mapping, Sequence

import pytest

from migctl.core.choices import CpuShare, CpuSplit, Numa, Storage
from migctl.core.cpu.cpus import CpuAllocation, CpuDemand, assign, no_free_core
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.pool import Pool, fair_part, make_pool
from migctl.core.cpu.topology import Topology, uniform_topology
from migctl.errors import Busy, DoesNotFit, HostError, MigctlError, PlanError, Problems
from tests.support.topologies import topology_of


def whole(topology: Topology, claimed: Mapping[str, CpuSet] | None = None) -> Pool:
    return make_pool(topology, affinity=topology.online, engine=None, claimed=claimed or {}, foreign=())


def jobs(*slices: int, near: int | None = None) -> list[CpuDemand]:
    return [CpuDemand(job=f"j{n}", compute_slices=s, near_node=near) for n, s in enumerate(slices, start=1)]


def give(
    demands: Sequence[CpuDemand],
    topology: Topology,
    *,
    pool: Pool | None = None,
    reserve: int | None = None,
    split: CpuSplit = CpuSplit.SLICES,
    numa: Numa = Numa.PREFER,
    oversubscribe: bool = False,
    max_parallel: int | None = None,
    keep: Mapping[str, str] | None = None,
) -> CpuAllocation:
    return assign(
        demands,
        pool or whole(topology),
        topology,
        reserve_cores=reserve,
        cpu_split=split,
        numa=numa,
        oversubscribe=oversubscribe,
        max_parallel=max_parallel,
        keep={job: CpuSet.parse(cpus) for job, cpus in (keep or {}).items()},
    )


def cpus(allocation: CpuAllocation) -> list[str]:
    return [str(grant.cpus) for grant in allocation.grants.values()]


def ids(allocation: CpuAllocation) -> set[str]:
    return {notice.id for notice in allocation.notices}


GUIDE = [
    (4, 1, 3),
    (4, 2, 2),
    (4, 4, 1),
    (8, 1, 7),
    (8, 2, 4),
    (8, 4, 2),
    (8, 8, 1),
    (16, 1, 15),
    (16, 2, 8),
    (16, 4, 4),
    (16, 8, 2),
    (32, 1, 31),
    (32, 4, 8),
    (32, 8, 4),
    (32, 16, 2),
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("cores", "count", "workers"), GUIDE)
def test_every_row_of_the_guide_is_what_jobs_get(cores: int, count: int, workers: int, threads: int) -> None:
    allocation = give(jobs(*[1] * count), uniform_topology(cores, threads))

    assert [g.num_workers for g in allocation.grants.values()] == [workers] * count
    assert [g.cores for g in allocation.grants.values()] == [workers] * count
    assert all(len(g.cpus) == workers * threads for g in allocation.grants.values())
    assert all(g.threads * g.num_workers <= g.cores for g in allocation.grants.values())
    assert all(g.mems is None for g in allocation.grants.values())
    assert allocation.waiting == ()


SHARES = [
    # cores, slices, reserve, split, cores of each job
    (16, (3, 2, 2), None, CpuSplit.SLICES, [7, 5, 4]),
    (16, (3, 2, 2), None, CpuSplit.EQUAL, [5, 5, 5]),
    (16, (1, 1, 1), None, CpuSplit.SLICES, [5, 5, 5]),
    (16, (4, 3), None, CpuSplit.SLICES, [9, 7]),
    (16, (4, 3), 2, CpuSplit.SLICES, [8, 6]),
    (7, (4, 1, 1, 1), None, CpuSplit.SLICES, [4, 1, 1, 1]),
    (5, (4, 1, 1, 1), None, CpuSplit.SLICES, [2, 1, 1, 1]),
    (4, (4, 1, 1, 1), None, CpuSplit.SLICES, [1, 1, 1, 1]),
    (8, (7,), 3, CpuSplit.SLICES, [5]),
    (8, (7,), 0, CpuSplit.SLICES, [8]),
    (1, (7,), None, CpuSplit.SLICES, [1]),
    (4, (1, 1, 1, 1), 1, CpuSplit.SLICES, [1, 1, 1, 1]),
]


@pytest.mark.parametrize(("cores", "slices", "reserve", "split", "expected"), SHARES)
def test_unequal_profiles_share_by_compute_slices(
    cores: int, slices: tuple[int, ...], reserve: int | None, split: CpuSplit, expected: list[int]
) -> None:
    allocation = give(jobs(*slices), uniform_topology(cores, 2), reserve=reserve, split=split)

    assert [grant.cores for grant in allocation.grants.values()] == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("workstation-far-siblings", ["0-3,8-11", "4-7,12-15"]),
        ("workstation-near-siblings", ["0-7", "8-15"]),
        ("desktop-smt-off", ["0-3", "4-7"]),
        ("offline-far-siblings", ["0-3,8-11", "4-7,14-15"]),
        ("vm-flat", ["0-5", "6-11"]),
    ],
)
def test_siblings_stay_together_in_every_numbering(name: str, expected: list[str]) -> None:
    assert cpus(give(jobs(1, 1), topology_of(name))) == expected


def test_jobs_lie_near_their_gpu_and_each_in_one_l3_domain() -> None:
    topology = topology_of("epyc-nps4")
    pool = fair_part(
        whole(topology),
        topology,
        gpus_of_plan=1,
        gpus_in_machine=8,
        slices_share=1,  # type: ignore[arg-type]  # an int is a whole fraction
        cpu_share=CpuShare.FAIR,
        near_nodes=[3],
    )
    allocation = give(jobs(1, 1, 1, 1, near=3), topology, pool=pool)

    assert cpus(allocation) == ["48-51,176-179", "52-55,180-183", "56-59,184-187", "60-63,188-191"]
    assert "far-from-gpu" not in ids(allocation)


def test_a_job_too_large_for_one_domain_takes_the_fewest() -> None:
    topology = topology_of("epyc-many-l3")
    grant = give([CpuDemand(job="a", compute_slices=7, near_node=0, cpus=6)], topology).grants["a"]

    assert len({core.l3 for core in topology.cores if core.cpus <= grant.cpus}) == 2


def test_a_gpu_on_the_second_socket_gets_cores_of_the_second_socket() -> None:
    allocation = give([CpuDemand(job="a", compute_slices=7, near_node=1, cpus=8)], topology_of("two-xeons"))

    assert cpus(allocation) == ["56-63,168-175"]


def test_a_job_leaves_the_gpus_node_rather_than_straddle_two_and_that_is_said() -> None:
    demands = [CpuDemand(job=name, compute_slices=1, near_node=0, cpus=40) for name in ("a", "b")]
    allocation = give(demands, topology_of("two-xeons"))

    assert cpus(allocation) == ["0-39,112-151", "56-95,168-207"]
    notice = next(n for n in allocation.notices if n.id == "far-from-gpu")
    assert notice.message.startswith("b:")


def test_a_gpu_without_a_known_node_has_no_preference() -> None:
    allocation = give(jobs(1, 1), topology_of("desktop-smt-off"))

    assert "far-from-gpu" not in ids(allocation)


def test_fast_and_slow_cores_are_not_mixed_unless_needed() -> None:
    topology = topology_of("hybrid")

    three = give(jobs(1, 1, 1), topology)  # 24 cores: eight P, sixteen E
    assert cpus(three) == ["0-15", "16-23", "24-31"]
    assert "mixed-cores" not in ids(three)
    two = give(jobs(1, 1), topology)
    assert cpus(two)[0] == "16-27"
    assert "mixed-cores" in ids(two)


STRICT = {
    "the nodes of the CPUs": ("two-xeons", 1, "56-63,168-175", "1"),
    "the nearest node with memory where that one has none": ("node-without-memory", 1, "8-15", "0"),
    "a GPU on a node without CPUs": ("grace-hopper", 2, "0-7", "0"),
}


@pytest.mark.parametrize("name", STRICT)
def test_strict_binds_memory_to(name: str) -> None:
    machine, near, expected, mems = STRICT[name]
    demands = [CpuDemand(job="a", compute_slices=7, near_node=near, cpus=8)]
    grant = give(demands, topology_of(machine), numa=Numa.STRICT).grants["a"]

    assert str(grant.cpus) == expected
    assert str(grant.mems) == mems


def test_strict_divides_the_gpus_node_among_its_jobs() -> None:
    allocation = give(jobs(1, 1, near=1), topology_of("two-xeons"), numa=Numa.STRICT)

    assert cpus(allocation) == ["56-83,168-195", "84-111,196-223"]
    assert allocation.waiting == ()
    assert "nothing-for-system" not in ids(allocation)


def test_strict_needs_no_reserve_where_another_node_is_left() -> None:
    assert give(jobs(7, near=0), topology_of("two-xeons"), numa=Numa.STRICT).grants["j1"].cores == 56


def test_strict_without_a_known_node_is_said() -> None:
    assert "numa-unknown" in ids(give(jobs(1), topology_of("desktop-smt-off"), numa=Numa.STRICT))


def test_seven_jobs_on_six_cores_get_a_hardware_thread_each() -> None:
    topology = topology_of("vm-with-topology")  # 12 vCPUs, six cores
    allocation = give(jobs(*[1] * 7), topology)

    assert cpus(allocation) == ["0", "2", "4", "6", "8", "10", "1"]
    assert {g.num_workers for g in allocation.grants.values()} == {1}
    assert {g.cores for g in allocation.grants.values()} == {1}
    notice = next(n for n in allocation.notices if n.id == "one-thread-each")
    assert "max_parallel: 6" in (notice.hint or "")


def test_a_reserve_is_kept_where_the_threads_suffice() -> None:
    allocation = give(jobs(*[1] * 7), topology_of("vm-with-topology"), reserve=1)

    assert allocation.left_cores == CpuSet({10, 11})
    assert allocation.waiting == ()


def test_more_jobs_than_logical_cpus_wait() -> None:
    topology = uniform_topology(2, 2)
    allocation = give(jobs(*[1] * 6), topology)

    assert cpus(allocation) == ["0", "1", "2", "3"]
    assert allocation.waiting == ("j5", "j6")
    assert allocation.over_limit == ()


def test_oversubscribed_jobs_share_evenly() -> None:
    allocation = give(jobs(*[1] * 6), uniform_topology(2, 2), oversubscribe=True)

    assert cpus(allocation) == ["0", "1", "2", "3", "0", "1"]
    assert allocation.waiting == ()
    assert "cpus-shared" in ids(allocation)
    assert {g.num_workers for g in allocation.grants.values()} == {1}


def test_max_parallel_decides_the_share_and_the_others_wait() -> None:
    allocation = give(jobs(*[1] * 7), uniform_topology(8, 2), max_parallel=2)

    assert [g.cores for g in allocation.grants.values()] == [4, 4]
    assert allocation.waiting == allocation.over_limit == ("j3", "j4", "j5", "j6", "j7")


def test_a_limit_above_the_number_of_jobs_changes_nothing() -> None:
    topology = uniform_topology(8, 2)

    assert give(jobs(1, 1), topology, max_parallel=9) == give(jobs(1, 1), topology)


def test_running_jobs_keep_their_cpus_and_a_new_one_takes_what_is_free_up_to_its_share() -> None:
    kept = {"j1": "0-2,8-10", "j2": "3-5,11-13"}
    allocation = give(jobs(1, 1, 1), uniform_topology(8, 2), keep=kept)

    assert cpus(allocation) == ["0-2,8-10", "3-5,11-13", "6-7,14-15"]
    assert give(jobs(1, 1, 1, 1, 1), uniform_topology(16, 2), keep={"j1": "0-3,16-19"}).grants["j5"].cores == 3


def test_no_free_core_means_waiting() -> None:
    allocation = give(jobs(1, 1, 1), uniform_topology(8, 2), keep={"j1": "0-3,8-11", "j2": "4-7,12-15"})

    assert allocation.waiting == ("j3",)
    assert allocation.left_cores == CpuSet()


def test_two_new_jobs_share_the_free_cores() -> None:
    allocation = give(jobs(4, 4, 4), uniform_topology(8, 2), keep={"j1": "0-5,8-13"})

    assert cpus(allocation)[1:] == ["6,14", "7,15"]


def test_kept_cpus_beyond_todays_part_count_against_it() -> None:
    topology = uniform_topology(16, 2)
    pool = fair_part(
        whole(topology),
        topology,
        gpus_of_plan=1,
        gpus_in_machine=2,
        slices_share=1,  # type: ignore[arg-type]  # an int is a whole fraction
        cpu_share=CpuShare.FAIR,
        near_nodes=[],
    )
    allocation = give(jobs(1, 1), topology, pool=pool, keep={"j1": "10-15,26-31"})

    assert [g.cores for g in allocation.grants.values()] == [6, 2]


def test_requests_come_first_and_the_others_share_the_rest() -> None:
    demands = [
        CpuDemand(job="auto1", compute_slices=1),
        CpuDemand(job="pinned", compute_slices=1, cpuset=CpuSet.parse("0-1,8-9")),
        CpuDemand(job="three", compute_slices=1, cpus=3),
        CpuDemand(job="auto2", compute_slices=1),
    ]
    allocation = give(demands, uniform_topology(8, 2))

    assert {job: (str(g.cpus), g.cores) for job, g in allocation.grants.items()} == {
        "auto1": ("5,13", 1),
        "pinned": ("0-1,8-9", 2),
        "three": ("2-4,10-12", 3),
        "auto2": ("6,14", 1),
    }
    assert allocation.left_cores == CpuSet({7, 15})


def test_a_request_that_finds_too_few_free_cores_waits() -> None:
    demands = [CpuDemand(job=name, compute_slices=1, cpus=5) for name in ("a", "b")]
    allocation = give(demands, uniform_topology(8, 2))

    assert (list(allocation.grants), allocation.waiting) == (["a"], ("b",))


def test_a_cpuset_that_a_running_job_holds_waits() -> None:
    demands = [*jobs(1), CpuDemand(job="b", compute_slices=1, cpuset=CpuSet.parse("0,8"))]

    assert give(demands, uniform_topology(8, 2), keep={"j1": "0-3,8-11"}).waiting == ("b",)


def test_a_cpuset_may_lie_beyond_the_fair_part() -> None:
    topology = uniform_topology(8, 2)
    pool = whole(topology)
    part = Pool(cores=pool.cores[:4], rest=pool.cores[4:], base_cores=8)
    demands = [CpuDemand(job="a", compute_slices=1, cpuset=CpuSet.parse("6,14"))]

    assert cpus(give(demands, topology, pool=part)) == ["6,14"]


WORKERS = [
    # demand's own numbers, cores, threads a core → workers, threads
    ({"storage": Storage.NVME}, 8, 2, 10, 1),
    ({"storage": Storage.NVME}, 8, 1, 9, 1),
    ({"storage": Storage.HDD}, 8, 2, 4, 2),
    ({"num_workers": 0}, 8, 2, 0, 8),
    ({"num_workers": 2}, 8, 2, 2, 4),
    ({"num_workers": 20}, 8, 2, 20, 1),
]


@pytest.mark.parametrize(("own", "cores", "per_core", "workers", "threads"), WORKERS)
def test_workers_and_threads_of_a_grant(
    own: dict[str, object], cores: int, per_core: int, workers: int, threads: int
) -> None:
    demand = CpuDemand(job="a", compute_slices=7, **own)  # type: ignore[arg-type]  # a table of keyword arguments
    grant = give([demand], uniform_topology(cores, per_core), reserve=0).grants["a"]

    assert (grant.num_workers, grant.threads) == (workers, threads)


def test_nothing_left_for_the_system_is_said_with_the_variant() -> None:
    notice = next(n for n in give(jobs(1, 1), uniform_topology(8, 2)).notices if n.id == "nothing-for-system")

    assert notice.hint == "reserve_cores: 1 keeps 2 cores: each job gets 3 cores and as many workers instead of 4"
    assert "nothing-for-system" not in ids(give(jobs(1), uniform_topology(8, 2)))
    assert "nothing-for-system" not in ids(give(jobs(1, 1, 1), uniform_topology(8, 2)))


def test_where_every_job_has_one_core_the_variant_is_one_job_less() -> None:
    notice = next(n for n in give(jobs(1, 1), uniform_topology(2, 2)).notices if n.id == "nothing-for-system")

    assert "reserve_cores: 1" in (notice.hint or "")


def test_only_those_are_named_who_would_get_fewer_cores() -> None:
    told = [
        next(n for n in give(jobs(*slices), uniform_topology(16, 2)).notices if n.id == "nothing-for-system").hint
        for slices in ((3, 2, 1, 1), (1,) * 16)
    ]

    assert told == [
        "reserve_cores: 1 keeps 1 core: j2 gets 4 cores and as many workers instead of 5",
        "15 jobs at once with reserve_cores: 1 keep one core",
    ]


RESERVES = (
    # cores, jobs, asked for → said
    (2, 1, 99, "reserve_cores: 99 cannot be kept: of 2 cores 1 is left for the system, since every job gets one"),
    (4, 4, 1, "reserve_cores: 1 cannot be kept: of 4 cores none is left for the system, since every job gets one"),
    (4, 2, 2, None),
)


@pytest.mark.parametrize(("cores", "count", "reserve", "said"), RESERVES)
def test_a_reserve_that_cannot_be_kept_is_told(cores: int, count: int, reserve: int, said: str | None) -> None:
    told = give(jobs(*[1] * count), uniform_topology(cores), reserve=reserve).notices

    assert [n.message for n in told if n.id == "reserve-not-kept"] == ([said] if said else [])
    assert "nothing-for-system" not in [n.id for n in told]


def test_nothing_is_warned_of_that_nobody_can_change() -> None:
    one_core = give(jobs(1), uniform_topology(1)).notices
    one_worker_each = give(jobs(1, 1), uniform_topology(2)).notices

    assert [n.id for n in one_core] == []
    assert "main-without-thread" not in [n.id for n in one_worker_each]


def test_cores_outside_the_plans_part_are_the_systems_unless_others_claim_them() -> None:
    topology = uniform_topology(8, 2)
    half = make_pool(
        topology,
        affinity=topology.online,
        engine=None,
        claimed={"anna/a": CpuSet.parse("4-7,12-15")},
        foreign=(),
    )
    outside = make_pool(topology, affinity=CpuSet.parse("0-3,8-11"), engine=None, claimed={}, foreign=())

    assert "nothing-for-system" in ids(give(jobs(1, 1), topology, pool=half))
    assert "nothing-for-system" not in ids(give(jobs(1, 1), topology, pool=outside))


def test_without_a_second_thread_the_main_process_is_mentioned() -> None:
    assert "main-without-thread" in ids(give(jobs(1, 1), uniform_topology(8)))
    assert "main-without-thread" not in ids(give(jobs(1, 1), uniform_topology(8, 2)))


def test_more_workers_than_the_cores_carry_are_counted() -> None:
    demands = [CpuDemand(job=f"j{n}", compute_slices=1, num_workers=4) for n in range(1, 9)]
    notice = next(n for n in give(demands, uniform_topology(16, 2)).notices if n.id == "workers-exceed-cores")

    assert "32 workers and 8 main processes on 32 logical CPUs" in notice.message
    assert "workers-exceed-cores" not in ids(give(jobs(*[1] * 8), uniform_topology(16, 2)))


def refused(demands: Sequence[CpuDemand], topology: Topology, **how: object) -> MigctlError:
    with pytest.raises(MigctlError) as caught:
        give(demands, topology, **how)  # type: ignore[arg-type]  # keyword arguments of a table
    assert caught.value.message
    return caught.value


def pinned(cpuset: str, **more: object) -> list[CpuDemand]:
    return [CpuDemand(job="a", compute_slices=1, cpuset=CpuSet.parse(cpuset), **more)]  # type: ignore[arg-type]


REFUSED = {
    "nothing": ("workstation-far-siblings", "", PlanError, "cpuset-empty", ""),
    "beyond the machine": ("workstation-far-siblings", "0-17", PlanError, "cpuset-beyond-machine", "16,17"),
    "offline": ("offline-siblings", "0-7", HostError, "cpus-offline", "CPUs 1,3,5,7 of cpuset 0-7 are offline"),
    "offline, one": ("offline-siblings", "0-1", HostError, "cpus-offline", "CPU 1 of cpuset 0-1 is offline"),
    "isolated": ("isolated", "4-5,12-13", HostError, "cpus-isolated", "5,13"),
    "half cores": ("workstation-far-siblings", "0-3", PlanError, "cpuset-splits-cores", "8,9,10,11"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_cpuset_is_refused_that_names(name: str) -> None:
    machine, cpuset, kind, what, words = REFUSED[name]
    error = refused(pinned(cpuset), topology_of(machine))

    assert isinstance(error, kind)
    assert error.id == what
    assert words in error.message
    assert error.where == "job a"


def test_a_cpuset_that_splits_siblings_is_printed_completed() -> None:
    assert "cpuset: 0-3,8-11" in (refused(pinned("0-3"), topology_of("workstation-far-siblings")).hint or "")
    assert "cpuset: 0-3" in (refused(pinned("0,3"), topology_of("workstation-near-siblings")).hint or "")


def test_a_cpuset_of_another_run_or_container_is_busy_and_names_it() -> None:
    topology = uniform_topology(8, 2)
    error = refused(pinned("0,8"), topology, pool=whole(topology, {"anna/sweep": CpuSet.parse("0,8")}))

    assert isinstance(error, Busy)
    assert "anna/sweep" in error.message
    assert "choose from 1-7,9-15" in (error.hint or "")


def test_a_cpuset_outside_of_our_own_affinity_cannot_be_had() -> None:
    topology = uniform_topology(8, 2)
    pool = make_pool(topology, affinity=CpuSet.parse("0-3,8-11"), engine=None, claimed={}, foreign=())

    assert isinstance(refused(pinned("4,12"), topology, pool=pool), HostError)


def test_two_cpusets_at_the_same_time_must_not_overlap() -> None:
    topology = uniform_topology(8, 2)
    demands = [*pinned("0-1,8-9"), CpuDemand(job="b", compute_slices=1, cpuset=CpuSet.parse("1-2,9-10"))]
    error = refused(demands, topology)

    assert (error.id, error.where) == ("cpusets-overlap", "job b")
    assert "1,9" in error.message
    assert cpus(give(demands, topology, oversubscribe=True)) == ["0-1,8-9", "1-2,9-10"]
    assert give(demands, topology, max_parallel=1).waiting == ("b",)


@pytest.mark.parametrize(("count", "what"), [(0, "cpus-too-few"), (9, "cpus-beyond-machine")])
def test_a_number_of_cores_that_no_machine_like_this_has(count: int, what: str) -> None:
    assert refused([CpuDemand(job="a", compute_slices=1, cpus=count)], uniform_topology(8, 2)).id == what


def test_more_cores_than_the_fair_part_names_the_way_out() -> None:
    topology = uniform_topology(8, 2)
    pool = whole(topology)
    part = Pool(cores=pool.cores[:4], rest=pool.cores[4:], base_cores=8)
    error = refused([CpuDemand(job="a", compute_slices=1, cpus=5)], topology, pool=part)

    assert isinstance(error, PlanError)
    assert "cpu_share: all" in (error.hint or "")


def test_more_cores_than_others_leave_is_busy() -> None:
    topology = uniform_topology(8, 2)
    pool = whole(topology, {"anna/sweep": CpuSet.parse("0-3,8-11")})

    assert isinstance(refused([CpuDemand(job="a", compute_slices=1, cpus=5)], topology, pool=pool), Busy)


def test_strict_refuses_what_lies_on_another_node() -> None:
    topology = topology_of("two-xeons")

    assert refused(pinned("0,112", near_node=1), topology, numa=Numa.STRICT).id == "numa-conflict"
    many = [CpuDemand(job="a", compute_slices=1, near_node=1, cpus=57)]
    assert refused(many, topology, numa=Numa.STRICT).id == "numa-conflict"
    assert give(many, topology).grants["a"].cores == 57


def test_all_mistakes_are_reported_at_once() -> None:
    demands = [*pinned("0-3"), CpuDemand(job="b", compute_slices=1, cpus=99)]
    error = refused(demands, uniform_topology(8, 2))

    assert isinstance(error, Problems)
    assert [e.id for e in error.all] == ["cpuset-splits-cores", "cpus-beyond-machine"]


def test_no_free_core_says_who_has_them() -> None:
    topology = uniform_topology(8, 2)
    busy = no_free_core(["a"], whole(topology, {"anna/sweep": topology.online}))
    full = no_free_core(["a"], whole(topology))

    assert isinstance(busy, Busy)
    assert "anna/sweep" in busy.message
    assert isinstance(full, DoesNotFit)


def test_of_an_empty_pool_all_jobs_wait() -> None:
    topology = uniform_topology(8, 2)
    allocation = give(jobs(1, 2), topology, pool=whole(topology, {"anna/sweep": topology.online}))

    assert allocation.waiting == ("j1", "j2")
    assert allocation.notices == ()


def test_an_empty_plan_gets_nothing() -> None:
    allocation = give([], uniform_topology(4))

    assert (allocation.grants, allocation.waiting, str(allocation.left_cores)) == ({}, (), "0-3")
