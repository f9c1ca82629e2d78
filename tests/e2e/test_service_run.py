"""The command that a service runs: it goes on with what nobody supervises any more."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from migctl.nvml.simstate import SimState
from tests.support.crashes import until
from tests.support.program import Program
from tests.support.systemctl import Machine


def test_the_service_goes_on_with_what_waits_and_ends_when_nothing_is_left(program: Program) -> None:
    home = program.folder / "machine"
    home.mkdir()
    machine = Machine(home)
    program.environ |= {name: machine.environ[name] for name in ("PATH", "HOME", "XDG_CONFIG_HOME", "SYSTEMCTL_LOG")}
    program.plan(
        "name: turns\nruntime: process\nmax_parallel: 1\n"
        "jobs: {a: {profile: 1g.5gb, replicas: 2, command: [sleep, '1']}}\n"
    )
    installed = json.loads(program.run("service", "install", "--user", "--json").ended(0).out)
    program.up()
    supervisor = int((program.state / "supervisor.log").read_text().split("pid ")[1].split()[0])
    os.kill(supervisor, 9)

    program.run("service", "run").ended(0)

    assert installed["installed"] == "user"
    assert Path(installed["path"]) == home / "home/.config/systemd/user/migctl.service"
    assert {job["state"] for job in program.jobs().values()} == {"succeeded"}
    assert program.json("service", "status")["enabled"] == "enabled"
    assert program.run("service", "uninstall").ended(0).out == "removed; a supervisor that runs goes on\n"
    assert program.json("service", "status")["installed"] is None


@pytest.mark.parametrize("mode", ["resume", "hold"])
def test_after_a_restart_of_the_machine_it_resumes_or_holds_as_the_plan_says(program: Program, mode: str) -> None:
    program.environ["GO"] = str(program.folder / "go")
    program.plan(
        f"name: turns\nruntime: process\nmax_parallel: 1\non_reboot: {mode}\n"
        "defaults: {profile: 1g.5gb, command: [sh, -c, 'while [ ! -e $GO ]; do sleep 0.05; done']}\n"
        f"jobs: {{a: {{resumable: {'true' if mode == 'resume' else 'false'}}}, b: {{}}}}\n"
    )
    program.up()
    supervisor = int((program.state / "supervisor.log").read_text().split("pid ")[1].split()[0])
    os.kill(supervisor, signal.SIGKILL)
    os.kill(program.jobs()["a"]["pid"], signal.SIGKILL)
    assert until(lambda: program.jobs()["a"]["state"] != "running")
    with SimState.edit(program.simulator) as state:
        state.reboot()
    (program.folder / "go").touch()

    with program.start("service", "run") as service:
        if mode == "resume":
            assert service.wait(60) == 0
        else:
            assert until(lambda: "(on_reboot: hold)" in str(program.json("status")["warnings"]))
            service.terminate()

    found = {name: (job["state"], job["attempt"]) for name, job in program.jobs().items()}
    expected = ("succeeded", 2) if mode == "resume" else ("lost", 1)
    assert found == {"a": expected, "b": ("succeeded" if mode == "resume" else "queued", 1)}
