"""Commands that only look on: hang-ups, logs as JSON, and several jobs' lines on one terminal."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.program import Program

SLEEPERS = """\
name: night
runtime: process
oversubscribe: true
defaults: {profile: 1g.5gb, stop_grace_period: 1s, command: [sleep, "600"]}
jobs: {a: {}, b: {}}
"""
TALKERS = """\
name: talk
runtime: process
oversubscribe: true
defaults: {profile: 1g.5gb}
jobs:
  a: {command: [printf, 'one\\ntwo\\rTWO\\033[2J\\n']}
  b: {command: [printf, 'three\\n']}
"""


@pytest.mark.parametrize("words", [("up", "--wait"), ("wait",), ("logs", "-f")], ids=" ".join)
def test_a_hang_up_detaches_and_says_so(program: Program, words: tuple[str, ...]) -> None:
    program.plan(SLEEPERS)
    program.up()
    with program.start(*words) as looking:
        deadline = time.monotonic() + 30
        while not catches(looking.pid, signal.SIGHUP) and time.monotonic() < deadline:
            time.sleep(0.05)
        looking.send_signal(signal.SIGHUP)
        _, err = looking.communicate(timeout=30)

    assert looking.returncode == 129
    assert "detached; the jobs go on" in err
    assert {job["state"] for job in program.jobs().values()} == {"running"}


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler of its own for this signal."""
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    (mask,) = (line.split()[1] for line in lines if line.startswith("SigCgt:"))
    return bool(int(mask, 16) >> (number - 1) & 1)


def test_a_hang_up_ends_what_runs_attached_and_removes_it(program: Program) -> None:
    with program.start("run", "-i", "--profile", "1g.5gb", "--name", "mine", "--", "sleep", "600") as attached:
        deadline = time.monotonic() + 30
        while not catches(attached.pid, signal.SIGHUP) and time.monotonic() < deadline:
            time.sleep(0.05)
        attached.send_signal(signal.SIGHUP)
        attached.communicate(timeout=30)

    assert attached.returncode == 129
    assert program.jobs() == {}
    assert program.instances() == []


def test_logs_as_one_object_have_the_lines_of_each_job(program: Program) -> None:
    program.plan(TALKERS)
    program.run("up", "--wait").ended(0)

    assert program.json("logs") == {
        "version": 1,
        "run": "talk",
        "jobs": [{"name": "a", "lines": ["one", "two\rTWO\x1b[2J"]}, {"name": "b", "lines": ["three"]}],
    }
    assert [job["name"] for job in program.json("logs", "b", "--tail", "1")["jobs"]] == ["b"]


@pytest.mark.parametrize(
    "words", [("logs", "-f", "--json"), ("run", "-i", "--json", "--", "true")], ids=lambda words: " ".join(words)
)
def test_what_streams_is_no_object(program: Program, words: tuple[str, ...]) -> None:
    program.plan(TALKERS)
    refused = program.run(*words).ended(2)

    assert '"id": "usage"' in refused.out
    assert program.instances() == []


def test_on_a_terminal_lines_of_several_jobs_are_tamed_and_those_of_one_are_not(program: Program) -> None:
    program.plan(TALKERS)
    program.run("up", "--wait").ended(0)

    both = on_terminal(program, "logs")
    assert "a | TWO\r\n" in both
    assert "\x1b" not in both
    assert "two\rTWO\x1b[2J" in on_terminal(program, "logs", "a")


def on_terminal(program: Program, *words: str) -> str:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "migctl", *words],
        cwd=program.folder,
        env=program.environ,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:
                break  # Linux says EIO once the other side is closed
            if not piece:
                break
            said += piece
    os.close(ours)
    assert process.returncode == 0
    return said.decode()
