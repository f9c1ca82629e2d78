"""A second `up`: what it says of jobs that ended badly, that it runs again, replaces or takes out."""

from __future__ import annotations

import os
import signal

from migctl.runtimes import proc
from tests.support.program import Program

PLAN = """\
name: again
runtime: process
oversubscribe: true
defaults: {profile: 1g.5gb, stop_grace_period: 1s, command: [sleep, "600"]}
jobs: {a: {}, b: {command: [sh, -c, "exit 3"]}}
"""
ONE_LEFT = PLAN.replace(', b: {command: [sh, -c, "exit 3"]}', "")


def test_a_failed_job_is_named_with_its_reason_and_what_runs_it_again(program: Program) -> None:
    program.plan(PLAN)
    program.up()
    program.run("wait", "b").ended(8)
    again = program.up()

    assert "nothing started; not run again: b (failed)" in again.out
    assert "b failed (exit code 3)" in again.out
    assert "migctl up --retry runs it again" in again.out
    assert "nothing started; not run again: b (failed)" in program.up("-q").out


def test_what_retry_runs_again_is_not_called_left_alone(program: Program) -> None:
    program.plan(PLAN)
    program.up()
    program.run("wait", "b").ended(8)
    again = program.up("--retry")

    assert "1 job started" in again.out
    assert "left as they are: a\n" in again.out
    program.run("wait", "b").ended(8)
    answer = program.json("up", "--retry")
    assert (answer["started"], answer["kept"], answer["taken_out"]) == (["b"], ["a"], [])


def test_replacing_says_which_job_it_removed(program: Program) -> None:
    program.plan(PLAN)
    program.up()
    program.plan(ONE_LEFT)

    would = program.run("up", "--replace", "--dry-run").ended(0)
    assert "b: remove its process" in would.out
    assert "container" not in would.out
    assert "again: 1 job removed" in program.up("--replace", "-q").out
    assert list(program.jobs()) == ["a"]


def test_the_way_back_from_a_lost_job_is_the_command_that_runs_it_again(program: Program) -> None:
    program.plan(ONE_LEFT)
    program.up()
    job = program.jobs()["a"]["pid"]
    supervisor = proc.parent(job)
    assert supervisor is not None
    os.kill(supervisor, signal.SIGKILL)
    os.kill(job, signal.SIGKILL)

    assert "migctl resume again runs what is lost again" in program.run("status", "--check").ended(7).told
    program.run("resume", "again").ended(0)
    assert program.jobs()["a"]["state"] == "running"
