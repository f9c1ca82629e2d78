"""Ctrl-C and SIGTERM while `up` waits for somebody: it ends at once, with 130 or 143, and leaves nothing."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import pytest

from migctl.host.lock import machine_lock
from migctl.nvml.codes import Code
from migctl.nvml.simstate import SimState
from tests.support.program import Program

PLAN = """
name: one
runtime: process
jobs:
  a: {profile: 1g.5gb, command: [sleep, "600"]}
"""
SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
SOON_S = 20.0


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    program = Program(tmp_path)
    program.plan(PLAN)
    yield program
    program.clean()


def ended(program: Program, waiting: Popen[str], number: signal.Signals) -> int:
    """The exit code after the signal, which comes soon, with nothing left."""
    began = time.monotonic()
    waiting.send_signal(number)
    _, err = waiting.communicate(timeout=60)
    assert time.monotonic() - began < SOON_S
    assert "Traceback" not in err
    assert "interrupted" in err
    assert program.json("status")["runs"] == []
    return waiting.returncode


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_the_waiting_for_another_migctl_ends(program: Program, number: signal.Signals, code: int) -> None:
    with machine_lock(program.claims, "machine"):
        waiting = program.start("up", "--wait-for", "60")
        while not has_open(waiting, program.claims / "machine.lock"):
            assert waiting.poll() is None
            time.sleep(0.02)

        assert ended(program, waiting, number) == code


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_the_waiting_for_a_holder_ends(program: Program, number: signal.Signals, code: int) -> None:
    SimState.create(program.simulator, "a100-40gb")
    with SimState.edit(program.simulator) as state:
        state.set_fault("nvmlDeviceCreateGpuInstanceWithPlacement", code=Code.IN_USE, times=0)
    waiting = program.start("up", "--wait-for", "600")
    while SimState.load(program.simulator).faults[0].seen == 0:
        assert waiting.poll() is None
        time.sleep(0.02)

    assert ended(program, waiting, number) == code
    assert program.instances() == []


def has_open(process: Popen[str], path: Path) -> bool:
    try:
        return any(fd.readlink() == path for fd in Path(f"/proc/{process.pid}/fd").iterdir())
    except OSError:
        return False
