"""Ownership, settling of open intents, and the steps that remain: tables before code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migctl.core.gpu.mig import ComputeInstance, Gpu, Instance, MemorySlices, MigMode, Placement
from migctl.core.runs.observed import Observed, Unit
from migctl.core.runs.ownership import Standing, standing
from migctl.core.runs.reconcile import Wanted, difference, steps_down, steps_up
from migctl.core.runs.record import Action, JobState, Ownership, Record
from migctl.core.runs.settle import settle

GPU = "GPU-0"
PLACE = Placement(4, MemorySlices(4))
CI = ComputeInstance(0, "MIG-a")
OURS = Instance(GPU, 1, 9, "3g.20gb", PLACE, (CI,))
OWNED = Ownership(gpu_uuid=GPU, gi_id=1, profile_id=9, placement=PLACE, boot_id="boot-1", ci_id=0, mig_uuid="MIG-a")
RECORD = Record(
    run="r",
    job="a",
    token="t",
    runtime="docker",
    strategy="mig",
    digest="d",
    spec="{}",
    state=JobState.RUNNING,
    gpu_uuid=GPU,
    profile="3g.20gb",
    profile_id=9,
    placement=PLACE,
    boot_id="boot-1",
    instance=OWNED,
    container_id="c",
)
RUNNING = Unit(handle="c", run="r", job="a", token="t", state=JobState.RUNNING, pid=7)
CREATED = replace(RUNNING, state=JobState.STARTING, pid=None)


def observed(*instances: Instance, units: tuple[Unit, ...] = (), boot: str = "boot-1", **gpu: object) -> Observed:
    seen = Gpu(
        index=0,
        uuid=GPU,
        name="A100",
        pci_bus_id="0000:01:00.0",
        memory_mib=40960,
        mig=MigMode(True, True),
        instances=instances,
        **gpu,  # type: ignore[arg-type]  # a test's shorthand
    )
    return Observed(boot_id=boot, gpus=(seen,), units=units)


@pytest.mark.parametrize(
    ("why", "owned", "seen", "expected"),
    [
        ("everything matches", OWNED, observed(OURS), Standing.OURS),
        ("nothing is owned", None, observed(OURS), Standing.NONE),
        ("it is gone", OWNED, observed(), Standing.GONE),
        ("the machine was restarted", OWNED, observed(OURS, boot="boot-2"), Standing.GONE),
        ("another profile has its GI id", OWNED, observed(replace(OURS, profile_id=5)), Standing.TAKEN),
        ("it lies elsewhere", OWNED, observed(replace(OURS, placement=Placement(0, MemorySlices(4)))), Standing.TAKEN),
        (
            "another MIG UUID",
            OWNED,
            observed(replace(OURS, compute_instances=(ComputeInstance(0, "MIG-b"),))),
            Standing.TAKEN,
        ),
        (
            "another CI id",
            OWNED,
            observed(replace(OURS, compute_instances=(ComputeInstance(1, "MIG-a"),))),
            Standing.TAKEN,
        ),
        (
            "somebody split it",
            OWNED,
            observed(replace(OURS, compute_instances=(CI, ComputeInstance(1, "MIG-b")))),
            Standing.TAKEN,
        ),
        ("its compute instance is gone", OWNED, observed(replace(OURS, compute_instances=())), Standing.HALF),
        (
            "we had made no compute instance, somebody did",
            replace(OWNED, ci_id=None, mig_uuid=None),
            observed(OURS),
            Standing.TAKEN,
        ),
        ("the GPU cannot be read", OWNED, observed(OURS, instances_reason="no rights"), Standing.UNKNOWN),
        ("the GPU is missing", replace(OWNED, gpu_uuid="GPU-9"), observed(OURS), Standing.UNKNOWN),
    ],
)
def test_an_instance_is_ours_only_when_all_of_its_identity_matches(
    why: str, owned: Ownership | None, seen: Observed, expected: Standing
) -> None:
    assert standing(owned, seen) is expected, why


UNBORN = replace(RECORD, state=JobState.STARTING, instance=None, container_id=None)
HALF = replace(OURS, compute_instances=())


def test_a_crash_after_creating_a_gpu_instance_finds_it_by_its_placement() -> None:
    record = settle(replace(UNBORN, intent=Action.CREATE_GPU_INSTANCE), observed(HALF))

    assert record.instance is not None
    assert (record.instance.gi_id, record.instance.mig_uuid) == (1, None)


def test_a_stranger_at_the_intended_placement_is_not_taken_for_ours() -> None:
    record = settle(replace(UNBORN, intent=Action.CREATE_GPU_INSTANCE), observed(OURS))

    assert record.instance is None
    assert steps_down(record, observed(OURS)).steps == ()


def test_without_an_open_intent_nothing_found_is_ours() -> None:
    assert settle(UNBORN, observed(HALF)).instance is None


def test_an_intent_of_an_earlier_boot_claims_nothing() -> None:
    record = settle(replace(UNBORN, intent=Action.CREATE_GPU_INSTANCE), observed(HALF, boot="boot-2"))

    assert record.instance is None


def test_a_crash_after_creating_the_compute_instance_takes_its_uuid_over() -> None:
    half = replace(UNBORN, instance=replace(OWNED, ci_id=None, mig_uuid=None), intent=Action.CREATE_COMPUTE_INSTANCE)

    assert settle(half, observed(OURS)).instance == OWNED


def test_a_crash_between_both_destroys_leaves_the_gpu_instance_to_destroy() -> None:
    record = settle(replace(RECORD, intent=Action.DESTROY_COMPUTE_INSTANCE), observed(HALF))

    assert [step.action for step in steps_down(record, observed(HALF)).steps] == [Action.DESTROY_GPU_INSTANCE]


def test_an_instance_made_by_a_stranger_after_ours_was_destroyed_is_left_alone() -> None:
    half = replace(
        RECORD,
        container_id=None,
        instance=replace(OWNED, ci_id=None, mig_uuid=None),
        intent=Action.DESTROY_GPU_INSTANCE,
    )

    record = settle(half, observed(OURS))

    assert record.instance is None
    assert steps_down(record, observed(OURS)).steps == ()


def test_a_running_job_whose_container_vanished_is_lost() -> None:
    assert settle(RECORD, observed(OURS)).state is JobState.LOST


def test_a_stopped_job_is_stopped_whatever_its_exit_code() -> None:
    killed = replace(RUNNING, state=JobState.FAILED, exit_code=137)

    record = settle(replace(RECORD, intent=Action.STOP), observed(OURS, units=(killed,)))

    assert (record.state, record.exit_code) == (JobState.STOPPED, 137)


CREATE = [Action.CREATE_GPU_INSTANCE, Action.CREATE_COMPUTE_INSTANCE]
LAUNCH = [Action.CREATE_CONTAINER, Action.START]


@pytest.mark.parametrize(
    ("why", "record", "seen", "expected"),
    [
        ("nothing exists", None, observed(), [*CREATE, *LAUNCH]),
        (
            "half an instance exists",
            replace(UNBORN, instance=OWNED),
            observed(HALF),
            [Action.CREATE_COMPUTE_INSTANCE, *LAUNCH],
        ),
        ("the instance exists", replace(UNBORN, instance=OWNED), observed(OURS), LAUNCH),
        ("the container exists", replace(UNBORN, instance=OWNED), observed(OURS, units=(CREATED,)), [Action.START]),
        (
            "the container exists and its instance is gone",
            UNBORN,
            observed(units=(CREATED,)),
            [Action.REMOVE_CONTAINER, *CREATE, *LAUNCH],
        ),
        ("all of it exists", RECORD, observed(OURS, units=(RUNNING,)), []),
    ],
)
def test_up_continues_where_it_was_cut_short(
    why: str, record: Record | None, seen: Observed, expected: list[Action]
) -> None:
    assert [step.action for step in steps_up("a", record, seen, needs_instance=True).steps] == expected, why


DESTROY = [Action.DESTROY_COMPUTE_INSTANCE, Action.DESTROY_GPU_INSTANCE]


@pytest.mark.parametrize(
    ("why", "record", "seen", "expected"),
    [
        ("it runs", RECORD, observed(OURS, units=(RUNNING,)), [Action.STOP, Action.REMOVE_CONTAINER, *DESTROY]),
        (
            "it has ended",
            RECORD,
            observed(OURS, units=(replace(RUNNING, state=JobState.FAILED),)),
            [Action.REMOVE_CONTAINER, *DESTROY],
        ),
        ("its container is gone", RECORD, observed(OURS), DESTROY),
        ("its instance is gone", RECORD, observed(units=(RUNNING,)), [Action.STOP, Action.REMOVE_CONTAINER]),
        ("the machine was restarted", RECORD, observed(OURS, boot="boot-2"), []),
        (
            "its instance is an administrator's",
            replace(RECORD, instance=replace(OWNED, foreign=True)),
            observed(OURS),
            [],
        ),
        ("its instance was taken over", RECORD, observed(replace(OURS, profile_id=5)), []),
    ],
)
def test_down_undoes_what_is_ours_and_nothing_else(
    why: str, record: Record, seen: Observed, expected: list[Action]
) -> None:
    assert [step.action for step in steps_down(record, seen).steps] == expected, why


def test_a_changed_plan_is_compared_job_by_job() -> None:
    records = {
        "same": RECORD,
        "changed": replace(RECORD, digest="old"),
        "cut-short": replace(RECORD, state=JobState.STARTING),
        "removed": RECORD,
    }

    diff = difference([Wanted(job=name, digest="d") for name in ("same", "changed", "cut-short", "new")], records)

    assert diff.kept == ("same",)
    assert diff.changed == ("changed",)
    assert diff.unfinished == ("cut-short",)
    assert diff.new == ("new",)
    assert diff.removed == ("removed",)
