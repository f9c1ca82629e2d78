"""Jobs with `snapshot: true` run what was there at `up`, whatever is edited since; and which code a job ran is recorded."""

from __future__ import annotations

import shutil
import subprocess
import time

import pytest

from tests.support.program import Program

PLAN = """name: snap
runtime: process
max_parallel: 1
defaults: {profile: 3g.20gb, command: [sh, train.sh]SNAPSHOT}
jobs: {a: {}, b: {}}
"""
SLOW = "echo old; while [ ! -e $GO ]; do sleep 0.05; done\n"


def test_a_job_that_waited_runs_the_source_of_the_up_and_a_restart_too(program: Program) -> None:
    program.environ["GO"] = str(program.folder / "go")
    program.plan(PLAN.replace("SNAPSHOT", ", snapshot: true"))
    (program.folder / "train.sh").write_text(SLOW)
    program.up()

    (program.folder / "train.sh").write_text("echo new\n")
    (program.folder / "go").touch()
    program.run("wait").ended(0)
    program.run("restart", "a").ended(0)
    program.run("wait").ended(0)

    assert {line.split("|")[-1].strip() for line in program.run("logs").ended(0).out.splitlines()} == {"old"}
    (copy,) = (program.state / "runs/snap/@source").iterdir()
    assert not (copy / "state").exists()
    program.run("down").ended(0)
    assert copy.exists()
    program.run("rm", "snap").ended(0)
    assert not copy.exists()


def test_a_replaced_job_runs_the_source_of_its_replacement_and_the_others_theirs(program: Program) -> None:
    program.environ["GO"] = str(program.folder / "go")
    program.plan(PLAN.replace("SNAPSHOT", ", snapshot: true").replace("max_parallel: 1\n", "oversubscribe: true\n"))
    (program.folder / "train.sh").write_text(SLOW)
    program.up()

    (program.folder / "train.sh").write_text("echo new\n")
    text = (program.folder / "plan.yaml").read_text()
    program.plan(text.replace("b: {}", "b: {environment: {A: 1}}"))
    program.up("--replace")
    (program.folder / "go").touch()
    program.run("wait").ended(0)

    assert program.run("logs", "a").ended(0).out == "old\n"
    assert program.run("logs", "b").ended(0).out == "new\n"


def test_a_source_that_is_too_large_is_refused_with_what_is_large_and_nothing_is_left(program: Program) -> None:
    program.plan(PLAN.replace("SNAPSHOT", ", snapshot: true"))
    (program.folder / "train.sh").write_text("echo old\n")
    with (program.folder / "weights.bin").open("wb") as large:
        large.truncate(2 << 30)

    refused = program.run("up").ended(2)

    assert "snapshot of job a would copy 2049 MiB" in refused.told
    assert "weights.bin 2048 MiB" in refused.told
    assert program.instances() == []
    assert list(program.state.rglob("@source/*")) == []


@pytest.mark.skipif(shutil.which("git") is None, reason="no git here")
def test_status_names_the_jobs_that_ran_other_code_than_the_first(program: Program) -> None:
    program.environ["GO"] = str(program.folder / "go")
    program.plan(PLAN.replace("SNAPSHOT", ""))
    (program.folder / "train.sh").write_text(SLOW)
    named = ["git", "-c", "user.name=kim", "-c", "user.email=kim@example.org"]
    for words in (["init", "-q"], ["add", "train.sh"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*named, *words], cwd=program.folder, check=True)
    program.up()
    deadline = time.monotonic() + 20
    while program.jobs()["a"]["code"] is None and time.monotonic() < deadline:
        time.sleep(0.1)

    (program.folder / "train.sh").write_text("echo new\n")
    (program.folder / "go").touch()
    program.run("wait").ended(0)

    jobs = program.jobs()
    assert (jobs["a"]["code"]["dirty"], jobs["b"]["code"]["dirty"]) == (False, True)
    assert jobs["a"]["code"]["commit"] == jobs["b"]["code"]["commit"]
    (warning,) = [one for one in program.json("status")["warnings"] if one["id"] == "other-code"]
    assert "b: " in warning["message"]
