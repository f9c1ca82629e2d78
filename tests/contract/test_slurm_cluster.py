"""`--engine slurm` on a real Slurm: what is handed over runs, is told of truly, ends when asked, and nothing else is touched."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import Program
from tests.support.slurm import Cluster, missing

FULL = os.environ.get("MIGCTL_TEST_FULL") == "1"
pytestmark = [
    pytest.mark.skipif(bool(missing()) and not FULL, reason=f"needs {', '.join(missing())} (scripts/packages)"),
    pytest.mark.slow,
]

NODES = {"mig1": {"1g.5gb": 3, "2g.10gb": 1, "3g.20gb": 1}, "mig2": {"a100": 1}}
SHOW = "echo $MIGCTL_JOB $MIGCTL_NUM_WORKERS $MIGCTL_CPUSET $OMP_NUM_THREADS $MIGCTL_ATTEMPT"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes of two CPUs: one with MIG devices, one with a whole GPU; arrays have at most seven members."""
    here = Cluster(NODES, cpus=2, config=["MaxArraySize=8"])
    here.start()
    try:
        yield here
    finally:
        here.stop()


@pytest.fixture
def program(cluster: Cluster, tmp_path: Path) -> Iterator[Program]:
    """migctl on the cluster's login node, which has no GPU, no engine, and no job of an earlier test."""
    here = Program(tmp_path, **{**cluster.environ, "MIGCTL_NVML": ""})
    here.prefix = ()
    yield here
    here.clean()
    cluster.ask("scancel", "--me") if cluster.queue() else None
    while cluster.queue():
        time.sleep(0.05)


def plan(program: Program, jobs: str, **keys: str) -> str:
    """A plan of processes for Slurm."""
    head = "".join(f"{key}: {value}\n" for key, value in {"name": "sweep", "runtime": "process", **keys}.items())
    program.plan(f"{head}engine: slurm\njobs:\n{jobs}")
    return "plan.yaml"


