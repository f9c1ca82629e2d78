"""A plan as a cluster takes it: arrays of equal jobs, each with its part of a node, and what waits for what."""

from __future__ import annotations

import pytest

from migctl.core.cluster.clusterjobs import Node
from migctl.core.cluster.clusterturns import Link
from migctl.errors import PlanError
from tests.support import exports

ONE = "image: i, command: x"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: {ONE, profile: 1g.5gb, matrix: {m: [1, 2]}, environment: {M: '${matrix.m}'}}", [("a", 2)]),
        ("a: {ONE, matrix: {p: [1g.5gb, 2g.10gb, 1g.5gb]}, profile: '${matrix.p}', replicas: 1}", None),
        ("a: {ONE, matrix: {p: [1g.5gb, 2g.10gb]}, profile: '${matrix.p}', replicas: 2}", [("a", 2), ("a-2", 2)]),
        ("a: {ONE, profile: 1g.5gb}, b: {ONE, profile: 1g.5gb}", [("a", 1), ("b", 1)]),
    ],
)
def test_jobs_that_ask_for_the_same_are_one_array(text: str, expected: list[tuple[str, int]] | None) -> None:
    if expected is None:
        with pytest.raises(Exception, match=r"name a-p1g\.5gb"):
            exports.plan(f"jobs: {{{text.replace('ONE', ONE)}}}")
        return

    found = exports.cluster(exports.plan(f"jobs: {{{text.replace('ONE', ONE)}}}"))

    assert [(turn.group.name, len(turn.group.members)) for turn in found] == expected


@pytest.mark.parametrize(
    ("job", "node", "cores", "cpus", "workers"),
    [
        ("profile: 1g.5gb", exports.node(cores=16), 2, 2, 2),
        ("profile: 3g.20gb", exports.node(cores=16), 6, 6, 6),
        ("profile: 7g.40gb", exports.node(cores=16), 16, 16, 16),
        ("profile: 1g.5gb", exports.node(cores=16, threads=2), 2, 4, 2),
        ("profile: 1g.5gb", exports.node("a100-40gbx2", cores=64), 4, 4, 4),
        ("profile: 1g.5gb", exports.node(cores=4), 1, 1, 1),
        ("profile: 1g.5gb, cpus: 5", exports.node(cores=16, threads=2), 5, 10, 5),
        ("profile: 1g.5gb, cpuset: 0-3", exports.node(cores=16, threads=2), 2, 4, 2),
        ("profile: 1g.5gb, cpus: 8, storage: hdd", exports.node(), 8, 8, 4),
        ("profile: 1g.5gb, cpus: 8, storage: nvme", exports.node(threads=2), 8, 16, 10),
        ("profile: 1g.5gb, num_workers: 3", exports.node(cores=16), 2, 2, 3),
        ("memory: 8GiB", exports.node(cores=14), 4, 4, 4),
    ],
)
def test_a_job_gets_the_part_of_a_nodes_cores_that_goes_with_its_part_of_the_gpus(
    job: str, node: Node, cores: int, cpus: int, workers: int
) -> None:
    (turn,) = exports.cluster(exports.plan(f"jobs: {{a: {{{ONE}, {job}}}}}"), node)

    assert (turn.group.cores, turn.group.cpus, turn.group.num_workers) == (cores, cpus, workers)


@pytest.mark.parametrize(
    ("replicas", "profile"), [(1, "7g.40gb"), (2, "3g.20gb"), (7, "1g.5gb"), (9, "1g.5gb"), (500, "1g.5gb")]
)
def test_auto_jobs_get_the_largest_profile_with_which_all_run_at_once_on_a_node(replicas: int, profile: str) -> None:
    (turn,) = exports.cluster(exports.plan(f"jobs: {{a: {{{ONE}, replicas: {replicas}}}}}"), exports.node())

    assert turn.group.profile == profile


def test_the_batch_follows_the_instances_memory_and_needs_to_know_it() -> None:
    text = f"jobs: {{a: {{{ONE}, profile: 3g.20gb, cpus: 1, batch_size: 512, batch_size_memory: 40GB}}}}"

    (turn,) = exports.cluster(exports.plan(text))

    assert turn.group.batch_size == 239
    with pytest.raises(PlanError, match="memory of the nodes' instances"):
        exports.cluster(exports.plan(text), Node())


def test_needs_are_links_to_members_or_to_whole_arrays() -> None:
    found = exports.cluster(
        exports.plan(
            f"jobs: {{s: {{{ONE}, profile: 1g.5gb, matrix: {{m: [1, 2]}}, environment: {{M: '${{matrix.m}}'}}}}, "
            f"one: {{{ONE}, profile: 1g.5gb, needs: [s-m2]}}, all: {{{ONE}, profile: 1g.5gb, needs: [s]}}}}"
        )
    )

    assert {turn.group.name: turn.after for turn in found} == {"s": (), "one": (Link("s", 1),), "all": (Link("s"),)}


def test_one_after_another_each_array_waits_for_the_end_of_the_last() -> None:
    found = exports.cluster(exports.plan(f"strategy: sequential\njobs: {{a: {{{ONE}, replicas: 2}}, b: {{{ONE}}}}}"))

    assert [(turn.group.name, turn.at_once, turn.after) for turn in found] == [
        ("a", 1, ()),
        ("b", None, (Link("a", success=False),)),
    ]
