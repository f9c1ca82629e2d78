"""The container engine in memory refuses, lists and ends as Docker does: what it lets pass would pass tests and fail users."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from migctl.core.runs.record import JobState
from migctl.engine.upoptions import UpOptions
from migctl.errors import Busy
from tests.support.fake_engine import Container
from tests.support.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, "a100-40gb")
    world.up(world.plan("one", {"a": "1g.5gb"}), UpOptions())
    return world


def only(world: World) -> Container:
    (container,) = world.engine.containers.values()
    return container


def test_a_name_is_free_only_for_the_same_attempt_that_does_not_run(world: World) -> None:
    there = only(world)
    other = replace(there.launch, token="other")

    for launch in (there.launch, other):
        with pytest.raises(Busy, match="exists"):
            world.engine.create(launch)
    world.engine.end(there, 0)
    with pytest.raises(Busy, match="exists"):
        world.engine.create(other)
    assert only(world) is there
    assert world.engine.create(there.launch) != there.handle
    assert only(world).state is JobState.STARTING


def test_units_are_the_callers_own_by_label_and_leftovers_are_everybodys(world: World) -> None:
    there = only(world)
    assert [unit.handle for unit in world.engine.units("one")] == [there.handle]
    labels = {**dict(there.launch.labels), "io.migctl.owner": "4711"}
    there.launch = replace(there.launch, labels=tuple(labels.items()))

    assert world.engine.units(None) == []
    assert [one.owner_uid for one in world.engine.leftovers()] == [4711]


# (its process ends at SIGTERM, the grace, hurried after, the exit code, at least and at most this long)
STOPS = [
    (True, 60.0, None, 143, 0.0, 0.5),
    (False, 0.2, None, 137, 0.2, 5.0),
    (False, 60.0, 0.1, 137, 0.1, 5.0),
]


@pytest.mark.parametrize(("obeys", "grace_s", "hurried_s", "code", "least_s", "most_s"), STOPS)
def test_stop_gives_the_grace_and_then_kills(
    world: World, obeys: bool, grace_s: float, hurried_s: float | None, code: int, least_s: float, most_s: float
) -> None:
    there = only(world)
    there.obeys = obeys
    hurry = threading.Event()
    if hurried_s is not None:
        threading.Timer(hurried_s, hurry.set).start()

    began = time.monotonic()
    world.engine.stop(there.handle, grace_s, hurry=hurry)

    assert least_s <= time.monotonic() - began < most_s
    assert (there.exit_code, there.state) == (code, JobState.FAILED)


def test_what_sigkill_does_not_end_is_told_and_still_runs(world: World) -> None:
    there = only(world)
    there.obeys, there.stuck = False, True

    with pytest.raises(Busy) as caught:
        world.engine.stop(there.handle, 0.0)
    assert caught.value.id == "process-stuck"
    assert world.engine.wait(there.handle, 0.05) is None


def test_down_of_a_stuck_job_leaves_its_instance_and_says_so(world: World) -> None:
    there = only(world)
    there.obeys, there.stuck = False, True
    with pytest.raises(Exception, match="SIGKILL"):
        world.down("one")
    assert [r.job for r in world.records()] == ["a"]
    assert len(world.instances()) == 1

    there.stuck = False
    world.down("one")
    world.check_gone()
