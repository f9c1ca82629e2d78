"""Instances of ended jobs: who takes which, what is destroyed, and whose one is that two records name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migctl.core.gpu.mig import MemorySlices, Placement
from migctl.core.queueing.decision import Start
from migctl.core.queueing.handing import handings, sole_owners
from migctl.core.queueing.turn import Spare
from migctl.core.runs.record import Action, JobState, Ownership, Record

ENDED = JobState.SUCCEEDED


def owned(gi_id: int, boot_id: str = "boot", *, foreign: bool = False) -> Ownership:
    return Ownership(
        gpu_uuid="GPU-1",
        gi_id=gi_id,
        profile_id=19,
        placement=Placement(0, MemorySlices(1)),
        boot_id=boot_id,
        ci_id=0,
        mig_uuid=f"MIG-{gi_id}",
        foreign=foreign,
    )


def record(job: str, instance: Ownership | None, state: JobState = ENDED, created_at: float = 0.0) -> Record:
    return Record(
        run="sweep",
        job=job,
        token=f"token-{job}",
        runtime="docker",
        strategy="mig",
        digest="",
        spec="",
        state=state,
        instance=instance,
        created_at=created_at,
        container_id=f"container-{job}",
    )


def spare(gi_id: int) -> Spare:
    return Spare(
        gpu_uuid="GPU-1",
        gi_id=gi_id,
        profile_id=19,
        placement=Placement(0, MemorySlices(1)),
        owner="",
        mig_uuid=f"MIG-{gi_id}",
    )


def start(job: str, *, takes: int | None = None, destroys: tuple[int, ...] = ()) -> Start:
    return Start(
        job=job,
        gpu_uuid="GPU-1",
        profile=None,
        placement=None,
        memory_mib=0,
        cores=1,
        takes_over=spare(takes) if takes is not None else None,
        destroys=tuple(spare(n) for n in destroys),
    )


def test_an_instance_goes_from_the_ended_job_to_the_one_that_starts() -> None:
    found = handings([start("b", takes=1)], {"a": record("a", owned(1))})

    assert found.taken == {"b": owned(1)}
    assert {name: r.instance for name, r in found.given.items()} == {"a": None}
    assert found.clearing == ()


def test_a_job_that_is_run_again_elsewhere_leaves_no_instance_that_nobody_names() -> None:
    again = {"a": record("a", owned(1)), "b": record("b", owned(2))}

    assert set(handings([start("b", takes=1)], again).cleared) == {"b"}
    assert handings([start("b", takes=2)], again).cleared == {}


def test_what_is_in_the_way_is_destroyed_and_its_container_stays() -> None:
    found = handings([start("b", destroys=(1, 2))], {"a": record("a", owned(1)), "c": record("c", owned(2))})

    assert {chain.job: [step.action for step in chain.steps] for chain in found.clearing} == {
        name: [Action.DESTROY_COMPUTE_INSTANCE, Action.DESTROY_GPU_INSTANCE] for name in ("a", "c")
    }


def test_a_job_that_is_run_once_more_takes_its_own_instance_and_its_old_container_goes_first() -> None:
    found = handings([start("a", takes=1)], {"a": record("a", owned(1), JobState.FAILED)})

    assert found.taken == {"a": owned(1)}
    assert found.given == {}, "its record is replaced by the next attempt's"
    assert [(c.job, [s.action for s in c.steps]) for c in found.clearing] == [("a", [Action.REMOVE_CONTAINER])]


def test_a_job_run_once_more_may_take_another_ones_while_its_own_is_destroyed() -> None:
    records = {"a": record("a", owned(1), JobState.FAILED), "b": record("b", owned(2))}

    found = handings([start("a", takes=2, destroys=(1,))], records)

    assert found.taken == {"a": owned(2)}
    assert list(found.given) == ["b"]
    assert [[s.action for s in c.steps] for c in found.clearing] == [
        [Action.REMOVE_CONTAINER, Action.DESTROY_COMPUTE_INSTANCE, Action.DESTROY_GPU_INSTANCE]
    ]


SHARED = (
    # who names the same instance: state, created_at; whose it is
    ("the later of two ended ones", (ENDED, 1.0), (ENDED, 2.0), "b"),
    ("the one that runs", (ENDED, 1.0), (JobState.RUNNING, 2.0), "b"),
    ("the one that runs, though a clock was set back", (ENDED, 9.0), (JobState.RUNNING, 2.0), "b"),
    ("the one that is about to start", (ENDED, 9.0), (JobState.STARTING, 2.0), "b"),
    ("the later one by name, where both are as old", (ENDED, 1.0), (ENDED, 1.0), "b"),
)


@pytest.mark.parametrize(("_words", "one", "other", "owner"), SHARED, ids=[words for words, *_ in SHARED])
def test_an_instance_that_two_records_name_belongs_to(
    _words: str, one: tuple[JobState, float], other: tuple[JobState, float], owner: str
) -> None:
    records = {"a": record("a", owned(1), *one), "b": record("b", owned(1), *other)}

    found = sole_owners(records)

    assert {name for name, r in found.items() if r.instance is not None} == {owner}
    assert found[owner] == records[owner]


def test_instances_of_others_boots_and_administrators_are_told_apart() -> None:
    records = {
        "a": record("a", owned(1)),
        "b": record("b", owned(1, "an earlier boot")),
        "c": record("c", owned(1, foreign=True)),
        "d": record("d", owned(1, foreign=True)),
        "e": record("e", None),
    }

    assert sole_owners(records) == records
    assert sole_owners({**records, "f": replace(records["a"], job="f")})["a"].instance is None