def until(done: Any, what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def told(program: Program, what: str) -> list[str]:
    """The files in which jobs tell that they began, or how they ended."""
    return [path.read_text("utf-8") for path in program.state.glob(f"runs/sweep/@cluster/*.{what}")]


def test_ten_jobs_run_to_their_end_on_three_slices_and_a_second_up_is_idle(program: Program, cluster: Cluster) -> None:
    plan(
        program,
        f"  a: {{profile: 1g.5gb, matrix: {{n: [0,1,2,3,4,5,6,7,8,9]}}, command: [sh, -c, '{SHOW} ${{matrix.n}}']}}\n",
    )

    shown = program.up("--dry-run")
    assert cluster.queue() == []
    handed = program.up("--json")
    ended = program.run("wait").ended(0)
    again = program.up()
    jobs = program.jobs()

    assert "would be: 10 jobs handed over to Slurm (migtest)" in shown.out
    told = json.loads(handed.out)
    assert (told["engine"], told["cluster"], len(told["handed_over"])) == ("slurm", "migtest", 10)
    assert len({job["cluster_id"].partition("_")[0] for job in told["jobs"]}) == 2, "ten jobs are two arrays here"
    assert ended.out.count(": succeeded (exit code 0)\n") == 10
    assert "nothing to do: all jobs of the plan are on Slurm (migtest)" in again.out
    assert {job["state"] for job in jobs.values()} == {"succeeded"}
    assert {job["node"] for job in jobs.values()} == {"mig1"}
    for name, job in jobs.items():
        line = program.run("logs", name).ended(0).out.split() if name in ("a-n0", "a-n9") else None
        if line is not None:
            assert line == [name, "1", job["cpus"], "1", "1", name.removeprefix("a-n")]
    assert "10 jobs removed" in program.run("down").ended(0).out
    assert program.run("rm", "sweep").ended(0).out
    assert not (program.state / "runs/sweep").exists()


def test_jobs_on_one_node_have_different_cores_and_workers_for_just_those(program: Program) -> None:
    plan(program, "  a: {profile: 1g.5gb, replicas: 2, command: [sh, -c, 'taskset -cp $$$$; sleep 30']}\n")

    program.up()
    until(lambda: len(told(program, "begin")) == 2, "both run")
    jobs = program.jobs()

    assert sorted(job["cpus"] for job in jobs.values()) == ["0", "1"]
    assert {job["num_workers"] for job in jobs.values()} == {1}
    for name, job in jobs.items():
        assert program.run("logs", name).out.endswith(f": {job['cpus']}\n")
    program.run("down", "--timeout", "0").ended(0)


def test_what_needs_a_job_that_failed_never_runs_and_the_next_stage_does(program: Program, cluster: Cluster) -> None:
    plan(
        program,
        "  bad: {profile: 1g.5gb, stage: 1, command: [sh, -c, 'exit 3']}\n"
        "  dead: {profile: 1g.5gb, needs: [bad], command: [echo, never]}\n"
        "  late: {profile: 1g.5gb, stage: 2, command: [echo, second]}\n",
    )

    done = program.run("up", "--wait")
    jobs = program.jobs()

    assert done.code == 8, done
    assert (jobs["bad"]["state"], jobs["bad"]["exit_code"]) == ("failed", 3)
    assert (jobs["dead"]["state"], jobs["dead"]["reason"]) == (
        "stopped",
        "will not run: bad, which it needs, did not succeed",
    )
    assert jobs["late"]["state"] == "succeeded"
    assert jobs["late"]["started_at"] >= jobs["bad"]["finished_at"]
    assert cluster.queue() == []


def test_stop_lets_a_job_save_and_down_leaves_a_strangers_job_of_the_same_name(
    program: Program, cluster: Cluster
) -> None:
    script = 'trap "echo saved; exit 0" TERM; echo begun; while :; do sleep 0.1; done'
    plan(program, f"  a: {{profile: 1g.5gb, replicas: 2, stop_grace_period: 20s, command: [sh, -c, '{script}']}}\n")
    program.up()
    stranger = cluster.ask(
        "sbatch", "--parsable", "--job-name=sweep.a", "--output=/dev/null", "--wrap=sleep 60"
    ).strip()
    until(lambda: told(program, "log") == ["begun\n"] * 2, "both have begun")

    stopped = program.run("stop", "a-1").ended(0)
    after = program.jobs()
    down = program.run("down", "--timeout", "30").ended(0)

    assert "stopped: a-1" in stopped.out
    assert after["a-1"]["state"] == "stopped"
    assert after["a-2"]["state"] == "running"
    assert "2 jobs removed" in down.out
    logs = [[line for line in log.splitlines() if line in ("begun", "saved")] for log in told(program, "log")]
    assert logs == [["begun", "saved"]] * 2
    assert [line.split()[0] for line in cluster.queue()] == [stranger]


def test_logs_are_followed_to_the_end_and_wait_says_when_it_gives_up(program: Program) -> None:
    lines = "for n in 1 2 3 4 5 6; do echo line $n; sleep 0.3; done"
    plan(
        program,
        f"  a: {{profile: 1g.5gb, command: [sh, -c, '{lines}']}}\n  b: {{profile: 1g.5gb, command: [sleep, '99']}}\n",
    )
    program.up()

    followed = program.run("logs", "-f", "a").ended(0)

    assert followed.out == "".join(f"line {n}\n" for n in range(1, 7))
    assert program.run("logs", "--tail", "1", "a").out == "line 6\n"
    assert program.run("wait", "--timeout", "0.1").ended(5).told.startswith("error: still running after 0.1 s: b")
    program.run("down", "--timeout", "0").ended(0)


def test_a_failed_job_runs_again_as_its_next_attempt_and_a_changed_one_where_that_is_asked_for(
    program: Program, cluster: Cluster
) -> None:
    plan(
        program,
        f"  a: {{profile: 1g.5gb, command: [sh, -c, '{SHOW}; test -e ok']}}\n  b: {{profile: 1g.5gb, command: [sleep, '60']}}\n",
    )
    program.up()
    until(lambda: len(told(program, "end")) == 1, "it has failed")

    kept = program.up()
    (program.folder / "ok").touch()
    again = program.up("--retry")
    until(lambda: len(told(program, "end")) == 2, "it has succeeded")
    plan(
        program,
        f"  a: {{profile: 1g.5gb, command: [sh, -c, '{SHOW}; test -e ok']}}\n  b: {{profile: 1g.5gb, command: [sleep, '61']}}\n",
    )
    changed = program.up()
    before = program.jobs()["b"]["cluster_id"]
    replaced = program.up("--replace")

    assert "not run again: a failed" in kept.out
    assert "1 job handed over" in again.out
    assert program.jobs()["a"]["attempt"] == 2
    assert program.run("logs", "a").out.split()[-1] == "2"
    assert "changed in the plan, and left as it is: b" in changed.out
    assert "1 job handed over" in replaced.out
    assert program.jobs()["b"]["cluster_id"] != before
    assert [line.split()[1] for line in cluster.queue()] == ["sweep.b"]
    assert "a" in program.run("history", "sweep").ended(0).out
    assert "Engine | slurm" in program.run("report", "sweep", "--format", "md", "-o", "-").ended(0).out


@pytest.mark.parametrize(
    ("job", "code", "says"),
    [
        ("profile: 7g.40gb", 3, "no GPU of profile 7g.40gb; it has 1g.5gb, 2g.10gb, 3g.20gb, a100"),
        ("profile: 1g.5gb, cpus: 3", 3, "asks for 3 cores"),
        ("profile: 1g.5gb, mem_limit: 100g", 3, "Requested node configuration is not available"),
        ("memory: 39GiB", 3, "asks for 39.0 GiB of memory"),
    ],
)
def test_what_can_never_run_is_refused_before_anything_is_handed_over(
    program: Program, cluster: Cluster, job: str, code: int, says: str
) -> None:
    plan(program, f"  good: {{profile: 1g.5gb, command: [sleep, '60']}}\n  a: {{{job}, command: [echo, x]}}\n")

    refused = program.run("up")

    assert refused.code == code, refused
    assert says in refused.told
    assert cluster.queue() == []
    assert program.json("status")["runs"] == []


def test_one_after_another_has_the_whole_gpu_and_keeps_the_order(program: Program) -> None:
    plan(
        program,
        "  a: {replicas: 3, command: [sh, -c, 'date +%s.%N; sleep 0.3; date +%s.%N']}\n",
        strategy="sequential",
        slurm="{options: [--mail-type=NONE]}",
    )

    program.up()
    program.run("wait").ended(0)
    times = [float(t) for n in (1, 2, 3) for t in program.run("logs", f"a-{n}").out.split()]

    assert times == sorted(times)
    assert {job["node"] for job in program.jobs().values()} == {"mig2"}


def test_an_up_that_is_killed_behind_sbatchs_back_leaves_nothing_that_down_does_not_end(
    program: Program, cluster: Cluster
) -> None:
    """The job is at Slurm, and no record has its id."""
    real = shutil.which("sbatch", path=program.environ["PATH"])
    wrapper = program.folder / "bin/sbatch"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\n{real} "$@" >/dev/null\nkill -9 $PPID\n', "utf-8")
    wrapper.chmod(0o755)
    plan(program, "  a: {profile: 1g.5gb, command: [sleep, '60']}\n")
    killed = program.start("up", PATH=f"{wrapper.parent}:{program.environ['PATH']}")
    killed.communicate(timeout=60)
    assert killed.returncode == -9
    assert len(cluster.queue()) == 1

    told = program.run("status").ended(0)
    program.run("down", "--timeout", "0").ended(0)

    assert "not handed over: an up is at work, or was interrupted" in " ".join(told.out.split())
    assert cluster.queue() == []


def test_a_submission_that_fails_in_its_middle_is_taken_back(program: Program, cluster: Cluster) -> None:
    real = shutil.which("sbatch", path=program.environ["PATH"])
    wrapper = program.folder / "bin/sbatch"
    wrapper.parent.mkdir()
    wrapper.write_text(
        f'#!/bin/sh\n[ -e {program.folder}/once ] || {{ touch {program.folder}/once; exec {real} "$@"; }}\n'
        "echo 'sbatch: error: Batch job submission failed: Job violates accounting/QOS policy' >&2\nexit 1\n",
        "utf-8",
    )
    wrapper.chmod(0o755)
    plan(program, "  a: {profile: 1g.5gb, command: [sleep, '60']}\n  b: {profile: 1g.5gb, command: [sleep, '60']}\n")

    failed = program.run("up", PATH=f"{wrapper.parent}:{program.environ['PATH']}")

    assert failed.code == 5, failed
    until(lambda: cluster.queue() == [], "the first one is cancelled")
    assert program.json("status")["runs"] == []


def test_without_slurm_or_on_another_cluster_nothing_is_taken_for_lost(program: Program) -> None:
    plan(program, "  a: {profile: 1g.5gb, command: [sleep, '60']}\n")
    program.up()
    other = program.folder / "bin/scontrol"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho 'ClusterName             = elsewhere'\n", "utf-8")
    other.chmod(0o755)
    away = {"PATH": "/nowhere"}
    elsewhere = {"PATH": f"{other.parent}:{program.environ['PATH']}"}

    for environ, word in ((away, "no-slurm"), (elsewhere, "another-cluster")):
        seen = json.loads(program.run("status", "--json", **environ).ended(0).out)
        assert seen["runs"][0]["jobs"][0]["state"] in ("queued", "running")
        assert [warning["id"] for warning in seen["warnings"]] == [word]
        assert program.run("down", **environ).code == 4
    assert program.jobs()["a"]["state"] in ("queued", "running")


def test_commands_of_this_machine_say_that_the_run_is_elsewhere(program: Program) -> None:
    plan(program, "  a: {profile: 1g.5gb, command: [sleep, '60']}\n")
    program.up()

    for words in (["exec", "a", "--", "true"], ["hold"], ["restart", "a"], ["resume"]):
        assert program.run(*words).code == 2, words
    assert program.run("up", "--engine", "local", MIGCTL_NVML="sim:a100-40gb").code == 2
    assert program.run("plan").code == 2


def test_an_image_where_the_site_has_no_containers_is_refused_with_the_ways_out(
    program: Program, cluster: Cluster
) -> None:
    program.plan("engine: slurm\njobs: {a: {image: busybox, profile: 1g.5gb, command: [echo, x]}}\n")

    refused = program.run("up")

    assert refused.code == 2, refused
    assert "apptainer" in refused.told
    assert cluster.queue() == []


def test_the_demo_runs_unchanged_on_this_machine_and_on_slurm(program: Program) -> None:
    root = Path(__file__).parents[2]
    demo = root / "compose/plans/demo.yaml"
    environ = {"TMPDIR": str(program.folder)}

    there = program.run("up", str(demo), "--engine", "slurm", "--wait", **environ).ended(0)
    logs = program.run("logs", "--tail", "1").ended(0)

    assert there.out.count(": succeeded (exit code 0)\n") == 4
    assert logs.out.count("steps/s") == 4
