"""`tune` as a user runs it: on a simulated GPU, with processes whose throughput depends on their number of workers."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.support.program import ROOT, Program

PLAN = """\
name: night
runtime: process
jobs:
  train:
    profile: 2g.10gb
    cpus: 1
    # what is started
    command: python train.py   # reads MIGCTL_NUM_WORKERS
  other: {profile: 1g.5gb, command: [sleep, "600"]}
oversubscribe: true
"""
# A third worker brings nothing. Sleeping, so that other load on the machine does not matter.
FILE = """\
import os, time
workers, path = int(os.environ["MIGCTL_NUM_WORKERS"]), os.environ.get("MIGCTL_SAMPLES_FILE", "samples")
done, wait = 0, 0.0
while True:
    before = time.monotonic()
    time.sleep(0.06 / max(1, min(workers, 2)))
    done, wait = done + 10, wait + time.monotonic() - before
    with open(path, "a") as file:
        file.write(f"migctl: samples={done} wait={wait:.3f}\\n")
"""
STDOUT = """\
import os, time
for batch in range(1, 100000):
    time.sleep(0.02)
    print(f"migctl: samples={batch}", flush=True)
"""

HELPED = """\
import time
from throughput import Throughput
told = Throughput()
while True:
    before = time.monotonic()
    time.sleep(0.02)  # the loader
    wait_s = time.monotonic() - before
    time.sleep(wait_s)  # the step, as long as that took on a busy machine
    told.add(32, wait_s)
