"""Waiting for jobs and looking on: what ends it, what it says, and with which exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from migctl.nvml.simstate import SimState
from tests.support.program import Program

SLEEPER = "name: night\nruntime: process\njobs: {one: {profile: 1g.5gb, command: [sleep, '600']}}\n"
FAILS = "name: night\nruntime: process\njobs: {one: {profile: 1g.5gb, command: [sh, -c, 'exit 3']}}\n"
TALKS = "name: night\nruntime: process\njobs: {one: {profile: 1g.5gb, command: [sh, -c, 'echo here; sleep 0.5']}}\n"


def test_wait_with_a_timeout_says_that_the_job_goes_on(program: Program) -> None:
    program.plan(SLEEPER)
    program.up()

    waited = program.run("wait", "--timeout", "0.3").ended(5)

    assert "still running after 0.3 s: one" in waited.err
    assert program.jobs()["one"]["state"] == "running"


def test_wait_and_logs_do_without_the_driver(program: Program) -> None:
    program.plan(TALKS)
    program.up()

    waited = program.run("wait", MIGCTL_NVML="").ended(0)
    shown = program.run("logs", MIGCTL_NVML="").ended(0)

    assert waited.out == "one: succeeded (exit code 0)\n"
    assert shown.out == "here\n"


def test_a_failed_job_leaves_one_json_object(program: Program) -> None:
    program.plan(FAILS)

    up = program.run("up", "--wait", "--json").ended(8)
    waited = program.run("wait", "--json").ended(8)

    for done in (up, waited):
        assert [error["id"] for error in json.loads(done.out)["errors"]] == ["jobs-failed"]
    assert json.loads(waited.out)["jobs"] == [{"name": "one", "state": "failed", "exit_code": 3}]
    assert json.loads(up.out)["runs"][0]["jobs"][0]["exit_code"] == 3


def test_drift_is_told_in_the_object_of_status(program: Program) -> None:
    program.plan(SLEEPER)
    program.up()
    with SimState.edit(program.simulator) as state:
        state.gpus[0].instances.clear()

    value = json.loads(program.run("status", "--check", "--json").ended(7).out)

    assert value["runs"][0]["name"] == "night"
    assert [error["id"] for error in value["errors"]] == ["drift"]


def test_logs_of_attached_jobs_are_no_json(program: Program) -> None:
    program.plan(SLEEPER)

    refused = program.run("up", "--attach", "--json").ended(2)

    assert json.loads(refused.out)["errors"][0]["hint"] == "migctl up --wait --json"
    assert not program.state.exists()


def test_nobody_reading_progress_leaves_nothing_half_done(program: Program) -> None:
    program.plan(SLEEPER)
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen(
        [sys.executable, "-m", "migctl", "up", "-v"],
        cwd=program.folder,
        env=program.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=writer,
    )
    os.close(writer)

    assert process.wait(60) == 0
    assert program.jobs()["one"]["state"] == "running"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_an_attached_run_ends_and_removes_the_job(program: Program, number: signal.Signals) -> None:
    process = program.start("run", "-i", "-p", "1g.5gb", "--", "sh", "-c", "echo here; sleep 600")
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"

    process.send_signal(number)
    _, said = process.communicate(timeout=30)

    assert process.returncode == 128 + number
    assert "is ended and removed" in said
    assert "go on" not in said
    assert program.json("status")["runs"] == []
