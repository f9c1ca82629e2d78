"""`status` compares where a running job was pinned with where its threads really are."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.program import Program

PLAN = """\
name: night
runtime: process
jobs:
  train: {profile: 1g.5gb, num_workers: 2, cpuset: '%s', command: [python, train.py]}
"""
WORKERS = """\
import os, time
for _ in range(%d):
    if os.fork() == 0:
        break
time.sleep(600)
"""
WIDE = "import os, time\nos.sched_setaffinity(0, set(range(os.cpu_count())))\ntime.sleep(600)\n"
NARROW = "import os, time\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\ntime.sleep(600)\n"

CPUS = sorted(os.sched_getaffinity(0))
two = pytest.mark.skipif(len(CPUS) < 2, reason="one CPU cannot be left")


def started(program: Program, text: str, cpus: str) -> None:
    program.plan(PLAN % cpus)
    (program.folder / "train.py").write_text(text, "utf-8")
    program.up("--retry")


def until(program: Program, holds: Callable[[Any], bool]) -> Any:
    """The job, once it is so: the program has to get there after its start."""
    end = time.monotonic() + 30
    while True:
        job = program.jobs()["train"]
        if holds(job) or time.monotonic() > end:
            assert holds(job), job
            return job
        time.sleep(0.1)


def test_workers_that_are_alive_stand_beside_the_planned_ones(program: Program) -> None:
    started(program, WORKERS % 2, str(CPUS[0]))

    job = until(program, lambda job: job["workers_alive"] == 2)

    assert job["num_workers"] == 2
    assert (job["processes"], job["threads"], job["threads_per_core"]) == (3, 3, 3.0)
    assert job["pinning"] == []
    assert "2 of 2" in program.run("status", "--check").ended(0).out


def test_more_workers_than_planned_are_a_warning(program: Program) -> None:
    started(program, WORKERS % 3, str(CPUS[0]))

    until(program, lambda job: job["workers_alive"] == 3)

    done = program.run("status", "--check").ended(0)
    assert "3 worker processes are alive, 2 are planned" in " ".join(done.out.split())


@two
def test_an_affinity_that_the_program_widened_is_drift(program: Program) -> None:
    started(program, WIDE, str(CPUS[0]))

    job = until(program, lambda job: bool(job["pinning"]))

    assert [found["id"] for found in job["pinning"]] == ["outside"]
    done = program.run("status", "--check").ended(7)
    assert "which are not the job's" in done.told


@two
def test_a_program_bound_to_one_cpu_of_several_is_drift(program: Program) -> None:
    started(program, NARROW, f"{CPUS[0]},{CPUS[1]}")

    job = until(program, lambda job: bool(job["pinning"]))

    assert [found["id"] for found in job["pinning"]] == ["one-cpu"]
    assert "OMP_PROC_BIND" in program.run("status", "--check").ended(7).told


def test_of_an_ended_job_no_process_is_told(program: Program) -> None:
    started(program, "", str(CPUS[0]))

    job = until(program, lambda job: job["state"] == "succeeded")

    assert job["workers_alive"] is None
    assert job["pinning"] is None