"""


@pytest.fixture
def here(program: Program) -> Program:
    program.plan(PLAN)
    (program.folder / "train.py").write_text(FILE, "utf-8")
    return program


def tuning(program: Program) -> list[str]:
    return [run["name"] for run in program.json("status", "--all")["runs"] if run["name"].startswith("tune-")]


def until(what: str, program: Program, seconds: float = 50.0) -> None:
    end = time.monotonic() + seconds
    while what not in tuning(program):
        assert time.monotonic() < end, f"no run {what} after {seconds} s"
        time.sleep(0.05)


def test_the_fewest_workers_at_the_top_are_found_and_written_into_the_plan(here: Program) -> None:
    before = (here.folder / "plan.yaml").read_text("utf-8")

    done = here.run("tune", "plan.yaml", "train", "--seconds", "1.5", "--most", "3", "--write", "--json").ended(0)

    found = json.loads(done.out)
    rates = {point["num_workers"]: point["samples_per_s"] for point in found["points"]}
    assert set(rates) == {1, 2, 3}
    assert rates[2] > 1.5 * rates[1]
    assert found["num_workers"] == 2, found
    assert found["cores"] == 1
    # Others may be at work on this CPU of a shared machine, which is told and not taken for the job's own work.
    assert found["bound"] in {"io", "unknown"}
    assert found["written"] == "plan.yaml"
    line = "    num_workers: 2\n"
    after = (here.folder / "plan.yaml").read_text("utf-8")
    assert after == before.replace("  train:\n", f"  train:\n{line}")
    assert tuning(here) == []
    assert here.instances() == []
    assert list((here.state / "tune").iterdir()) == []
    assert {job["name"]: job["num_workers"] for job in here.json("plan")["jobs"]}["train"] == 2


def test_lines_on_the_output_do_as_well_and_the_curve_is_drawn(here: Program) -> None:
    (here.folder / "train.py").write_text(STDOUT, "utf-8")

    done = here.run("tune", "train", "--seconds", "1", "--most", "1").ended(0)

    assert "tune night/train" in done.out
    assert "num_workers: 1" in done.out
    assert "1 worker: " in done.err
    assert max(map(len, done.out.splitlines())) <= 80


def test_a_job_that_runs_or_keeps_its_place_is_not_tuned(here: Program) -> None:
    here.up()

    running = here.run("tune", "train").ended(5)
    here.run("stop", "night/train").ended(0)
    ended = here.run("tune", "train").ended(5)

    assert "runs already" in running.told
    assert "keeps its cores" in ended.told
    assert "migctl down night" in ended.told
    assert here.jobs()["other"]["state"] == "running"


def test_a_job_beside_the_tuned_one_is_not_touched(here: Program) -> None:
    beside = "name: rest\nruntime: process\njobs: {beside: {profile: 1g.5gb, command: [sleep, '600'], cpuset: '1'}}\n"
    here.plan(beside, "rest.yaml")
    here.run("up", "rest.yaml").ended(0)
    before = here.jobs()["beside"]

    here.run("tune", "plan.yaml", "train", "--seconds", "0.5", "--most", "1").ended(0)

    assert here.jobs()["beside"] == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_nothing(here: Program, number: signal.Signals, code: int) -> None:
    with here.start("tune", "train", "--seconds", "60") as process:
        until("tune-night-train", here)
        process.send_signal(number)
        _, err = process.communicate(timeout=30)

    assert process.returncode == code, err
    assert "nothing of" in err or "is undone" in err
    assert tuning(here) == []
    assert here.instances() == []


def test_the_helper_that_is_there_to_be_copied_is_understood(here: Program) -> None:
    (here.folder / "throughput.py").write_text((ROOT / "compose/train/throughput.py").read_text("utf-8"), "utf-8")
    (here.folder / "train.py").write_text(HELPED, "utf-8")

    done = here.run("tune", "train", "--seconds", "3", "--most", "1", "--json").ended(0)

    (point,) = json.loads(done.out)["points"]
    assert point["samples_per_s"] > 0
    assert 0.3 < point["wait_share"] < 0.7


def test_one_job_is_tuned_by_one_command_at_a_time(here: Program) -> None:
    with here.start("tune", "train", "--seconds", "60") as process:
        until("tune-night-train", here)
        second = here.run("tune", "train").ended(5)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)

    assert "tune-" in second.told
    assert tuning(here) == []


def test_what_a_killed_tune_left_goes_before_the_next_looks_for_a_place(here: Program) -> None:
    # Alone on the GPU and on all cores: beside what was left there is no room.
    everything = f"    profile: 7g.40gb\n    cpus: {len(os.sched_getaffinity(0))}\n"
    here.plan(PLAN.partition("  other:")[0].replace("    profile: 2g.10gb\n    cpus: 1\n", everything))
    with here.start("tune", "train", "--seconds", "60") as process:
        until("tune-night-train", here)
        while not here.jobs().get("train", {}).get("pid"):
            time.sleep(0.05)
        pid = here.jobs()["train"]["pid"]
        process.kill()
        process.communicate()
    assert Path(f"/proc/{pid}").exists(), "the measured job outlives the killed command"

    here.run("tune", "train", "--seconds", "0.5", "--most", "1").ended(0)

    assert not Path(f"/proc/{pid}").exists()
    assert tuning(here) == []
    assert here.instances() == []


@pytest.mark.parametrize(
    ("program_text", "words", "code", "kind", "says"),
    [
        ("print('hello')", (), 2, "no-samples", "told no samples until it ended"),
        ("print('migctl: samples=3')", (), 2, "too-few-samples", "only 1 report before it ended"),
        ("import sys; print('no such data'); sys.exit(3)", (), 8, "jobs-failed", "failed with 1 worker (exit code 3)"),
        (FILE, ("--write", "--probe"), 2, "usage", "stand-in"),
        (FILE, ("--seconds", "0"), 2, "usage", "more than 0"),
        (FILE, ("--most", "0"), 2, "usage", "--most is at least 1, not 0"),
    ],
)
def test_what_cannot_be_measured_says_why_and_leaves_nothing(
    here: Program,
    program_text: str,
    words: tuple[str, ...],
    code: int,
    kind: str,
    says: str,
) -> None:
    (here.folder / "train.py").write_text(program_text, "utf-8")

    done = here.run("tune", "train", *words, "--json").ended(code)

    (error,) = json.loads(done.out)["errors"]
    assert error["id"] == kind
    assert says in error["message"]
    assert tuning(here) == []
    assert here.instances() == []


def test_the_last_lines_of_a_failed_job_are_told(here: Program) -> None:
    (here.folder / "train.py").write_text("import sys; print('no such data'); sys.exit(3)", "utf-8")

    assert "why: no such data" in here.run("tune", "train").ended(8).told


@pytest.mark.parametrize(
    ("words", "says"),
    [(("tune",), "several jobs: train, other"), (("tune", "trian"), "no job of this plan is called trian")],
)
def test_a_job_that_is_not_there_or_not_named(here: Program, words: tuple[str, ...], says: str) -> None:
    assert says in here.run(*words).ended(2).told


def test_a_plan_that_was_edited_meanwhile_is_not_overwritten(here: Program) -> None:
    path = here.folder / "plan.yaml"
    with here.start("tune", "train", "--seconds", "1", "--most", "1", "--write") as process:
        until("tune-night-train", here)
        path.write_text(PLAN + "# mine\n", "utf-8")
        _, err = process.communicate(timeout=60)

    assert process.returncode == 5, err
    assert "was changed" in " ".join(err.split())
    assert path.read_text("utf-8") == PLAN + "# mine\n"


@pytest.mark.parametrize("plan", [PLAN, f"enable_mig: true\n{PLAN}"], ids=["plain", "enable_mig"])
def test_the_mig_mode_is_not_changed_for_a_measurement(here: Program, plan: str) -> None:
    here.plan(plan)

    done = here.run("tune", "train", "--seconds", "1", MIGCTL_NVML="sim:a100-40gb:off").ended(4)

    assert "MIG mode is off" in done.told
    assert "try: migctl mode enable" in done.told
    assert here.json("status", MIGCTL_NVML="sim:a100-40gb:off")["gpus"][0]["mig"]["current"] is False


def test_the_stand_in_measures_without_a_program(here: Program) -> None:
    done = here.json("tune", "train", "--probe", "--seconds", "1", "--most", "1")

    assert done["probe"] is True
    assert done["points"][0]["samples_per_s"] > 0
    assert done["points"][0]["wait_share"] > 0.5


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a PATH of its own to lose")
def test_the_stand_in_leaves_no_worker_behind(here: Program) -> None:
    here.run("tune", "train", "--probe", "--seconds", "0.5", "--most", "2").ended(0)

    left = [
        path
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if b"probe.py" in path.read_bytes() and str(here.folder).encode() in path.read_bytes()
    ]
    assert left == []
