"""The edge to kubectl against a stand-in that answers as a real one does: calls, preconditions, and every error in words."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from migctl.core.yaml_text import plain
from migctl.errors import Busy, HostError, MigctlError, PlanError
from migctl.kubectl.client import Kubectl
from migctl.kubectl.errors import translated
from migctl.programs import Answer, ask
from migctl.render.kubernetes import manifests
from tests.support import exports
from tests.support.kubernetes_cluster import KubernetesCluster

pytest.importorskip("kubernetes_validate")

MIXED = "kubernetes: {mig_strategy: mixed}\n"
ONE = MIXED + "name: night\njobs: {a: {image: i, profile: 1g.5gb, cpus: 2, command: x}}"


@pytest.fixture
def cluster(tmp_path: Path) -> KubernetesCluster:
    return KubernetesCluster(tmp_path / "cluster")


def client(cluster: KubernetesCluster, **fields: Any) -> Kubectl:
    path = os.environ["PATH"]
    return Kubectl(environ=cluster.environ(path), **{"context": "lab-cluster", "namespace": "lab", **fields})


def objects(text: str) -> list[Any]:
    wanted = exports.plan(text)
    return [plain(one) for one in manifests(wanted, exports.cluster(wanted), exports.EXPORTER)]


def test_a_dry_run_asks_and_keeps_nothing(cluster: KubernetesCluster) -> None:
    client(cluster).apply(objects(ONE), dry_run=True)

    assert cluster.objects("Job") == []
    (call,) = cluster.calls("apply")
    assert {"--server-side", "--field-manager=migctl", "--validate=strict", "--dry-run=server"} <= set(call)
    assert {"--context=lab-cluster", "--namespace=lab"} <= set(call)


def test_what_was_applied_is_seen_with_its_pods(cluster: KubernetesCluster) -> None:
    kubectl = client(cluster)
    kubectl.apply(objects(ONE), dry_run=False)

    seen = kubectl.seen("app.kubernetes.io/part-of=night")

    assert [(job.name, job.namespace, job.indexed) for job in seen.jobs] == [("night-a", "lab", False)]
    assert [(pod.owner_uid, pod.phase, pod.node) for pod in seen.pods] == [(seen.jobs[0].uid, "Running", "n1")]
    assert kubectl.seen("app.kubernetes.io/part-of=other").jobs == ()


def test_applying_the_same_again_changes_nothing(cluster: KubernetesCluster) -> None:
    kubectl = client(cluster)
    kubectl.apply(objects(ONE), dry_run=False)
    before = cluster.objects("Job")

    kubectl.apply(objects(ONE), dry_run=False)

    assert cluster.objects("Job") == before


def test_where_kubectl_would_go_is_read_from_its_configuration(cluster: KubernetesCluster) -> None:
    assert client(cluster, context="", namespace="").surroundings().namespace == "lab"
    assert client(cluster, context="other", namespace="").surroundings().namespace == "default"
    with pytest.raises(HostError, match=r"no context x; there are lab-cluster, other"):
        client(cluster, context="x").surroundings()


def test_only_this_very_job_is_deleted(cluster: KubernetesCluster) -> None:
    kubectl = client(cluster)
    kubectl.apply(objects(ONE), dry_run=False)
    (job,) = kubectl.seen("").jobs

    kubectl.delete_job(replace(job, uid="of-one-before"))
    assert cluster.names("Job") == ["night-a"]
    kubectl.delete_job(job)
    assert (cluster.names("Job"), cluster.names("Pod")) == ([], [])
    kubectl.delete_job(job)


def test_only_this_very_job_is_changed(cluster: KubernetesCluster) -> None:
    kubectl = client(cluster)
    kubectl.apply(objects(ONE), dry_run=False)
    (job,) = kubectl.seen("").jobs

    assert not kubectl.patch(replace(job, uid="of-one-before"), {"spec": {"suspend": True}}, {})
    assert not cluster.objects("Job")[0]["spec"]["suspend"]
    assert kubectl.patch(job, {"spec": {"suspend": True}}, {"note": "1"})
    assert cluster.objects("Pod") == []
    assert kubectl.seen("").jobs[0].annotations["note"] == "1"


def test_whoever_may_not_see_nodes_and_events_goes_without(cluster: KubernetesCluster) -> None:
    cluster.set(forbidden=["list nodes", "list events"], pod_refusal="exceeded quota: gpus")
    kubectl = client(cluster)
    kubectl.apply(objects(ONE), dry_run=False)

    assert kubectl.nodes() is None
    assert kubectl.seen("").troubles == ()


def test_warnings_are_asked_for_where_a_job_has_no_pod(cluster: KubernetesCluster) -> None:
    cluster.set(pod_refusal="exceeded quota: gpus, requested: requests.nvidia.com/mig-1g.5gb=1")
    kubectl = client(cluster)
    kubectl.apply(objects(ONE), dry_run=False)

    seen = kubectl.seen("")

    assert {trouble.owner_uid for trouble in seen.troubles} == {seen.jobs[0].uid}
    assert "exceeded quota: gpus" in seen.troubles[0].message


class Spoilt:
    """What a test breaks, and what is said then."""

    def __init__(self, kind: type[MigctlError], id: str, told: str, hint: str = "", **state: Any) -> None:  # noqa: A002
        self.kind, self.id, self.told, self.hint, self.state = kind, id, told, hint, state


REFUSED = {
    "no namespace": Spoilt(
        HostError, "no-namespace", 'namespaces "lab" not found', "kubectl create namespace lab", namespaces=[]
    ),
    "not allowed": Spoilt(
        HostError, "cluster-forbids", 'User "ada" cannot patch', "kubectl auth can-i --list", forbidden=["patch jobs"]
    ),
    "not allowed to make any": Spoilt(
        HostError, "cluster-forbids", 'User "ada" cannot create', "kubectl auth can-i --list", forbidden=["create jobs"]
    ),
    "quota of Jobs": Spoilt(Busy, "quota", "exceeded quota: few", "kubectl describe quota few", job_quota=0),
    "no cluster": Spoilt(Busy, "cluster-unreachable", "was refused", "kubectl cluster-info", contexts={}, current=""),
    "no context": Spoilt(HostError, "no-context", 'context "lab-cluster" does not exist', contexts={}, current="x"),
    "not logged in": Spoilt(
        HostError,
        "cluster-login",
        "You must be logged in",
        "log in",
        failing={"apply": {"after": 0, "text": "error: You must be logged in to the server (Unauthorized)"}},
    ),
    "a policy": Spoilt(
        PlanError,
        "cluster-policy",
        "denied the request",
        failing={"apply": {"after": 0, "text": 'Error from server: admission webhook "x" denied the request: no'}},
    ),
    "a certificate": Spoilt(
        HostError,
        "cluster-certificate",
        "unknown authority",
        failing={
            "apply": {
                "after": 0,
                "text": "Unable to connect to the server: tls: failed to verify certificate: x509: signed by unknown authority",
            }
        },
    ),
    "too many requests": Spoilt(
        Busy,
        "cluster-overloaded",
        "etcdserver",
        failing={"apply": {"after": 0, "text": "Error from server: etcdserver: request timed out"}},
    ),
    "anything": Spoilt(HostError, "kubectl-failed", "odd", failing={"apply": {"after": 0, "text": "error: odd"}}),
}


@pytest.mark.parametrize("which", REFUSED)
def test_an_error_of_kubectl_says_what_to_do(cluster: KubernetesCluster, which: str) -> None:
    spoilt = REFUSED[which]
    cluster.set(**spoilt.state)
    kubectl = client(cluster, context="" if which == "no cluster" else "lab-cluster")

    with pytest.raises(spoilt.kind) as refused:
        kubectl.apply(objects(ONE), dry_run=False)

    assert type(refused.value) is spoilt.kind
    assert refused.value.id == spoilt.id
    assert spoilt.told in refused.value.message
    assert spoilt.hint in (refused.value.hint or "")
    assert not refused.value.message.startswith(("error:", "Error from"))


def test_a_job_of_somebody_else_is_not_taken_over(cluster: KubernetesCluster) -> None:
    kubectl = client(cluster)
    kubectl.apply(objects(ONE.replace("command: x", "command: y")), dry_run=False)

    with pytest.raises(Busy, match="field is immutable") as refused:
        kubectl.apply(objects(ONE), dry_run=False)

    assert refused.value.id == "name-taken"


def test_a_field_that_another_manager_has_is_left_to_it(cluster: KubernetesCluster) -> None:
    text = MIXED + "name: night\njobs: {a: {image: i, profile: 1g.5gb, cpus: 2, command: x, replicas: 2}}"
    kubectl = client(cluster)
    kubectl.apply(objects(text), dry_run=False)
    with cluster.changing() as state:
        (job,) = [o for o in state["objects"] if o["kind"] == "Job"]
        job["spec"]["parallelism"] = 1
        job["metadata"]["x-managers"]["parallelism"] = "kubectl"

    with pytest.raises(Busy, match=r'conflict with "kubectl" using batch/v1: \.spec\.parallelism'):
        kubectl.apply(objects(text), dry_run=False)


def test_a_field_that_the_server_does_not_know_is_refused(cluster: KubernetesCluster) -> None:
    (one,) = objects(ONE)
    one["spec"]["parallelisms"] = 1

    with pytest.raises(HostError, match="field not declared in schema") as refused:
        client(cluster).apply([one], dry_run=False)

    assert refused.value.id == "cluster-too-old"


def test_claims_need_a_cluster_that_has_them(cluster: KubernetesCluster) -> None:
    cluster.set(dra=False)
    made = objects("kubernetes: {dra: true}\nname: n\njobs: {a: {image: i, profile: 1g.5gb, cpus: 2, command: x}}")

    with pytest.raises(HostError, match="no matches for kind") as refused:
        client(cluster).apply(made, dry_run=True)

    assert refused.value.id == "no-dra"


def test_without_kubectl_it_is_said_what_it_is_for(tmp_path: Path) -> None:
    with pytest.raises(HostError) as refused:
        Kubectl(environ={"PATH": str(tmp_path)}).surroundings()

    assert refused.value.id == "no-kubectl"
    assert "migctl export kubernetes" in str(refused.value.hint)


def test_a_wrapper_that_prints_something_else_is_told(cluster: KubernetesCluster) -> None:
    (cluster.bin / "kubectl").write_text("#!/bin/sh\necho hello\n")

    with pytest.raises(HostError, match="printed no JSON object, but 'hello'"):
        client(cluster).surroundings()


def test_lines_of_the_program_s_own_log_are_no_message() -> None:
    noise = 'E1130 15:39:00.000 12 memcache.go:265] "Unhandled Error" err="couldn\'t get the list"\n'
    told = "The connection to the server 10.0.0.1:6443 was refused - did you specify the right host or port?\n"

    error = translated(Answer(1, "", "", noise + noise + told), "asking", "lab/default")

    assert error.id == "cluster-unreachable"
    assert error.message == f"asking: {told.strip()}"


def test_a_log_is_read_as_it_is(cluster: KubernetesCluster) -> None:
    kubectl = client(cluster)
    kubectl.apply(objects(ONE), dry_run=False)
    cluster.say("night-a", "one\ntwo\n")
    (pod,) = kubectl.seen("").pods

    process = kubectl.log_process(pod.name, follow=False, tail=1, timestamps=False)

    assert process.communicate()[0] == b"two\n"
    assert cluster.calls("logs")[0][0] == "--request-timeout=0s"


def test_a_log_is_followed_from_a_moment_on_with_times(cluster: KubernetesCluster) -> None:
    kubectl = client(cluster)
    kubectl.apply(objects(ONE), dry_run=False)
    cluster.say("night-a", "one\n")
    (pod,) = kubectl.seen("").pods
    time.sleep(1.1)
    since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    process = kubectl.log_process(pod.name, follow=True, tail=None, timestamps=True, since=since)
    cluster.say("night-a", "one\ntwo\n")
    time.sleep(0.5)
    assert process.poll() is None
    cluster.end("night-a", log="one\ntwo\nthree\n")

    lines = process.communicate(timeout=10)[0].decode().splitlines()
    assert [line.split(" ")[1] for line in lines] == ["two", "three"]
    assert all(line.split(" ")[0] >= since.rstrip("Z") for line in lines)


ASKED = {
    "a container that it has not": (["logs", "pod/POD", "--container=sidecar"], "sidecar is not valid for pod"),
    "a field that is none": (["get", "events", "--field-selector=colour=red", "-o", "json"], "not supported: colour"),
    "another format": (["get", "pods", "-o", "yaml"], "does not know -o yaml"),
    "a strategic patch": (["patch", "jobs.batch", "night-a", "-o", "name", "-p", "{}"], "no strategic merge"),
    "a dry run of the client": (["apply", "--server-side", "--field-manager=x", "--dry-run=client", "-o", "name"], "client"),
}  # fmt: skip


@pytest.mark.parametrize("which", ASKED)
def test_what_the_stand_in_cannot_do_it_refuses(cluster: KubernetesCluster, which: str) -> None:
    words, told = ASKED[which]
    kubectl = client(cluster)
    kubectl.apply(objects(ONE), dry_run=False)
    (pod,) = kubectl.seen("").pods

    answer = ask(["kubectl", *(word.replace("POD", pod.name) for word in words)], kubectl.environ, 30.0, b"{}")

    assert answer.code == 1
    assert told in answer.errors


def test_only_the_events_that_were_asked_for_are_told(cluster: KubernetesCluster) -> None:
    cluster.set(pod_refusal="exceeded quota: gpus")
    kubectl = client(cluster)
    kubectl.apply(objects(ONE), dry_run=False)
    with cluster.changing() as state:
        (one,) = [o for o in state["objects"] if o["kind"] == "Event"]
        one["type"] = "Normal"
    cluster.set(pod_refusal="")

    answer = ask(["kubectl", "get", "events", "--field-selector=type=Warning", "-o", "json"], kubectl.environ, 30.0)

    assert json.loads(answer.output)["items"] == []


def test_whoever_may_not_read_logs_is_told_so(cluster: KubernetesCluster) -> None:
    kubectl = client(cluster)
    kubectl.apply(objects(ONE), dry_run=False)
    (pod,) = kubectl.seen("").pods
    cluster.set(forbidden=["get pods/log"])

    process = kubectl.log_process(pod.name, follow=False, tail=1, timestamps=False)
    failure = kubectl.log_failure(process.wait(), process.communicate()[1])

    assert failure is not None
    assert failure.id == "cluster-forbids"
    assert 'cannot get resource "pods/log"' in failure.message


def test_what_is_there_is_changed_without_the_right_to_make_more(cluster: KubernetesCluster) -> None:
    kubectl = client(cluster)
    kubectl.apply(objects(ONE), dry_run=False)
    cluster.set(forbidden=["create jobs"])

    kubectl.apply(objects(ONE), dry_run=False)

    assert cluster.names("Job") == ["night-a"]
