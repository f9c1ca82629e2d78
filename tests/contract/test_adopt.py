"""`adopt` after store, owner files and key are lost: what labels and hardware agree on fully; the rest is named and left alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from migctl.core.runs.record import JobState
from migctl.engine.adopt import adopt
from migctl.engine.upoptions import UpOptions
from migctl.errors import MigctlError
from migctl.nvml.simstate import SimState
from tests.support.fake_engine import Container, Killed
from tests.support.world import EngineSession, World

JOBS = {"a": "2g.10gb", "b": "1g.5gb"}
NO = UpOptions()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, "a100-40gb")


def container(world: World, job: str) -> Container:
    return next(c for c in world.engine.containers.values() if c.launch.job == job)


def relabel(world: World, job: str, **labels: str) -> None:
    """What the container's labels say is something else."""
    found = container(world, job)
    changed = {**dict(found.launch.labels), **{f"io.migctl.{key}": value for key, value in labels.items()}}
    found.launch = replace(found.launch, labels=tuple(changed.items()))


def up_and_lose_records(world: World, jobs: dict[str, str] = JOBS) -> None:
    world.up(world.plan("one", jobs), NO)
    world.lose_records()


def test_running_and_ended_jobs_with_their_instances_are_ours_again(world: World) -> None:
    world.up(world.plan("one", JOBS), NO)
    before = {r.job: r for r in world.records()}
    world.engine.end(container(world, "b"), 0)
    world.lose_records()
    assert world.records() == []

    result = world.adopt()

    assert result.left == ()
    after = {r.job: r for r in world.records()}
    assert {n: r.state for n, r in after.items()} == {"a": JobState.RUNNING, "b": JobState.SUCCEEDED}
    kept = (
        "token",
        "attempt",
        "instance",
        "container_id",
        "container_name",
        "cpus",
        "cores",
        "num_workers",
        "memory_mib",
    )
    same = (*kept, "profile", "profile_id", "placement", "gpu_uuid", "grace_s", "spec", "strategy", "boot_id")
    assert [(n, f) for n in after for f in same if getattr(after[n], f) != getattr(before[n], f)] == []
    assert [set(c.gpus) for c in world.claims()] == [{before["a"].gpu_uuid}]
    world.check()
    world.down("one")
    world.check_gone()


def test_the_same_plan_recognises_its_adopted_jobs(world: World) -> None:
    up_and_lose_records(world)
    world.adopt()

    result = world.up(world.plan("one", JOBS), NO)

    assert (result.started, result.notices) == ((), ())
    assert set(result.decision.difference.kept) == set(JOBS)
    assert all(r.digest for r in world.records())


def test_another_plan_of_that_name_does_not(world: World) -> None:
    up_and_lose_records(world)
    world.adopt()

    result = world.up(world.plan("one", {**JOBS, "a": "3g.20gb"}), NO)

    assert result.decision.difference.changed == ("a",)


def test_what_is_adopted_already_is_not_touched_again(world: World) -> None:
    up_and_lose_records(world)
    world.adopt()
    before = world.records()

    again = world.adopt()

    assert (again.adopted, again.left) == ((), ())
    assert world.records() == before


def test_a_dry_run_says_the_same_and_writes_nothing(world: World) -> None:
    up_and_lose_records(world)

    planned = adopt(world.session(), None, dry_run=True)

    assert not (world.folder / "state").exists()
    assert [r.job for r in planned.adopted] == [r.job for r in world.adopt().adopted]


def test_only_the_named_run_is_adopted(world: World) -> None:
    world.up(world.plan("one", {"a": "1g.5gb"}), NO)
    world.up(world.plan("two", {"b": "1g.5gb"}), NO)
    world.lose_records()

    result = adopt(world.session(), "two", dry_run=False)

    assert [r.run for r in result.adopted] == ["two"]
    assert result.left == ()


Damage = Callable[[World], object]


def take_instance(world: World) -> None:
    """The job ended, somebody removed its instance and made a smaller one there."""
    world.engine.end(container(world, "a"), 0)
    world.hand(next(n for n, i in enumerate(world.instances().values()) if i.size == 2), "shrink", "1g.5gb")


def halve_instance(world: World) -> None:
    world.engine.end(container(world, "a"), 0)
    world.hand(next(n for n, i in enumerate(world.instances().values()) if i.size == 2), "halve", "1g.5gb")


def gpu_does_not_tell(world: World) -> None:
    with SimState.edit(world.sim) as state:
        state.no_permission = True


