"""One GPU of several that falls off its bus leaves the jobs on the others alone."""

from __future__ import annotations

import time

import pytest

from migctl.nvml.simstate import SimState
from tests.support.program import Program

SPREAD = """\
name: night
runtime: process
oversubscribe: true
jobs:
  here: {profile: 2g.10gb, gpu: 0, command: [sleep, "600"]}
  there: {profile: 2g.10gb, gpu: 1, command: [sleep, "600"]}
"""


def lose(program: Program, gpu: int, lost: bool = True) -> None:
    with SimState.edit(program.simulator) as state:
        state.gpus[gpu].lost = lost


@pytest.fixture
def spread(program: Program) -> Program:
    program.environ["MIGCTL_NVML"] = "sim:a100-40gbx2"
    program.plan(SPREAD)
    program.up()
    return program


def test_status_shows_the_other_gpu_and_says_what_is_missing(spread: Program) -> None:
    lose(spread, 1)
    seen = spread.json("status")

    assert [gpu["index"] for gpu in seen["gpus"]] == [0]
    assert {job["name"]: job["state"] for run in seen["runs"] for job in run["jobs"]} == {
        "here": "running",
        "there": "running",
    }
    assert "does not answer on its bus" in " ".join(spread.run("status").ended(0).out.split())


def test_a_plan_for_the_other_gpu_comes_up_and_goes_down(program: Program) -> None:
    program.environ["MIGCTL_NVML"] = "sim:a100-40gbx2"
    program.plan(
        "".join(line for line in SPREAD.splitlines(keepends=True) if "here: " not in line or "there: " in line)
    )
    program.up()
    lose(program, 1)
    day = program.plan(SPREAD.replace("night", "day").split("  there:")[0], "day.yaml")
    program.up(str(day))

    assert {name: job["state"] for name, job in program.jobs().items()} == {"there": "running", "here": "running"}
    program.run("down", "day").ended(0)
    assert program.instances(0) == []
    assert len(program.instances(1)) == 1
    assert program.jobs()["there"]["state"] == "running"


def test_down_ends_what_it_can_reach_names_the_rest_and_ends_it_later(spread: Program) -> None:
    lose(spread, 1)
    partly = spread.run("down", "--timeout", "0").ended(6)

    assert "there" in partly.told
    assert "migctl down night" in partly.told
    assert spread.instances(0) == []
    lose(spread, 1, lost=False)
    spread.run("down").ended(0)
    assert spread.instances(1) == []
    assert list(spread.claims.glob("*.json")) == []


def test_where_one_gpu_refuses_during_up_what_ran_on_the_others_goes_on(program: Program) -> None:
    program.environ["MIGCTL_NVML"] = "sim:a100-40gbx2"
    program.plan(SPREAD.replace("  there:", "  x-there:").split("  x-there:")[0])
    program.up()
    program.plan(SPREAD)
    with SimState.edit(program.simulator) as state:
        state.set_fault("nvmlDeviceCreateGpuInstanceWithPlacement", code=999, gpu=1)
    program.run("up").ended(4)

    assert {name: job["state"] for name, job in program.jobs().items()} == {"here": "running"}
    assert program.instances(1) == []
    program.up()
    assert {name: job["state"] for name, job in program.jobs().items()} == {"here": "running", "there": "running"}


def test_up_and_plan_say_which_gpu_is_left_out(program: Program) -> None:
    program.environ["MIGCTL_NVML"] = "sim:a100-40gbx2"
    SimState.create(program.simulator, "a100-40gbx2")
    lose(program, 1)
    day = program.plan(
        "name: day\nruntime: process\noversubscribe: true\ngpu: 0\njobs: {c: {profile: 1g.5gb, command: [sleep, '600']}}\n",
        "day.yaml",
    )

    for words in (("plan", str(day)), ("up", str(day))):
        said = " ".join(program.run(*words).ended(0).out.split())
        assert "does not answer on its bus any more" in said
        assert "this GPU is left out" in said


def test_a_plan_for_the_lost_gpu_is_told_what_the_driver_says(spread: Program) -> None:
    lose(spread, 1)
    there = spread.plan(
        "runtime: process\ngpu: 1\njobs: {c: {profile: 1g.5gb, command: [sleep, '600']}}\n", "there.yaml"
    )

    assert "GPU_IS_LOST" in spread.run("up", str(there)).ended(4).told
    assert "GPU_IS_LOST" in spread.run("plan", str(there)).ended(4).told


def test_where_all_are_lost_nobody_says_that_there_is_none(spread: Program) -> None:
    lose(spread, 0)
    lose(spread, 1)
    refused = spread.run("up").ended(4)

    assert "GPU_IS_LOST" in refused.told
    assert "no GPU" not in refused.told


def test_a_gpu_that_hangs_is_named_and_the_other_is_shown(program: Program) -> None:
    program.environ["MIGCTL_NVML"] = "sim:a100-40gbx2"
    state = SimState.create(program.simulator, "a100-40gbx2")
    state.set_fault("nvmlDeviceGetMigMode", effect="hang", gpu=1, times=0)
    state.save(program.simulator)
    began = time.monotonic()

    both = [program.start(*words) for words in (["status"], ["check", "--runtime", "process"])]
    status, check = (process.communicate(timeout=60)[0] for process in both)

    assert time.monotonic() - began < 30, "ten seconds of patience, two starts at once, on a machine that may be busy"
    assert "GPU 1 does not answer" in " ".join(status.split())
    assert "GPU 1 does not answer" in " ".join(check.split())
    assert "GPU 0  NVIDIA A100" in status
    assert [process.returncode for process in both] == [0, 4]
