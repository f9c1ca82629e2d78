from dataclasses import replace
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from migctl.core.choices import CpuShare, CpuSplit, Numa
from migctl.core.cpu.apportion import apportion
from migctl.core.cpu.cpus import CpuAllocation, CpuDemand, assign
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.pool import Pool, fair_part, make_pool
from migctl.core.cpu.topology import Core, Topology
from migctl.core.cpu.workers import cores_per_job
from migctl.core.runs.observed import ForeignContainer
from migctl.errors import HostError

QUICK = settings(max_examples=40, deadline=None)
"""Machines and plans are drawn together, which is slow."""


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Any regular machine, with some CPUs offline and some isolated."""
    sockets, nodes, domains = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    per_domain, threads = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    adjacent, hybrid = draw(st.booleans()), draw(st.booleans())
    total = sockets * nodes * domains * per_domain
    offline = draw(st.sets(st.integers(0, total * threads - 1), max_size=3))
    isolated = draw(st.sets(st.integers(0, total * threads - 1), max_size=2))
    cores = []
    for n in range(total):
        cpus = {n * threads + t if adjacent else n + t * total for t in range(threads)}
        if cpus - offline:
            domain = n // per_domain
            cores.append(
                Core(
                    id=min(cpus),
                    cpus=CpuSet(cpus - offline),
                    offline=CpuSet(cpus & offline),
                    socket=domain // domains // nodes,
                    node=domain // domains,
                    l3=domain * per_domain,
                    capacity=512 if hybrid and n % per_domain else 1024,
                )
            )
    if not cores:
        cores = [Core(id=0, cpus=CpuSet({0}), offline=CpuSet(), socket=0, node=0, l3=0)]
    return Topology(
        cores=tuple(sorted(cores, key=lambda core: core.id)),
        isolated=CpuSet(isolated),
        nodes_with_memory=frozenset(range(sockets * nodes)),
        offline=CpuSet(offline),
    )


@st.composite
def pools(draw: st.DrawFn) -> tuple[Topology, Pool]:
    topology = draw(topologies())
    some = st.sets(st.sampled_from(tuple(topology.online)), max_size=6).map(CpuSet)
    try:
        pool = make_pool(
            topology,
            affinity=topology.online - draw(some),
            engine=None,
            claimed={"anna/a": draw(some)},
            foreign=[ForeignContainer("db", draw(some))],
        )
    except HostError:
        topology = replace(topology, isolated=CpuSet())
        pool = make_pool(topology, affinity=topology.online, engine=None, claimed={}, foreign=())
    part = fair_part(
        pool,
        topology,
        gpus_of_plan=1,
        gpus_in_machine=draw(st.integers(1, 3)),
        slices_share=Fraction(draw(st.integers(1, 7)), 7),
        cpu_share=draw(st.sampled_from(CpuShare)),
        near_nodes=draw(st.sets(st.integers(0, 3), max_size=2)),
    )
    return topology, part


def demands_for(pool: Pool) -> st.SearchStrategy[list[CpuDemand]]:
    one = st.builds(
        CpuDemand,
        job=st.just(""),
        compute_slices=st.sampled_from((1, 2, 3, 4, 7)),
        near_node=st.none() | st.integers(0, 3),
        cpus=st.none() | st.integers(1, max(1, len(pool.cores))) if pool.cores else st.none(),
        num_workers=st.none() | st.integers(0, 8),
    )

    def named(found: list[CpuDemand]) -> list[CpuDemand]:
        return [
            CpuDemand(
                job=f"j{n}",
                compute_slices=d.compute_slices,
                near_node=d.near_node,
                cpus=d.cpus if n % 3 == 0 else None,
                num_workers=d.num_workers,
            )
            for n, d in enumerate(found)
        ]

    return st.lists(one, max_size=9).map(named)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Topology, Pool, list[CpuDemand], dict[str, object]]:
    topology, pool = draw(pools())
    how: dict[str, object] = {
        "reserve_cores": draw(st.none() | st.integers(0, 4)),
        "cpu_split": draw(st.sampled_from(CpuSplit)),
        "numa": Numa.PREFER,
        "oversubscribe": False,
        "max_parallel": draw(st.none() | st.integers(1, 9)),
    }
    return topology, pool, draw(demands_for(pool)), how


def run(case: tuple[Topology, Pool, list[CpuDemand], dict[str, object]], **more: object) -> CpuAllocation:
    topology, pool, demands, how = case
    return assign(demands, pool, topology, **{**how, **more})  # type: ignore[arg-type]  # a table of keyword arguments


@QUICK
@given(cases())
def test_no_two_jobs_share_a_cpu_and_all_lie_in_the_pool(case: tuple[Topology, Pool, list[CpuDemand], dict]) -> None:
    allocation = run(case)
    granted = [cpu for grant in allocation.grants.values() for cpu in grant.cpus]

    assert len(granted) == len(set(granted))
    assert set(granted) <= case[1].cpus
    assert not set(granted) & case[0].isolated
    assert set(allocation.grants) | set(allocation.waiting) == {d.job for d in case[2]}
    assert not set(allocation.grants) & set(allocation.waiting)
    assert sum(len(core.cpus) for core in case[1].cores) >= len(granted)
    assert not allocation.left_cores & CpuSet(granted)


@QUICK
@given(cases())
def test_siblings_stay_whole_but_where_there_are_fewer_cores_than_jobs(
    case: tuple[Topology, Pool, list[CpuDemand], dict],
) -> None:
    _, pool, _, _ = case
    allocation = run(case)
    split = [
        job
        for job, grant in allocation.grants.items()
        if any(core.cpus & grant.cpus and not core.cpus <= grant.cpus for core in pool.cores)
    ]

    if split:
        assert all(len(allocation.grants[job].cpus) == 1 for job in split)
        assert "one-thread-each" in {notice.id for notice in allocation.notices}
        wave = len(allocation.grants) + len(allocation.waiting) - len(allocation.over_limit)
        asked = sum(d.cpus or 0 for d in case[2])
        assert len(pool.cores) - asked < wave


@QUICK
@given(cases())
def test_the_same_question_has_the_same_answer(case: tuple[Topology, Pool, list[CpuDemand], dict]) -> None:
    assert run(case) == run(case)


@QUICK
@given(cases())
def test_running_jobs_are_never_moved(case: tuple[Topology, Pool, list[CpuDemand], dict]) -> None:
    first = run(case)
    keep = {job: grant.cpus for job, grant in first.grants.items()}
    again = run(case, keep=keep)

    assert {job: grant.cpus for job, grant in again.grants.items()} == keep


@QUICK
@given(cases(), st.data())
def test_a_job_that_comes_later_takes_only_what_is_free(
    case: tuple[Topology, Pool, list[CpuDemand], dict], data: st.DataObject
) -> None:
    topology, pool, demands, how = case
    before = demands[: data.draw(st.integers(0, len(demands)))]
    keep = {job: grant.cpus for job, grant in run((topology, pool, before, how)).grants.items()}
    allocation = run(case, keep=keep)
    granted = [cpu for grant in allocation.grants.values() for cpu in grant.cpus]

    assert len(granted) == len(set(granted))
    assert {job: allocation.grants[job].cpus for job in keep} == keep


@QUICK
@given(cases())
def test_strict_jobs_stay_on_one_node_with_its_memory(case: tuple[Topology, Pool, list[CpuDemand], dict]) -> None:
    topology, pool, demands, how = case
    free = [CpuDemand(job=d.job, compute_slices=d.compute_slices, near_node=d.near_node) for d in demands]
    allocation = run((topology, pool, free, how), numa=Numa.STRICT)
    nodes = {cpu: core.node for core in topology.cores for cpu in core.cpus}
    known = set(nodes.values())

    for demand in free:
        grant = allocation.grants.get(demand.job)
        if grant is not None and demand.near_node in known:
            assert {nodes[cpu] for cpu in grant.cpus} == {demand.near_node}
            assert grant.mems == CpuSet({demand.near_node or 0})


@QUICK
@given(cases())
def test_oversubscribed_jobs_all_run_and_load_is_even(case: tuple[Topology, Pool, list[CpuDemand], dict]) -> None:
    topology, pool, demands, how = case
    free = [CpuDemand(job=d.job, compute_slices=1) for d in demands]
    allocation = run((topology, pool, free, how), oversubscribe=True, max_parallel=None)
    if not pool.cores:
        return
    load: dict[int, int] = {}
    for grant in allocation.grants.values():
        for cpu in grant.cpus:
            load[cpu] = load.get(cpu, 0) + 1

    assert allocation.waiting == ()
    assert not load or max(load.values()) <= -(-len(free) // len(pool.cpus))


@QUICK
@given(cases())
def test_processes_and_threads_of_a_job_fit_its_cores(case: tuple[Topology, Pool, list[CpuDemand], dict]) -> None:
    for grant in run(case).grants.values():
        assert grant.threads == 1 or grant.threads * max(1, grant.num_workers) <= grant.cores


@settings(deadline=None)
@given(st.integers(0, 200), st.lists(st.integers(1, 7), min_size=1, max_size=12))
def test_apportioning_gives_everybody_a_core_and_nobody_one_too_many(total: int, weights: list[int]) -> None:
    total = max(total, len(weights))
    shares = apportion(total, weights)

    assert min(shares) >= 1
    if len(set(weights)) > 1:
        assert sum(shares) == total
    else:
        assert set(shares) == {total // len(weights)}
    for (a, x), (b, y) in zip(
        zip(weights, shares, strict=True), zip(weights[1:], shares[1:], strict=False), strict=False
    ):
        assert x >= y if a > b else y >= x if a < b else abs(x - y) <= 1


@settings(deadline=None)
@given(st.integers(1, 256), st.integers(1, 64), st.none() | st.integers(0, 8))
def test_equal_jobs_get_what_the_rule_says(cores: int, count: int, reserve: int | None) -> None:
    topology = Topology(
        cores=tuple(Core(id=n, cpus=CpuSet({n}), offline=CpuSet(), socket=0, node=0, l3=0) for n in range(cores))
    )
    pool = make_pool(topology, affinity=topology.online, engine=None, claimed={}, foreign=())
    allocation = assign(
        [CpuDemand(job=f"j{n}", compute_slices=1) for n in range(count)],
        pool,
        topology,
        reserve_cores=reserve,
        cpu_split=CpuSplit.SLICES,
        numa=Numa.PREFER,
        oversubscribe=False,
        max_parallel=None,
    )

    expected = cores_per_job(cores, count, reserve)
    assert len(allocation.grants) == min(count, cores)
    if count <= cores:
        assert {grant.cores for grant in allocation.grants.values()} == {expected}
