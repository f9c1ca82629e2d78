"""Instances that somebody holds: `down` and `up --replace` name who it is, wait when told to, and lose nothing of their work."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import pytest

from migctl.nvml.codes import Code
from migctl.nvml.simdevices import gpu_node
from migctl.nvml.simstate import SimState
from tests.support.program import Program
from tests.support.simulated_host import SimulatedHost

PLAN = """
name: two
runtime: process
jobs:
  a: {profile: 1g.5gb, command: [sleep, "600"]}
  b: {profile: 2g.10gb, command: [sleep, "600"]}
"""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    program = Program(tmp_path)
    yield program
    program.clean()


@pytest.fixture
def host(program: Program) -> SimulatedHost:
    host = SimulatedHost(program.simulator, "a100-40gb")
    program.plan(PLAN)
    program.up()
    return host


def instance_of(program: Program, job: str) -> int:
    found: int = program.jobs()[job]["gi_id"]
    return found


def opened(pid: int, host: SimulatedHost) -> list[str]:
    links = [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()]
    return [link for link in links if link.startswith(str(host.devices / "nvidia"))]


def test_down_names_who_holds_the_instance_and_everything_else_is_gone(program: Program, host: SimulatedHost) -> None:
    with host.holding(instance=instance_of(program, "b"), name="jupyter") as holder:
        refused = program.run("down", "--timeout", "0").ended(6)
        left = program.instances()

    assert f"pid {holder.pid} of " in refused.told
    assert "jupyter" in refused.told
    assert "then migctl down two" in refused.told
    assert [i["gi_id"] for i in left] == [instance_of(program, "b")]

    program.run("down").ended(0)
    assert program.instances() == []


def test_each_instance_is_blamed_on_its_own_holder(program: Program, host: SimulatedHost) -> None:
    with (
        host.holding(instance=instance_of(program, "a"), name="innocent"),
        host.holding(instance=instance_of(program, "b"), name="jupyter"),
    ):
        told = program.run("down", "--timeout", "0").ended(6).told

    of_a, of_b = (told.partition(f"{job}: removing compute")[2].partition(": removing compute")[0] for job in "ab")
    assert ("innocent" in of_a, "jupyter" in of_a) == (True, False)
    assert ("innocent" in of_b, "jupyter" in of_b) == (False, True)


def test_down_waits_for_the_holder_and_keeps_no_gpu_open_meanwhile(program: Program, host: SimulatedHost) -> None:
    with host.holding(instance=instance_of(program, "b"), name="jupyter") as holder:
        waiting: Popen[str] = program.start("down", "--timeout", "0", "--wait-for", "60")
        assert waiting.stderr is not None
        said = ""
        while "waiting up to" not in said:
            line = waiting.stderr.readline()
            assert line, said
            said += line
        time.sleep(0.3)
        open_now = {tuple(opened(waiting.pid, host)) for _ in range(20) if time.sleep(0.02) is None}
        holder.kill()
        holder.wait()
        _, err = waiting.communicate(timeout=60)

    assert waiting.returncode == 0, err
    assert "jupyter" in said
    assert () in open_now
    assert program.instances() == []


def test_the_moment_that_a_driver_needs_after_a_stop_is_no_error(program: Program, host: SimulatedHost) -> None:
    with SimState.edit(host.state) as state:
        state.set_fault("nvmlComputeInstanceDestroy", code=Code.IN_USE, times=4)

    program.run("down", "--timeout", "0").ended(0)

    assert program.instances() == []


def test_where_nobody_is_found_that_is_said_and_what_is_known_to_help(program: Program, host: SimulatedHost) -> None:
    with SimState.edit(host.state) as state:
        state.set_fault("nvmlGpuInstanceDestroy", code=Code.IN_USE, times=0)

    told = program.run("down", "--timeout", "0").ended(6).told

    assert "no process that holds it was found" in told
    assert "restarting nvidia-dcgm is known to help" in told
    with SimState.edit(host.state) as state:
        state.faults.clear()


def test_a_creation_that_is_refused_as_in_use_names_the_holder_and_undoes_everything(tmp_path: Path) -> None:
    program = Program(tmp_path)
    host = SimulatedHost(program.simulator, "a100-40gb")
    program.plan(PLAN)
    with SimState.edit(host.state) as state:
        state.set_fault("nvmlDeviceCreateGpuInstanceWithPlacement", code=Code.IN_USE, times=0)

    with host.holding(name="nsys") as holder:
        refused = program.run("up", "--json").ended(5)

    errors = json.loads(refused.out)["errors"]
    assert {e["id"] for e in errors} == {"gpu-in-use"}
    assert f"pid {holder.pid}" in errors[0]["message"]
    assert program.instances() == []


def test_while_jobs_run_no_process_of_migctl_has_a_gpu_open(program: Program, host: SimulatedHost) -> None:
    nodes = {str(path) for path in (gpu_node(host.devices, 0), *(host.devices / "nvidia-caps").iterdir())}
    waiting = program.start("wait")
    time.sleep(1.5)
    try:
        openers = []
        for process in Path("/proc").iterdir():
            if not process.name.isdigit():
                continue
            try:
                if any(os.readlink(fd) in nodes for fd in (process / "fd").iterdir()):  # noqa: PTH115 -- quicker
                    openers.append((process / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
    finally:
        waiting.terminate()
        waiting.communicate()

    assert openers == []
