"""`adopt` beside other commands: one order of locks for all, and nothing is decided before they are held."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from migctl.core.runs.adoption import Leftover
from migctl.engine.adopt import adopt
from migctl.engine.upoptions import UpOptions
from migctl.errors import Busy
from migctl.host.lock import machine_lock
from tests.support.fake_engine import Container, FakeEngine
from tests.support.world import World


@dataclass
class MovingEngine(FakeEngine):
    """Between the first look at its leftovers and the second one a container goes, or comes."""

    later: dict[str, Container] | None = None

    def leftovers(self) -> list[Leftover]:
        found = super().leftovers()
        if self.later is not None:
            self.containers, self.later = self.later, None
        return found


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, "a100-40gb")
    world.engine = MovingEngine(world.sim, os.getuid())
    world.up(world.plan("one", {"a": "1g.5gb"}), UpOptions())
    world.up(world.plan("two", {"b": "1g.5gb"}), UpOptions())
    world.lose_records()
    return world


def moving(world: World) -> MovingEngine:
    assert isinstance(world.engine, MovingEngine)
    return world.engine


def test_the_locks_of_the_runs_are_taken_before_the_machine_as_everywhere(world: World) -> None:
    run = f"run-{world.session().caller.uid}-two"
    with machine_lock(world.run_dir, "machine"), machine_lock(world.run_dir, run), pytest.raises(Busy) as told:
        world.adopt()

    assert told.value.where == run
    assert world.records() == []


def test_what_went_while_the_locks_were_waited_for_is_not_adopted(world: World) -> None:
    moving(world).later = {h: c for h, c in world.engine.containers.items() if c.launch.run == "one"}

    result = world.adopt()

    assert [record.run for record in result.adopted] == ["one"]
    assert {record.run for record in world.records()} == {"one"}


def test_what_came_meanwhile_is_told_and_left_for_the_next_time(world: World) -> None:
    everything = dict(world.engine.containers)
    world.engine.containers = {h: c for h, c in everything.items() if c.launch.run == "one"}
    moving(world).later = everything

    result = world.adopt()

    assert [record.run for record in result.adopted] == ["one"]
    assert [left.reason for left in result.left if "two/b" in left.what] == ["it came just now: adopt again"]
    assert [record.run for record in adopt(world.session(), None, dry_run=False).adopted] == ["two"]
