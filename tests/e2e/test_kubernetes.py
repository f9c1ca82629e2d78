"""A plan on Kubernetes from `up` to `down`, against a stand-in for kubectl that is no kinder than a cluster."""

from __future__ import annotations

import copy
import io
import json
import os
import threading
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from migctl.cli.app import run
from migctl.engine.clusters.kubernetes import KubernetesEngine
from tests.support.kubernetes_cluster import SLICE, KubernetesCluster, node
from tests.support.program import Done

pytest.importorskip("kubernetes_validate")

SWEEP = """
name: lr-sweep
engine: kubernetes
defaults: {image: train, command: python train.py, cpus: 2}
jobs:
  baseline: {profile: 2g.10gb}
  sweep: {profile: 1g.5gb, matrix: {lr: [0.1, 1e-2, 1e-3]}, command: "python train.py --lr ${matrix.lr}"}
"""
CHAIN = """
name: chain
engine: kubernetes
defaults: {image: train, command: x, cpus: 2, profile: 1g.5gb}
jobs:
  prepare: {}
  train: {needs: [prepare], replicas: 2}
"""


class Here:
    """`migctl` called in this process: a command is mostly the programs that it starts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *words: str) -> Done:
        out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = run(words)
        out.flush()
        return Done(words, code, out.buffer.getvalue().decode(), err.getvalue())  # type: ignore[attr-defined]  # a BytesIO

    def up(self, *words: str) -> Done:
        return self.run("up", *words).ended(0)

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--json").out)

    def jobs(self) -> Mapping[str, Any]:
        return {job["name"]: job for run in self.json("status")["runs"] for job in run["jobs"]}

    def plan(self, text: str) -> None:
        (self.folder / "plan.yaml").write_text(text, "utf-8")


@pytest.fixture
def cluster(tmp_path: Path) -> KubernetesCluster:
    return KubernetesCluster(tmp_path / "cluster", node("n1", {SLICE: 2, "nvidia.com/mig-2g.10gb": 1}))


@pytest.fixture
def program(tmp_path: Path, cluster: KubernetesCluster, monkeypatch: pytest.MonkeyPatch) -> Here:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in [name for name in os.environ if name.startswith(("MIGCTL_", "SUDO_"))]:
        monkeypatch.delenv(name)
    environ = cluster.environ(os.environ["PATH"])
    environ |= {"MIGCTL_STATE_DIR": str(folder / "state"), "MIGCTL_RUN_DIR": str(folder / "run")}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(KubernetesEngine, "look_s", 0.1)
    return Here(folder)


def test_a_sweep_runs_to_its_end_and_nothing_is_left(program: Here, cluster: KubernetesCluster) -> None:
    program.plan(SWEEP)

    done = program.up()

    assert "lr-sweep: 4 jobs handed over" in done.out
    assert sorted(cluster.names("Job")) == ["lr-sweep-baseline", "lr-sweep-sweep"]
    jobs = program.jobs()
    assert {name: job["state"] for name, job in jobs.items()} == {
        "baseline": "running",
        "sweep-lr0.1": "running",
        "sweep-lr1e-2": "running",
        "sweep-lr1e-3": "queued",
    }
    assert f"no node has {SLICE} free" in jobs["sweep-lr1e-3"]["reason"]
    assert jobs["baseline"]["node"] == "n1"
    again = program.up()
    assert "nothing to do" in again.out
    assert len([call for call in cluster.calls("apply") if "--dry-run=server" in call]) == 1
    cluster.end("lr-sweep-sweep", index=0, log="loss 0.1\n")
    cluster.end("lr-sweep-baseline", 3, log="boom\n")
    cluster.end("lr-sweep-sweep", index=1)
    cluster.objects("Job")
    cluster.end("lr-sweep-sweep", index=2)
    waited = program.run("wait").ended(8)
    assert "baseline: failed (exit code 3)" in waited.out
    assert "sweep-lr1e-3: succeeded" in waited.out
    assert program.run("logs", "sweep-lr0.1").ended(0).out == "loss 0.1\n"
    program.run("down").ended(0)
    assert (cluster.names("Job"), cluster.names("Pod")) == ([], [])
    assert program.run("logs", "lr-sweep/baseline").code in (0, 2)


def test_a_job_that_cannot_be_tells_it(program: Here, cluster: KubernetesCluster) -> None:
    cluster.set(bad_images={"train": "not found"})
    program.plan(SWEEP)

    program.up()

    text = " ".join(program.run("status", "--all").ended(0).out.split())
    assert "ImagePullBackOff" in text
    assert program.jobs()["baseline"]["state"] == "starting"


def test_a_device_that_no_node_has_is_told_at_once(program: Here) -> None:
    program.plan(SWEEP.replace("2g.10gb", "3g.20gb"))

    done = program.up()

    assert "no node has nvidia.com/mig-3g.20gb, which baseline asks for" in " ".join((done.out + done.err).split())


SELECTING = "kubernetes: {mig_strategy: mixed, node_selector: {rack: r7}}\n"
WAITS = {
    "memory": (node("n1", memory="1Gi"), "", "no node takes it (0/1 nodes are available: 1 Insufficient memory); a smaller"),
    "a taint": (
        node("n1", taints=[{"key": "team", "value": "blue", "effect": "NoSchedule"}]),
        "",
        "untolerated taint {team: blue}); the nodes' administrator can lift",
    ),
    "a label": (node("n1"), SELECTING, "node affinity/selector); see node_selector"),
    "the taint of nodes with GPUs": (
        node("n1", taints=[{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]),
        "",
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("which", WAITS)
def test_what_keeps_a_pod_from_every_node_is_told(program: Here, cluster: KubernetesCluster, which: str) -> None:
    where, settings, told = WAITS[which]
    cluster.set(nodes=[where])
    program.plan(
        f"{settings}name: s\nengine: kubernetes\njobs: {{a: {{image: i, profile: 1g.5gb, cpus: 2, mem_limit: 4g, command: x}}}}"
    )

    program.up()

    job = program.jobs()["a"]
    assert job["state"] == ("queued" if told else "running")
    assert (told or "") in (job["reason"] or "")


def test_a_job_that_runs_longer_than_its_timeout_has_failed(program: Here) -> None:
    program.plan(
        "name: s\nengine: kubernetes\njobs: {a: {image: i, profile: 1g.5gb, cpus: 2, command: x, timeout: 1s}}"
    )
    program.up()

    waited = program.run("wait").ended(8)

    assert "it ran longer than its timeout" in waited.told
    assert program.jobs()["a"]["state"] == "failed"


def test_a_job_between_two_attempts_is_waiting_and_says_for_what(program: Here, cluster: KubernetesCluster) -> None:
    cluster.set(back_off_s=60)
    program.plan("name: s\nengine: kubernetes\njobs: {a: {image: i, profile: 1g.5gb, cpus: 2, command: x, retries: 1}}")
    program.up()
    cluster.end("s-a", 3)

    job = program.jobs()["a"]
    assert job["state"] == "queued"
    assert "an attempt of it failed: exit code 3; Kubernetes starts the next one" in job["reason"]
    cluster.set(back_off_s=0)
    assert program.jobs()["a"]["state"] == "running"
    cluster.end("s-a", 3)
    assert "a: failed (exit code 3)" in program.run("wait").ended(8).out


def test_a_changed_plan_is_told_and_changes_nothing_by_itself(program: Here, cluster: KubernetesCluster) -> None:
    program.plan(SWEEP)
    program.up()
    before = cluster.objects("Job")
    program.plan(SWEEP.replace("profile: 2g.10gb", "profile: 2g.10gb, shm_size: 1g"))

    done = program.up()

    assert "baseline" in done.out + done.err
    assert "--replace" in done.out + done.err
    assert cluster.objects("Job") == before


def test_a_replaced_job_ends_and_comes_again_under_another_name(program: Here, cluster: KubernetesCluster) -> None:
    program.plan(SWEEP)
    program.up()
    program.plan(SWEEP.replace("profile: 2g.10gb", "profile: 2g.10gb, shm_size: 1g"))

    program.up("--replace")

    assert sorted(cluster.names("Job")) == ["lr-sweep-baseline", "lr-sweep-baseline-again2", "lr-sweep-sweep"]
    assert program.jobs()["baseline"]["attempt"] == 2
    program.run("down").ended(0)
    assert cluster.names("Job") == []


def test_a_stopped_run_keeps_its_logs_and_runs_again_where_that_is_asked_for(
    program: Here, cluster: KubernetesCluster
) -> None:
    program.plan(SWEEP)
    program.up()
    cluster.say("lr-sweep-baseline", "half way\n")

    program.run("stop", "baseline").ended(0)

    assert program.jobs()["baseline"]["state"] == "stopped"
    assert program.jobs()["sweep-lr0.1"]["state"] == "running"
    assert program.run("logs", "baseline").ended(0).out == "half way\n"
    assert "nothing" in program.up().out
    program.up("--retry")
    assert program.jobs()["baseline"]["state"] == "running"


def test_one_of_an_indexed_job_is_stopped_by_its_pod(program: Here, cluster: KubernetesCluster) -> None:
    program.plan(SWEEP)
    program.up()

    program.run("stop", "sweep-lr0.1").ended(0)

    states = {name: job["state"] for name, job in program.jobs().items()}
    assert states["sweep-lr0.1"] == "stopped"
    assert states["sweep-lr1e-3"] == "running"


def test_what_waits_for_another_job_begins_when_that_has_succeeded(program: Here, cluster: KubernetesCluster) -> None:
    program.plan(CHAIN)
    program.up()
    assert program.jobs()["train-1"]["reason"] == "waits for prepare"
    cluster.end("chain-prepare")
    assert "its turn has come" in program.jobs()["train-1"]["reason"]

    done = program.up()

    assert "train-1" in done.out
    assert {job["state"] for name, job in program.jobs().items() if name != "prepare"} == {"running"}


def test_what_needs_a_job_that_failed_will_not_run(program: Here, cluster: KubernetesCluster) -> None:
    program.plan(CHAIN)
    program.up()
    cluster.end("chain-prepare", 1)

    waited = program.run("wait").ended(8)

    assert "train-1: stopped" in waited.out
    assert "will not run: prepare, which it needs, failed" in program.jobs()["train-2"]["reason"]


def test_up_that_waits_starts_what_comes_next(program: Here, cluster: KubernetesCluster) -> None:
    program.plan(CHAIN)
    over = threading.Event()
    hand = threading.Thread(target=end_everything, args=(cluster, over))
    hand.start()
    try:
        done = program.run("up", "--wait").ended(0)
    finally:
        over.set()
        hand.join()

    assert "train-2: succeeded" in done.out


def end_everything(cluster: KubernetesCluster, over: threading.Event) -> None:
    """Every pod that runs ends well, until the test is over."""
    while not over.wait(0.05):
        for pod in cluster.objects("Pod"):
            if pod["status"]["phase"] == "Running":
                index = pod["metadata"]["annotations"].get("batch.kubernetes.io/job-completion-index")
                job = pod["metadata"]["labels"]["batch.kubernetes.io/job-name"]
                cluster.end(job, index=int(index) if index else None)


def test_one_after_another_is_one_job_of_parallelism_1(program: Here, cluster: KubernetesCluster) -> None:
    program.plan(
        "name: s\nengine: kubernetes\nstrategy: sequential\ndefaults: {image: i, cpus: 2}\n"
        "jobs: {a: {command: x}, b: {command: y}, c: {command: z}}"
    )
    cluster.set(nodes=[node("n1", {"nvidia.com/gpu": 1})])

    program.up()

    (job,) = cluster.objects("Job")
    assert (job["spec"]["completionMode"], job["spec"]["parallelism"], job["spec"]["completions"]) == ("Indexed", 1, 3)
    assert [program.jobs()[name]["state"] for name in "abc"] == ["running", "queued", "queued"]


def test_a_job_of_somebody_else_is_in_the_way_and_stays(program: Here, cluster: KubernetesCluster) -> None:
    program.plan(SWEEP)
    program.up()
    with cluster.changing() as state:
        for one in state["objects"]:
            one["metadata"]["labels"].pop("io.migctl/token")
    program.run("down").ended(0)
    before = sorted(cluster.names("Job"))
    assert before == ["lr-sweep-baseline", "lr-sweep-sweep"]

    done = program.run("up").ended(5)

    assert "lr-sweep-baseline" in done.told
    assert sorted(cluster.names("Job")) == before


def test_a_copy_that_somebody_made_is_not_removed(program: Here, cluster: KubernetesCluster) -> None:
    program.plan(SWEEP)
    program.up()
    with cluster.changing() as state:
        other = copy.deepcopy(next(o for o in state["objects"] if o["kind"] == "Job"))
        other["metadata"] |= {"name": "mine", "uid": "mine"}
        state["objects"].append(other)

    program.run("down").ended(0)

    assert cluster.names("Job") == ["mine"]


def test_an_up_that_is_refused_half_way_takes_back_what_it_made(program: Here, cluster: KubernetesCluster) -> None:
    program.plan(SWEEP)
    cluster.set(job_quota=1)

    done = program.run("up").ended(5)

    assert "exceeded quota: few" in done.told
    assert cluster.names("Job") == []
    assert program.json("status")["runs"] == []


def test_what_the_server_refuses_changes_nothing(program: Here, cluster: KubernetesCluster) -> None:
    program.plan(SWEEP)
    cluster.set(forbidden=["patch jobs"])

    done = program.run("up").ended(4)

    assert "kubectl auth can-i --list" in done.told
    assert program.json("status")["runs"] == []


def test_jobs_without_an_image_are_named(program: Here) -> None:
    program.plan(
        "name: p\nruntime: process\njobs: {a: {profile: 1g.5gb, command: x}, b: {profile: 1g.5gb, command: x}}"
    )

    done = program.run("up", "--engine", "kubernetes").ended(2)

    assert "jobs a, b have no image" in done.told
    assert "delete runtime: process" in done.told


def test_a_dry_run_shows_what_would_be_handed_over(program: Here, cluster: KubernetesCluster) -> None:
    program.plan(SWEEP)

    shown = program.run("up", "--dry-run").ended(0)

    assert "baseline" in shown.out
    assert cluster.calls("apply") == []
    assert program.json("status")["runs"] == []


def test_a_cluster_that_does_not_answer_is_told_with_what_was_recorded(
    program: Here, cluster: KubernetesCluster
) -> None:
    program.plan(SWEEP)
    program.up()
    cluster.set(failing={"get": {"after": 0, "text": "Unable to connect to the server: dial tcp: i/o timeout"}})

    answer = json.loads(program.run("status", "--json").ended(0).out)

    assert {job["name"] for job in answer["runs"][0]["jobs"]} == {
        "baseline",
        "sweep-lr0.1",
        "sweep-lr1e-2",
        "sweep-lr1e-3",
    }
    assert any(warning["id"] == "cluster-unreachable" for warning in answer["warnings"])
    assert program.run("down").ended(5).told


def test_a_run_stays_where_it_is_when_the_context_changes(program: Here, cluster: KubernetesCluster) -> None:
    program.plan(SWEEP)
    program.up()
    cluster.set(current="other")

    assert program.jobs()["baseline"]["state"] == "running"
    program.run("down").ended(0)
    assert cluster.names("Job") == []


def test_a_grace_of_the_command_line_reaches_the_pods(program: Here, cluster: KubernetesCluster) -> None:
    program.plan(SWEEP)
    program.up()
    cluster.set(stubborn=True)

    program.run("down", "--timeout", "1").ended(0)

    assert cluster.names("Pod") == []


def test_a_job_of_a_queue_waits_for_kueue_and_is_stopped_there(program: Here, cluster: KubernetesCluster) -> None:
    program.plan(SWEEP.replace("engine: kubernetes\n", "engine: kubernetes\nkubernetes: {queue: gpus}\n"))
    cluster.set(kueue=True)
    program.up()
    assert "Kueue has not let it in" in program.jobs()["baseline"]["reason"]
    with cluster.changing() as state:
        job = next(o for o in state["objects"] if o["metadata"]["name"] == "lr-sweep-baseline")
        labels = {"kueue.x-k8s.io/job-uid": job["metadata"]["uid"]}
        metadata = {"name": "job-baseline", "namespace": "lab", "labels": labels}
        state["objects"].append({"kind": "Workload", "metadata": metadata, "spec": {"active": True}})

    program.run("stop", "baseline").ended(0)

    assert program.jobs()["baseline"]["state"] == "stopped"
    assert [one["spec"] for one in cluster.objects("Workload")] == [{"active": False}]


def test_a_log_is_followed_until_the_job_has_ended(program: Here, cluster: KubernetesCluster) -> None:
    program.plan(SWEEP)
    program.up()
    cluster.say("lr-sweep-baseline", "one\n")
    hand = threading.Timer(1.0, cluster.end, ("lr-sweep-baseline",), {"log": "one\n"})
    hand.start()

    done = program.run("logs", "-f", "baseline").ended(0)

    hand.join()
    assert done.out == "one\n"
