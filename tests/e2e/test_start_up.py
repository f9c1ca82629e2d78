"""What a command that only looks loads: the modules that plan, make and check are others' to wait for."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.program import Program

PLAN = "name: night\njobs: {one: {profile: 1g.5gb, command: [sleep, '600']}}\n"
LOADED = """
import contextlib, io, json, sys
from migctl.cli.app import run
with contextlib.redirect_stdout(io.StringIO()):
    code = run(sys.argv[1:])
print(json.dumps({"code": code, "loaded": sorted(sys.modules)}))
"""
LIBRARIES = {"typer", "pydantic", "yaml", "docker", "requests", "pynvml"}
PLANNING = {
    f"migctl.{name}"
    for name in ("planfile", "core.plan", "core.pool", "core.allocation", "core.judgement", "engine.decide")
}
MAKING = {
    f"migctl.{name}"
    for name in (
        "engine.converge",
        "runtimes.container_config",
        "runtimes.access",
        "runtimes.images",
        "runtimes.cdi_spec",
    )
}


@pytest.mark.parametrize(
    ("words", "spared"),
    [
        (("status",), LIBRARIES | PLANNING | MAKING),
        (("status", "night", "--json", "--check"), LIBRARIES | PLANNING | MAKING),
        (("logs",), LIBRARIES | PLANNING | MAKING),
        (("down",), LIBRARIES | {"migctl.planfile", "migctl.core.cpu.pool"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_command_loads_only_what_it_uses(program: Program, words: tuple[str, ...], spared: set[str]) -> None:
    program.plan("runtime: process\n" + PLAN)
    program.up()

    done = subprocess.run(
        [sys.executable, "-c", LOADED, *words],
        cwd=program.folder,
        env=program.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    seen = json.loads(done.stdout.splitlines()[-1])

    assert seen["code"] == 0
    assert spared & set(seen["loaded"]) == set()
