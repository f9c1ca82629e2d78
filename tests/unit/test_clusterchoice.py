"""What a second `up` hands over to a cluster, and what it leaves alone."""

from __future__ import annotations

import pytest

from migctl.core.cluster.clusterchoice import check_needs, choose
from migctl.core.cluster.clusterjobs import groups
from migctl.core.cluster.clusterrun import ClusterJob
from migctl.core.cluster.clusterturns import Link, behind, turns
from migctl.core.runs.record import JobState
from migctl.errors import PlanError
from tests.support import exports

PLAN = exports.plan(
    "jobs:\n  a: {image: i, command: x, profile: 1g.5gb}\n  b: {image: i, command: x, profile: 1g.5gb, needs: [a]}\n"
    "  c: {image: i, command: x, profile: 1g.5gb, stage: 2}\n"
)
DIGESTS = {"a": "1", "b": "1", "c": "1"}


def there(**states: JobState) -> dict[str, ClusterJob]:
    """Jobs that the cluster has, with the digests of the plan."""
    return {n: ClusterJob(name=n, digest="1", unit="7", state=state) for n, state in states.items()}


@pytest.mark.parametrize(
    ("known", "digests", "replacing", "retry", "handed", "kept", "leaving"),
    [
        ({}, DIGESTS, False, False, "abc", "", ""),
        (there(a=JobState.RUNNING, b=JobState.QUEUED, c=JobState.SUCCEEDED), DIGESTS, False, False, "", "abc", ""),
        (there(a=JobState.FAILED, b=JobState.STOPPED, c=JobState.LOST), DIGESTS, False, False, "", "abc", ""),
        (there(a=JobState.FAILED, b=JobState.STOPPED, c=JobState.SUCCEEDED), DIGESTS, False, True, "ab", "c", ""),
        (there(a=JobState.RUNNING), {**DIGESTS, "a": "2"}, False, False, "bc", "", ""),
        (there(a=JobState.RUNNING), {**DIGESTS, "a": "2"}, True, False, "abc", "", "a"),
        (there(a=JobState.SUCCEEDED), {**DIGESTS, "a": "2"}, True, False, "abc", "", ""),
        (there(z=JobState.RUNNING), DIGESTS, True, False, "abc", "", "z"),
        ({"a": ClusterJob(name="a", digest="1")}, DIGESTS, False, False, "abc", "", ""),
    ],
)  # fmt: skip
def test_only_what_the_cluster_does_not_have_is_handed_over(
    known: dict[str, ClusterJob],
    digests: dict[str, str],
    replacing: bool,
    retry: bool,
    handed: str,
    kept: str,
    leaving: str,
) -> None:
    found = choose(PLAN.jobs, digests, known, replacing=replacing, retry=retry)

    assert ("".join(found.handed), "".join(found.kept), "".join(found.leaving)) == (handed, kept, leaving)


def test_what_is_kept_although_the_plan_changed_is_told_apart() -> None:
    known = there(a=JobState.RUNNING, z=JobState.RUNNING)

    found = choose(PLAN.jobs, {**DIGESTS, "a": "2"}, known, replacing=False, retry=False)

    assert (found.changed, found.removed, found.taken_out) == (("a",), ("z",), ())


def test_a_job_whose_need_failed_and_is_not_run_again_is_refused() -> None:
    known = there(a=JobState.FAILED)
    choice = choose(PLAN.jobs, DIGESTS, known, replacing=False, retry=False)

    with pytest.raises(PlanError, match="job b needs a, which failed"):
        check_needs(PLAN.jobs, choice, known)
    check_needs(PLAN.jobs, choose(PLAN.jobs, DIGESTS, known, replacing=False, retry=True), known)


def test_new_jobs_wait_for_those_that_the_cluster_has_already() -> None:
    plan = exports.plan(
        "jobs:\n  a: {image: i, command: x, profile: 1g.5gb, stage: 1}\n"
        "  b: {image: i, command: x, profile: 2g.10gb, needs: [a]}\n  c: {image: i, command: x, profile: 3g.20gb, stage: 2}\n"
    )
    fresh = turns(plan, groups(plan, exports.node())[1:])

    found = {turn.group.name: turn.after for turn in behind(fresh, plan, ["a"])}

    assert found == {"b": (Link("a", there=True),), "c": (Link("a", success=False, there=True),)}
    assert behind(fresh, plan, []) == fresh


def test_one_after_another_holds_for_a_later_up_as_well() -> None:
    plan = exports.plan(
        "strategy: sequential\njobs: {a: {image: i, command: x}, b: {image: i, command: y, shm_size: 1g}}\n"
    )
    fresh = turns(plan, groups(plan, exports.node())[1:])

    assert behind(fresh, plan, ["a"])[0].after == (Link("a", success=False, there=True),)
