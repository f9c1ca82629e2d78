"""Commands that only look, on a machine that kills whoever changes a GPU: they answer, and nothing anywhere has changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from migctl.nvml.simmodel import Fault
from migctl.nvml.simstate import SimState
from tests.support.program import Program

PLAN = """
name: night
runtime: process
oversubscribe: true
jobs:
  one: {profile: 1g.5gb, command: [sleep, "600"]}
  two: {profile: 2g.10gb, command: [sh, -c, "echo said"]}
"""
CHANGING = (
    "nvmlDeviceSetMigMode",
    "nvmlDeviceCreateGpuInstance",
    "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlGpuInstanceCreateComputeInstance",
    "nvmlComputeInstanceDestroy",
    "nvmlGpuInstanceDestroy",
)
READING = (
    "status",
    "status night --check --json",
    "ps",
    "check --runtime process",
    "plan",
    "plan --on a100-40gb",
    "up --dry-run",
    "mode disable --gpu 0 --dry-run",
    "resume --dry-run",
    "logs two",
    "history",
    "history night --json",
    "service status",
    "profiles",
    "workers",
)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    made = Program(tmp_path)
    made.plan(PLAN)
    made.up()
    made.run("wait", "two").ended(0)
    yield made
    with SimState.edit(made.simulator) as state:
        state.faults.clear()
    made.clean()


def everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Each file with when it was last written, and what is in it; the jobs' own logs grow."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".lock"
    }


def test_what_only_looks_changes_no_gpu_no_record_and_no_claim(program: Program) -> None:
    with SimState.edit(program.simulator) as state:
        state.faults = [Fault(call, "die", times=0) for call in CHANGING]
    before = everything(program.folder)

    for line in READING:
        done = program.run(*line.split())
        assert done.code in (0, 5), done  # 5: `mode` says that instances are in its way
        assert everything(program.folder) == before, done

    assert program.run("down", "--timeout", "0").code == -9, "the machine does kill whoever changes something"
