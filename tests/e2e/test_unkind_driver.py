"""The program over drivers as unkind as they may be: old, slow to let go, with other minors and other meanings of handles."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from migctl.nvml.simstate import SimState
from tests.support.program import Program
from tests.support.simulated_host import SimulatedHost

PLAN = """
name: one
runtime: process
jobs:
  a: {slices: 1, command: [sleep, "600"]}
  b: {slices: 2, command: [sleep, "600"]}
"""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    program = Program(tmp_path)
    program.plan(PLAN)
    yield program
    program.clean()


def unkind(program: Program, boards: str, **state: Any) -> None:
    machine = SimState.create(program.simulator, boards)
    vars(machine).update(state)
    machine.save(program.simulator)
    program.environ["MIGCTL_NVML"] = f"sim:{boards}"


# board and what is unkind about its driver
DRIVERS: list[tuple[str, dict[str, Any]]] = [
    ("a100-40gb", {"driver": "460.73.01"}),
    ("a30", {"driver": "460.73.01"}),
    ("a100-80gb", {"driver": "470.57.02", "release_lag_s": 0.1}),
    ("a100-40gb", {"driver": "535.183.01", "handles_reused": True}),
    ("h100-sxm5-80gb", {"handles_reused": True, "release_lag_s": 0.1}),
]


@pytest.mark.parametrize(("board", "state"), DRIVERS)
def test_jobs_come_up_and_leave_nothing(program: Program, board: str, state: dict[str, Any]) -> None:
    unkind(program, board, **state)
    program.run("up").ended(0)
    jobs = program.jobs()
    assert {job["state"] for job in jobs.values()} == {"running"}
    for job in jobs.values():
        environment = Path(f"/proc/{job['pid']}/environ").read_bytes().split(b"\0")
        assert f"CUDA_VISIBLE_DEVICES={job['mig_uuid']}".encode() in environment
    program.run("down", "--timeout", "0").ended(0)
    assert SimState.load(program.simulator).gpus[0].instances == []


def test_a_process_that_left_its_job_and_kept_the_device_is_named_by_down(program: Program) -> None:
    unkind(program, "a100-40gb")
    program.run("up").ended(0)
    job = program.jobs()["b"]
    with subprocess.Popen(["sleep", "600"], env={"CUDA_VISIBLE_DEVICES": job["mig_uuid"]}) as stray:
        refused = program.run("down", "--timeout", "0").ended(6)
        assert f"pid {stray.pid} of " in refused.told
        assert [i["gi_id"] for i in program.instances()] == [job["gi_id"]]
        stray.kill()
    program.run("down").ended(0)
    assert program.instances() == []


def test_after_a_mode_change_gave_the_gpu_another_minor_its_holders_are_found(program: Program) -> None:
    host = SimulatedHost(program.simulator, "a100-40gb:off")
    with SimState.edit(program.simulator) as state:
        state.minors_move = True
    program.run("up", "--enable-mig", "--nvml", "sim:a100-40gb:off").ended(0)
    job = program.jobs()["b"]
    assert not (host.devices / "nvidia0").exists()
    with host.holding(1, instance=job["gi_id"], name="jupyter") as holder:
        refused = program.run("down", "--timeout", "0").ended(6)
    assert f"pid {holder.pid} of " in refused.told
    assert "jupyter" in refused.told
    program.run("down").ended(0)


def test_a_killed_down_goes_on_where_instances_are_let_go_of_late(program: Program) -> None:
    unkind(program, "a100-40gb", release_lag_s=0.4)
    program.run("up").ended(0)
    process = program.start("down", "--timeout", "0")
    while len(SimState.load(program.simulator).let_go) < 2 and process.poll() is None:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    program.run("down").ended(0)
    assert SimState.load(program.simulator).gpus[0].instances == []
