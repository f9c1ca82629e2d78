"""`report` over runs that live, have ended, were undone and are forgotten; and `metrics` as its user calls it."""

from __future__ import annotations

import json
import signal
import time
import urllib.request

import pytest

from migctl.core.seeing.tracks import Said, Sample
from migctl.store.samples import TrackWriter
from tests.support.program import Program

PLAN = """
name: night
runtime: process
jobs:
  good: {profile: 1g.5gb, command: [sh, -c, 'exit 0']}
  bad:
    profile: 2g.10gb
    command: [sh, -c, 'echo "ValueError: no such </script>&lt;column>" >&2; exit 3', --, --api-key, hunter2]
    environment: {WANDB_API_KEY: hunter2}
  long: {profile: 3g.20gb, command: [sleep, '600'], needs: good}
"""


def up(program: Program) -> None:
    program.plan(PLAN)
    program.up()
    program.run("wait", "night/good", "night/bad").ended(8)
    deadline = time.monotonic() + 20
    while program.jobs()["long"]["state"] != "running":
        assert time.monotonic() < deadline
        time.sleep(0.1)


def watched(program: Program) -> None:
    now = time.time()
    job = {
        "own_cpus": 0.5,
        "memory_mib": 100.0,
        "samples_s": 12.0,
        "gpu_memory_mib": 3000.0,
        "gpu_memory_total_mib": 4864.0,
    }
    TrackWriter(program.state, "night").add(
        [Sample(at_s=now + n, seconds=1.0, jobs={"long": job}, cpus={0: 0.5}) for n in range(3)],
        [Said(at_s=now, job="long", gpu="", kind="gpu-bound", title="GPU-bound", message="waits little")],
    )


def test_a_run_is_told_while_it_lives_when_it_is_undone_and_no_more_when_it_is_forgotten(program: Program) -> None:
    up(program)
    watched(program)

    done = program.run("report", "night").ended(0)
    text = (program.folder / "night-report.html").read_text("utf-8")
    assert done.out == "night-report.html\n"
    assert "hunter2" not in text
    assert "</script>" not in text
    assert "3g.20gb" in text
    assert "GPU-bound" in text
    assert "ValueError: no such" in text

    program.run("down", "night").ended(0)
    undone = program.run("report", "--format", "md", "-o", "-").ended(0).out
    assert "state **removed**" in undone
    assert "exit code 3" in undone
    assert "GPU-bound" in undone
    assert "hunter2" not in undone

    program.run("rm", "night").ended(0)
    assert "no run is called night" in program.run("report", "night").ended(2).told


def test_a_run_that_nobody_watched_its_object_and_a_file_that_cannot_be_written(program: Program) -> None:
    program.plan("name: quick\nruntime: process\njobs: {a: {command: 'true', profile: 1g.5gb}}\n")
    program.up("--wait")
    (program.state / "runs/quick/@samples.jsonl").unlink(missing_ok=True)

    assert "Nothing was measured of this run" in program.run("report", "-o", "-").ended(0).out
    value = program.json("report", "quick")
    assert value["samples"] == []
    assert [(a["job"], a["state"], a["exit_code"]) for a in value["attempts"]] == [("a", "succeeded", 0)]
    assert value["jobs"][0]["keys"]["command"] == "true"
    assert json.loads(program.run("report", "quick", "--format", "json", "-o", "-").ended(0).out) == {
        **value,
        "made_at": pytest.approx(value["made_at"], abs=30),
    }
    told = program.json("report", "quick", "-o", "x.html")
    assert told == {"version": 1, "run": "quick", "file": "x.html", "format": "html"}
    assert "none/x.html cannot be written" in program.run("report", "quick", "-o", "none/x.html").ended(4).told


def test_metrics_are_printed_once_and_are_nobodys_before_there_is_a_run(program: Program) -> None:
    first = program.run("metrics", "--once").ended(0).out

    assert "migctl_build_info{version=" in first
    assert "migctl_watch_up 1\n" in first
    assert "migctl_job_info" not in first


def test_metrics_are_served_until_a_signal_and_only_here(program: Program) -> None:
    program.plan("name: night\nruntime: process\njobs: {bad: {command: [sh, -c, 'exit 3'], profile: 1g.5gb}}\n")
    program.run("up", "--wait").ended(8)
    with program.start("metrics", "--listen", "127.0.0.1:0") as exporter:
        assert exporter.stdout is not None
        url = exporter.stdout.readline().strip()
        deadline = time.monotonic() + 20
        while "migctl_job_state{" not in (text := urllib.request.urlopen(url, timeout=5).read().decode()):
            assert time.monotonic() < deadline, text
            time.sleep(0.3)
        taken = program.run("metrics", "--listen", url.removeprefix("http://").removesuffix("/metrics"))
        exporter.send_signal(signal.SIGTERM)
        out, err = exporter.communicate(timeout=10)

    assert url.startswith("http://127.0.0.1:")
    assert 'migctl_job_state{run="night",job_name="bad",state="failed"} 1\n' in text
    assert 'migctl_job_exit_code{run="night",job_name="bad"} 3\n' in text
    assert taken.code == 5
    assert exporter.returncode == 143, out + err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "words",
    [("--listen", ":9835"), ("--listen", "9835"), ("--port", "70000"), ("--port", "1", "--listen", "127.0.0.1:1")],
)
def test_an_address_that_is_none_is_refused(program: Program, words: tuple[str, ...]) -> None:
    program.run("metrics", *words).ended(2)


def test_an_address_that_others_reach_is_warned_of(program: Program) -> None:
    with program.start("metrics", "--listen", "0.0.0.0:0") as exporter:
        assert exporter.stdout is not None
        exporter.stdout.readline()
        exporter.send_signal(signal.SIGINT)
        _, err = exporter.communicate(timeout=10)

    assert exporter.returncode == 130
    assert "no loopback address" in " ".join(err.split())
