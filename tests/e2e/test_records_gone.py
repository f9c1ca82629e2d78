"""With the whole state directory gone, process jobs are named, not started a second time, and taken over by what they carry."""

from __future__ import annotations

import json
import os
import shutil
import signal

import pytest

from migctl.runtimes import proc
from tests.support.program import Program

PLAN = """\
name: long
runtime: process
oversubscribe: true
defaults: {profile: 1g.5gb, stop_grace_period: 1s, command: [sleep, "600"]}
jobs: {a: {}, b: {environment: {SECRET: hunter2}}}
"""


@pytest.fixture
def pids(program: Program) -> list[int]:
    """Of the jobs that run; the program knows nothing of them any more."""
    program.plan(PLAN)
    program.up()
    there = [job["pid"] for job in program.jobs().values()]
    shutil.rmtree(program.state)
    return there


def alive(these: list[int]) -> list[int]:
    return [pid for pid in these if proc.is_alive(pid, None)]


def ended(program: Program, these: list[int]) -> None:
    """What a test leaves that no `down` finds."""
    for pid in alive(these):
        os.kill(pid, signal.SIGKILL)


def test_they_are_named_with_what_to_do_and_up_starts_no_second_copy(program: Program, pids: list[int]) -> None:
    told = {
        job: f"a process of run long, job {job} runs without a record (pid {pid})"
        for job, pid in zip("ab", pids, strict=True)
    }

    status = program.run("status").ended(0)
    assert all(text in " ".join((status.out + status.err).split()) for text in told.values())
    assert f"migctl adopt takes it over; kill {pids[0]} ends it" in " ".join((status.out + status.err).split())
    findings = [
        (f["level"], f["message"]) for f in program.json("check")["findings"] if f["id"] == "unrecorded-process"
    ]
    assert findings[:2] == [("warning", text) for text in told.values()]
    assert "they are not started a second time" in findings[2][1]
    up = program.run("up").ended(5)
    assert f"a (pid {pids[0]}), b (pid {pids[1]})" in up.told
    assert "migctl adopt" in up.told
    assert alive(pids) == pids
    assert program.jobs() == {}
    ended(program, pids)
    assert "without a record" not in program.run("status").out


def test_adopt_takes_them_over_and_everything_knows_them_again(program: Program, pids: list[int]) -> None:
    planned = program.json("adopt", "--dry-run")
    assert not program.state.exists()
    adopted = program.json("adopt")

    assert planned["adopted"] == adopted["adopted"]
    assert [(job["job"], job["state"], job["pid"], job["container_id"]) for job in adopted["adopted"]] == [
        (name, "running", pid, None) for name, pid in zip("ab", pids, strict=True)
    ]
    assert program.run("status").ended(0).out.count("without a record") == 0
    assert {name: job["pid"] for name, job in program.jobs().items()} == dict(zip("ab", pids, strict=True))
    assert all(job["started_at"] for job in program.jobs().values())
    program.up()
    assert alive(pids) == pids
    program.run("stop", "a").ended(0)
    assert alive(pids) == pids[1:]
    program.run("down", "long").ended(0)
    assert alive(pids) == []
    assert program.instances() == []
    assert list(program.claims.glob("*.json")) == []


def test_one_whose_supervisor_is_dead_too_is_named_by_what_it_was_handed(program: Program, pids: list[int]) -> None:
    supervisors = [proc.parent(pid) for pid in pids]
    for supervisor in supervisors:
        assert supervisor is not None
        os.kill(supervisor, signal.SIGKILL)

    status = program.run("status").ended(0)
    assert f"job b runs without a record (pid {pids[1]})" in " ".join((status.out + status.err).split())
    assert f"kill {pids[1]} ends it; too little is known" in " ".join((status.out + status.err).split())
    program.run("up").ended(5)
    left = program.json("adopt", "--dry-run")["left"]
    assert [one["what"] for one in left[:2]] == [
        f"process {pid} (long/{job})" for job, pid in zip("ab", pids, strict=True)
    ]
    ended(program, pids)


def test_what_another_state_directory_knows_is_not_named_and_what_is_carried_tells_no_secret(program: Program) -> None:
    program.plan(PLAN)
    program.up()

    elsewhere = str(program.folder / "elsewhere")
    status = program.run("status", MIGCTL_STATE_DIR=elsewhere).ended(0)

    assert "without a record" not in status.out + status.err
    assert "long/" not in str(program.run("adopt", MIGCTL_STATE_DIR=elsewhere).ended(4))
    # Neither does what a supervisor carries tell a value of the environment, nor does it reach the job.
    (job,) = [job for name, job in program.jobs().items() if name == "b"]
    supervisor = proc.parent(job["pid"])
    assert supervisor is not None

    carried = json.loads(proc.environ(supervisor)["MIGCTL_UNIT"])

    assert carried["io.migctl.job"] == "b"
    assert "hunter2" not in json.dumps(carried)
    assert "MIGCTL_UNIT" not in proc.environ(job["pid"])
    assert "long/b" in proc.words(supervisor)