UNPROVEN: dict[str, tuple[Damage, str]] = {
    "another user's": (lambda w: relabel(w, "a", owner="1234"), "of uid 1234"),
    "nobody's": (lambda w: relabel(w, "a", owner=""), "does not say whose"),
    "of a boot that is over": (lambda w: relabel(w, "a", boot="gone"), "the machine was restarted since"),
    "of another GPU": (lambda w: relabel(w, "a", gpu="GPU-elsewhere"), "GPU-elsewhere is not here"),
    "with another GI id": (lambda w: relabel(w, "a", gi="13"), "its GPU instance is gone"),
    "with another profile": (lambda w: relabel(w, "a", **{"profile-id": "5"}), "another one by now"),
    "with another placement": (lambda w: relabel(w, "a", placement="6:2"), "another one by now"),
    "with another MIG UUID": (lambda w: relabel(w, "a", **{"mig-uuid": "MIG-other"}), "another one by now"),
    "with another CI id": (lambda w: relabel(w, "a", ci="1"), "another one by now"),
    "without a word about its instance": (lambda w: relabel(w, "a", gi=""), "labels do not tell enough"),
    "with a number that is none": (lambda w: relabel(w, "a", attempt="x"), "labels do not tell enough"),
    "with a spec that is none": (lambda w: relabel(w, "a", spec="[]"), "labels do not tell enough"),
    "whose instance somebody replaced": (take_instance, "its GPU instance is gone"),
    "whose instance somebody halved": (halve_instance, "no compute instance any more"),
    "whose GPU tells nothing without root": (gpu_does_not_tell, "nothing proves that it is yours"),
}


@pytest.mark.parametrize("case", UNPROVEN)
def test_a_container_is_named_and_left_alone(world: World, case: str) -> None:
    damage, reason = UNPROVEN[case]
    world.up(world.plan("one", {"a": "2g.10gb"}), NO)
    damage(world)
    world.lose_records()
    there, containers = world.instances(), dict(world.engine.containers)

    result = world.adopt()

    assert result.adopted == ()
    first = result.left[0]
    assert first.what == f"container {container(world, 'a').launch.name} (one/a)"
    assert reason in first.reason
    assert (world.instances(), world.engine.containers) == (there, containers)
    world.down("one")
    assert (world.instances(), world.engine.containers) == (there, containers)


def test_instances_that_no_container_speaks_of_are_named_and_left_alone(world: World) -> None:
    world.stranger_comes(0, "1g.5gb", 6, compute=True)
    with pytest.raises(Killed):
        world.up(world.plan("one", {"a": "2g.10gb"}), NO, kill_at=5)
    world.settle()
    world.lose_records()
    there = world.instances()

    result = world.adopt()

    assert result.adopted == ()
    assert sorted(left.what.partition(" (")[2].partition(" ")[0] for left in result.left) == ["1g.5gb", "2g.10gb"]
    assert world.instances() == there


def test_of_two_containers_of_one_job_the_living_one_has_the_instance(world: World) -> None:
    up_and_lose_records(world, {"a": "2g.10gb"})
    live = container(world, "a")
    old = replace(live.launch, token="0" * 16, name="migctl-one-a-old")
    old = replace(old, labels=tuple({**dict(old.labels), "io.migctl.token": old.token}.items()))
    world.engine.containers["f" * 64] = Container("f" * 64, old, JobState.FAILED, 1)

    result = world.adopt()

    assert [r.container_id for r in result.adopted] == [live.handle]
    assert [(left.what, left.reason) for left in result.left] == [
        ("container migctl-one-a-old (one/a)", "one/a is recorded with another container")
    ]


def test_a_job_on_an_administrators_instance_is_adopted_and_the_instance_stays_his(world: World) -> None:
    world.stranger_comes(0, "2g.10gb", 0, compute=True)
    (uuid,) = world.strangers_uuids()
    up_and_lose_records(world, {"a": uuid})

    (record,) = world.adopt().adopted

    assert record.instance is not None
    assert record.instance.foreign
    world.check()
    world.down("one")
    world.check_gone()


def test_after_a_reboot_leftovers_are_named_with_their_reason(world: World) -> None:
    up_and_lose_records(world)
    world.reboot()

    result = world.adopt()

    assert result.adopted == ()
    assert {left.reason for left in result.left} == {"the machine was restarted since: its GPU instance is gone"}


def test_a_driver_that_does_not_answer_is_an_error_and_changes_nothing(world: World) -> None:
    up_and_lose_records(world)
    with SimState.edit(world.sim) as state:
        state.set_fault("nvmlInit", "error")

    with pytest.raises(MigctlError):
        world.adopt()

    assert world.records() == []


def test_what_another_state_directory_of_ones_own_records_is_left_to_it(world: World) -> None:
    world.up(world.plan("one", JOBS), NO)
    session = world.session()
    elsewhere = EngineSession(
        environ={**session.environ, "MIGCTL_STATE_DIR": str(world.folder / "other")},
        nvml=session.nvml,
        root=session.root,
        engine=world.engine,
    )

    result = adopt(elsewhere, None, dry_run=False)

    assert result.adopted == ()
    assert {left.reason for left in result.left if "container" in left.what} == {
        "another state directory of yours has the run one: use that one (--state-dir)"
    }
    world.check()
