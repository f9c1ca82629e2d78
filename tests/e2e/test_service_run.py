"""The command that a service runs: it goes on with what nobody supervises any more."""

from __future__ import annotations

import json
import os
from pathlib import Path

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
