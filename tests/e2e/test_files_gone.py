"""Jobs whose files in the state directory are gone: they are found by pid and start time, shown as running, and ended by `down`."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace

import pytest

from migctl.core.runs.record import Record
from migctl.runtimes import proc
from migctl.runtimes.bare import with_bare
from tests.support.program import Program

PLAN = """\
name: long
runtime: process
oversubscribe: true
defaults: {profile: 1g.5gb, stop_grace_period: 1s, command: [sleep, "600"]}
jobs: {a: {}, b: {}}
"""


def everything(program: Program) -> None:
    shutil.rmtree(program.state / "runs")


def the_attempts(program: Program) -> None:
    for attempt in (program.state / "runs/long").glob("*/1"):
        shutil.rmtree(attempt)


def the_start_records(program: Program) -> None:
    for record in (program.state / "runs/long").glob("*/1/launch.json"):
        record.unlink()


WAYS: list[Callable[[Program], None]] = [everything, the_attempts, the_start_records]


def pids(program: Program) -> list[int]:
    return [job["pid"] for job in program.jobs().values()]


def alive(these: list[int]) -> list[int]:
    return [pid for pid in these if proc.is_alive(pid, None)]


@pytest.mark.parametrize("lose", WAYS)
def test_they_run_on_and_down_ends_them_before_their_instances_go(
    program: Program, lose: Callable[[Program], None]
) -> None:
    program.plan(PLAN)
    program.up()
    there = pids(program)
    lose(program)

    assert {job["state"] for job in program.jobs().values()} == {"running"}
    assert "its files in the state directory are gone" in program.run("status", "--check").ended(7).told
    program.run("down", "long").ended(0)
    assert alive(there) == []
    assert program.instances() == []
    assert program.jobs() == {}


def test_up_with_retry_starts_no_second_copy_beside_them(program: Program) -> None:
    program.plan(PLAN)
    program.up()
    there = pids(program)
    everything(program)

    program.up("--retry")
    assert pids(program) == there
    assert len(program.instances()) == 2


def test_stop_and_wait_know_them_too(program: Program) -> None:
    program.plan(PLAN)
    program.up()
    there = pids(program)
    everything(program)

    program.run("wait", "--timeout", "0.2").ended(5)
    program.run("logs", "a").ended(4)
    program.run("stop", "a").ended(0)
    assert alive(there) == there[1:]
    os.kill(there[1], signal.SIGKILL)
    program.run("wait").ended(8)
    assert {name: job["state"] for name, job in program.jobs().items()} == {"a": "stopped", "b": "lost"}


def test_where_the_supervisor_is_dead_as_well_all_of_the_job_is_ended(program: Program) -> None:
    program.plan(PLAN.replace('[sleep, "600"]', "[sh, -c, 'sleep 601 & sleep 602; :']").replace(", b: {}", ""))
    program.up()
    (job,) = pids(program)
    supervisor = proc.parent(job)
    assert supervisor is not None
    os.kill(supervisor, signal.SIGKILL)
    everything(program)
    below = proc.descendants(job)

    program.run("down").ended(0)
    assert len(below) == 2
    assert alive([job, *below]) == []


def test_a_pid_that_is_another_process_by_now_is_nobody_of_ours() -> None:
    ticks = proc.start_ticks(os.getpid())
    assert ticks is not None
    ours = Record(
        run="r",
        job="j",
        token="t",
        runtime="process",
        strategy="mig",
        digest="",
        spec="",
        boot_id="now",
        pid=os.getpid(),
    )
    cases = {
        "the same": (replace(ours, pid_start=ticks), 1),
        "another process with its pid": (replace(ours, pid_start=ticks - 1), 0),
        "of another boot": (replace(ours, pid_start=ticks, boot_id="before"), 0),
        "a container": (replace(ours, pid_start=ticks, runtime="docker"), 0),
    }

    assert {name: len(with_bare([], [record], "now")) for name, (record, _) in cases.items()} == {
        name: count for name, (_, count) in cases.items()
    }


def test_one_that_ended_unseen_is_lost_and_its_instance_goes(program: Program) -> None:
    program.plan(PLAN.replace(", b: {}", ""))
    program.up()
    (job,) = pids(program)
    everything(program)
    os.kill(job, signal.SIGKILL)
    program.run("wait").ended(8)

    assert [job["state"] for job in program.jobs().values()] == ["lost"]
    program.run("down").ended(0)
    assert program.instances() == []
