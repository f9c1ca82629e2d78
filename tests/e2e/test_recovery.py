"""`resume`, `adopt` and `instance: MIG-…` as a user types them; containers on a real engine."""

from __future__ import annotations

import os
import shutil
import signal
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from migctl.nvml.simstate import SimState
from tests.support.crashes import until
from tests.support.engines import reachable_engine
from tests.support.program import Program

PROCESSES = """\
name: night
runtime: process
oversubscribe: true
jobs:
  long: {profile: 2g.10gb, command: [sleep, "300"]}
  short: {profile: 1g.5gb, command: ["true"]}
"""
CONTAINERS = """\
name: NAME
oversubscribe: true
defaults: {image: "busybox:latest", network_mode: none, command: [sleep, "300"]}
jobs:
  one: {profile: 2g.10gb}
  two: {profile: 1g.5gb}
"""
LENT = """\
name: NAME
runtime: RUNTIME
oversubscribe: true
jobs:
  lent: {instance: UUID, image: "busybox:latest", network_mode: none, command: [sleep, "300"]}
"""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    made = Program(tmp_path)
    SimState.create(made.simulator, "a100-40gb")
    yield made
    made.clean()


@pytest.fixture
def engine() -> Iterator[Any]:
    with reachable_engine() as client:
        yield client


def reboot(program: Program) -> None:
    """The jobs' processes are gone, and the simulated machine has started again."""
    for job in program.jobs().values():
        if job["state"] == "running":
            with suppress(ProcessLookupError):
                os.kill(job["pid"], signal.SIGKILL)
    assert until(lambda: all(job["state"] != "running" for job in program.jobs().values()))
    with SimState.edit(program.simulator) as state:
        state.reboot()


def lent_instance(program: Program) -> str:
    """An administrator makes one; its MIG UUID."""
    with SimState.edit(program.simulator) as state:
        made = state.add_foreign_instance(0, "2g.10gb", 0)
        return made.compute[0].mig_uuid


def test_after_a_reboot_status_tells_and_resume_brings_back_what_had_not_finished(program: Program) -> None:
    program.plan(PROCESSES)
    program.up()
    assert until(lambda: program.jobs()["short"]["state"] == "succeeded")
    reboot(program)

    text = program.run("status", "night").ended(0).out
    assert "the machine was restarted since night was started" in " ".join(text.split())
    assert "try: migctl resume night" in text
    steps = program.run("resume", "--dry-run").ended(0).out
    assert "would do  long: make GPU instance 2g.10gb at " in steps
    assert "short" not in steps
    assert program.instances() == []

    program.run("resume").ended(0)

    jobs = program.jobs()
    assert {n: (j["state"], j["attempt"]) for n, j in jobs.items()} == {
        "long": ("running", 2),
        "short": ("succeeded", 1),
    }
    assert len(program.instances()) == 1
    program.run("down").ended(0)
    assert program.instances() == []


def test_a_run_without_a_plan_file_cannot_be_resumed_and_says_what_to_do(program: Program) -> None:
    program.run("run", "--name", "single", "-p", "1g.5gb", "--runtime", "process", "--", "sleep", "300").ended(0)
    reboot(program)

    done = program.run("resume", "single").ended(2)

    assert "the run single was made on the command line" in done.told
    assert "migctl down single, then the same migctl run again" in done.told


@pytest.mark.docker
def test_adopt_takes_back_containers_and_instances_after_the_records_were_lost(program: Program, engine: Any) -> None:
    name = f"adopt-{uuid.uuid4().hex[:8]}"
    program.plan(CONTAINERS.replace("NAME", name))
    program.up()
    before = program.jobs()
    with SimState.edit(program.simulator) as state:
        state.add_foreign_instance(0, "1g.5gb", 6)
    shutil.rmtree(program.state)
    assert program.jobs() == {}

    said = program.run("adopt", name, "--dry-run").ended(0).out
    assert said.count("would adopt: ") == 2
    assert program.jobs() == {}
    told = program.json("adopt", name)

    assert [(j["run"], j["job"], j["state"]) for j in told["adopted"]] == [
        (name, "one", "running"),
        (name, "two", "running"),
    ]
    kept = ("state", "container_id", "mig_uuid", "gi_id", "cpus", "num_workers", "placement")
    after = program.jobs()
    assert {n: [j[k] for k in kept] for n, j in after.items()} == {n: [j[k] for k in kept] for n, j in before.items()}
    assert "everything in the plan is there already" in program.run("up", "--dry-run").ended(0).out
    program.run("down", "--timeout", "0").ended(0)
    assert [i["start"] for i in program.instances()] == [6]
    assert engine.containers(all=True, filters={"label": f"io.migctl.run={name}"}) == []


@pytest.mark.parametrize("runtime", ["process", pytest.param("docker", marks=pytest.mark.docker)])
def test_a_job_on_an_administrators_instance(program: Program, runtime: str, request: pytest.FixtureRequest) -> None:
    client = request.getfixturevalue("engine") if runtime == "docker" else None
    device = lent_instance(program)
    there = program.instances()
    name = f"lent-{uuid.uuid4().hex[:8]}"
    program.plan(LENT.replace("NAME", name).replace("UUID", device).replace("RUNTIME", runtime))

    planned = program.run("plan").ended(0).out
    assert "2g.10gb at 0:2 (administrator's): used by lent" in planned
    program.up()

    job = program.jobs()["lent"]
    assert (job["state"], job["mig_uuid"], job["profile"]) == ("running", device, "2g.10gb")
    (instance,) = program.json("status")["gpus"][0]["instances"]
    assert instance["owner"] == "administrator's"
    assert program.instances() == there
    if client is not None:
        environment = client.inspect_container(job["container_id"])["Config"]["Env"]
        assert f"MIGCTL_MIG_UUID={device}" in environment
    program.run("status", "--check").ended(0)
    program.run("down", "--timeout", "0").ended(0)
    assert program.instances() == there
