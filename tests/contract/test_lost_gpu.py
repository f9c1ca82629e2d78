"""A running job whose container lost its GPU: marked as that, with what to do, and drift for `status --check`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from migctl.core.runs.record import JobState
from migctl.engine.status import status
from migctl.engine.upoptions import UpOptions
from tests.support.fake_engine import EngineFault
from tests.support.world import World

SYMPTOM = "Failed to initialize NVML: Unknown Error"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, "a100-40gb")
    yield made
    made.settle()
    made.down("one")
    made.check_gone()


def test_status_says_which_job_it_is_why_and_that_only_a_new_container_helps(world: World) -> None:
    world.up(world.plan("one", {"a": "1g.10gb", "b": "1g.10gb"}), UpOptions())
    world.engine.lost = {"a": SYMPTOM}

    shown = status(world.session(), None)

    jobs = {job.name: (job.state, job.reason) for job in shown.runs[0].jobs}
    assert jobs == {"a": (JobState.RUNNING, f"lost its GPU: {SYMPTOM}"), "b": (JobState.RUNNING, None)}
    (line,) = shown.drift
    assert line.startswith(f"one/a: lost its GPU: {SYMPTOM}")
    assert "`migctl restart one/a`" in line


def test_a_job_that_has_ended_has_no_gpu_to_lose(world: World) -> None:
    world.up(world.plan("one", {"a": "1g.10gb"}), UpOptions())
    world.engine.lost = {"a": SYMPTOM}
    world.engine.end(world.engine.running()[0], 0)

    assert status(world.session(), None).drift == ()


def test_an_engine_that_does_not_answer_is_told_once(world: World) -> None:
    world.up(world.plan("one", {"a": "1g.10gb"}), UpOptions())
    world.engine.lost = {"a": SYMPTOM}
    world.engine.fault = EngineFault("units", 1, after=False)

    shown = status(world.session(), None)

    assert [notice.id for notice in shown.notices] == ["engine-trouble"]
    assert shown.drift == ()
