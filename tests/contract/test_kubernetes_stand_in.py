"""The stand-in for a cluster is no kinder than a cluster: what it must refuse, leave pending or end."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.kubectl_program import INDEX, Cluster, Refused
from tests.support.kubernetes_cluster import SLICE, KubernetesCluster, node

pytest.importorskip("kubernetes_validate")

FREE = node("free")
TAINT = {"key": "team", "value": "blue", "effect": "NoSchedule"}


def job(name: str = "a", *, pod: Any = None, limits: Any = None, **spec: Any) -> Any:
    """A Job as migctl writes them, with this in its spec and its pod's."""
    resources = {"limits": {"cpu": "2", "memory": "4Gi", SLICE: 1, **(limits or {})}}
    container = {"name": "job", "image": "i", "resources": resources}
    template = {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [container], **(pod or {})}}
    whole = {"backoffLimit": 0, "template": template, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": whole}


@pytest.fixture
def cluster(tmp_path: Path) -> KubernetesCluster:
    return KubernetesCluster(tmp_path / "cluster")


def apply(cluster: KubernetesCluster, *given: Any) -> None:
    with cluster.changing() as state:
        for one in given:
            Cluster(state).apply(one, "lab", "migctl", dry_run=False)
        Cluster(state).settle()


def pod_of(cluster: KubernetesCluster) -> Any:
    (pod,) = cluster.objects("Pod")
    return pod


NOT_TAKEN = {
    "memory": ([node("n1", memory="3Gi")], job(), "1 Insufficient memory", "not helpful"),
    "cpus and memory": ([node("n1", cpus=1, memory="1024Mi")], job(), "1 Insufficient cpu, 1 Insufficient memory", "not"),
    "half CPUs": ([node("n1", cpus=1)], job(limits={"cpu": "1500m"}), "1 Insufficient cpu", "not helpful"),
    "a label": ([FREE], job(pod={"nodeSelector": {"rack": "7"}}), "1 node(s) didn't match Pod's node affinity/selector", ""),
    "a taint": ([node("n1", taints=[TAINT])], job(), "1 node(s) had untolerated taint {team: blue}", "not helpful"),
    "a cordon": ([node("n1", unschedulable=True)], job(), "1 node(s) were unschedulable", "not helpful"),
    "a device": ([node("n1", {"nvidia.com/gpu": 1})], job(), f"1 Insufficient {SLICE}", "not helpful"),
    "no node": ([], job(), "no nodes available to schedule pods", ""),
}  # fmt: skip


@pytest.mark.parametrize("which", NOT_TAKEN)
def test_a_pod_that_no_node_takes_stays_pending_and_says_why(cluster: KubernetesCluster, which: str) -> None:
    nodes, one, told, preemption = NOT_TAKEN[which]
    cluster.set(nodes=nodes)

    apply(cluster, one)

    pod = pod_of(cluster)
    (condition,) = pod["status"]["conditions"]
    assert pod["status"]["phase"] == "Pending"
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert told in condition["message"]
    assert preemption in condition["message"]


TAKEN = {
    "a tolerated taint": ([node("n1", taints=[TAINT])], {"tolerations": [{"key": "team", "operator": "Exists"}]}),
    "its very value": ([node("n1", taints=[TAINT])], {"tolerations": [{"key": "team", "value": "blue"}]}),
    "a wish": ([node("n1", taints=[{**TAINT, "effect": "PreferNoSchedule"}])], {}),
    "its label": ([FREE], {"nodeSelector": {"nvidia.com/gpu.count": "1"}}),
    "another node": ([node("n1", memory="1Gi"), node("n2")], {}),
}


@pytest.mark.parametrize("which", TAKEN)
def test_a_pod_runs_on_the_first_node_that_takes_it(cluster: KubernetesCluster, which: str) -> None:
    nodes, spec = TAKEN[which]
    cluster.set(nodes=nodes)

    apply(cluster, job(pod=spec))

    assert pod_of(cluster)["spec"]["nodeName"] == nodes[-1]["metadata"]["name"]


def test_memory_of_pods_that_run_is_not_free(cluster: KubernetesCluster) -> None:
    cluster.set(nodes=[node("n1", memory="6Gi")])

    apply(cluster, job("a"), job("b"))

    (waiting,) = [pod for pod in cluster.objects("Pod") if pod["status"]["phase"] == "Pending"]
    assert waiting["status"]["conditions"][0]["message"] == (
        "0/1 nodes are available: 1 Insufficient memory. "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_a_pod_that_has_had_its_time_fails(cluster: KubernetesCluster) -> None:
    apply(cluster, job(pod={"activeDeadlineSeconds": 1}))
    assert pod_of(cluster)["status"]["phase"] == "Running"

    time.sleep(1.1)

    status = pod_of(cluster)["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143


def test_a_job_that_has_had_its_time_fails_when_its_pods_are_gone(cluster: KubernetesCluster) -> None:
    cluster.set(stubborn=True)
    apply(cluster, job(pod={"terminationGracePeriodSeconds": 1}, activeDeadlineSeconds=1))
    time.sleep(1.1)

    def told() -> list[tuple[str, str, str]]:
        (one,) = cluster.objects("Job")
        return [(c["type"], c["reason"], c["message"]) for c in one["status"]["conditions"]]

    why = ("DeadlineExceeded", "Job was active longer than specified deadline")
    assert told() == [("FailureTarget", *why)]
    time.sleep(1.1)
    assert told() == [("FailureTarget", *why), ("Failed", *why)]
    assert cluster.names("Pod") == []


def patch(cluster: KubernetesCluster, change: Any) -> None:
    with cluster.changing() as state:
        Cluster(state).patch("jobs.batch", "a", "lab", change, "somebody")


INDEXED = {"completionMode": "Indexed", "completions": 3, "parallelism": 3, "backoffLimitPerIndex": 0}
UNCHANGING = {
    "completions": ({}, {"completions": 2}, "spec.completions: Invalid value: 2: field is immutable"),
    "completions alone": (INDEXED, {"completions": 2}, "can only be modified in tandem with spec.parallelism"),
    "a policy": ({}, {"podFailurePolicy": {"rules": []}}, "spec.podFailurePolicy: Invalid value: {...}: field is immutable"),
    "the mode": (INDEXED, {"backoffLimitPerIndex": 1}, "spec.backoffLimitPerIndex: Invalid value: 1: field is immutable"),
    "the template": (
        {},
        {"template": {**job()["spec"]["template"], "metadata": {"labels": {"x": "y"}}}},
        "spec.template: Invalid value: {...}: field is immutable",
    ),
}  # fmt: skip


@pytest.mark.parametrize("which", UNCHANGING)
@pytest.mark.parametrize("by", ["apply", "patch"])
def test_what_never_changes_of_a_job_is_refused(cluster: KubernetesCluster, which: str, by: str) -> None:
    spec, change, told = UNCHANGING[which]
    apply(cluster, job(**spec))
    before = cluster.objects("Job")

    tries = {
        "apply": lambda: apply(cluster, job(**{**spec, **change})),
        "patch": lambda: patch(cluster, {"spec": change}),
    }
    with pytest.raises(Refused, match=re.escape(told)):
        tries[by]()

    assert cluster.objects("Job") == before


def test_an_elastic_job_has_as_many_as_run_beside_each_other(cluster: KubernetesCluster) -> None:
    apply(cluster, job(**INDEXED))

    patch(cluster, {"spec": {"completions": 2, "parallelism": 2}})

    assert cluster.objects("Job")[0]["spec"]["completions"] == 2


BAD_PATCHES = {
    "a label": ({"metadata": {"labels": {"x": "not a value"}}}, "label x"),
    "an annotation": ({"metadata": {"annotations": {"x": 1}}}, "annotation x"),
    "a field": ({"spec": {"suspended": True}}, "field not declared in schema"),
    "another uid": ({"metadata": {"uid": "x"}}, "metadata.uid"),
    "another name": ({"metadata": {"name": "b"}}, "does not match the name on the URL"),
}


@pytest.mark.parametrize("which", BAD_PATCHES)
def test_a_patch_is_checked_as_an_object_is(cluster: KubernetesCluster, which: str) -> None:
    change, told = BAD_PATCHES[which]
    apply(cluster, job())

    with pytest.raises(Refused, match=told):
        patch(cluster, change)


def test_whoever_patched_a_field_has_it(cluster: KubernetesCluster) -> None:
    apply(cluster, job(suspend=True))
    patch(cluster, {"spec": {"suspend": False}})

    with pytest.raises(Refused, match='conflict with "somebody"'):
        apply(cluster, job(suspend=True))


def born(cluster: KubernetesCluster, index: str) -> list[str]:
    """The phases of its pods, and how many failed before each."""
    notes = [(p["metadata"]["annotations"], p["status"]["phase"]) for p in cluster.objects("Pod")]
    return [f"{n['batch.kubernetes.io/job-index-failure-count']} {phase}" for n, phase in notes if n[INDEX] == index]


def test_a_failed_pods_successor_comes_later_each_time(cluster: KubernetesCluster) -> None:
    apply(cluster, job(**{**INDEXED, "completions": 2, "parallelism": 1, "backoffLimitPerIndex": 2}))

    for attempt, pause_s in enumerate((0.6, 1.1)):
        cluster.end("a", 1, index=0)
        failed = [f"{n} Failed" for n in range(attempt + 1)]
        assert (born(cluster, "0"), born(cluster, "1")) == (failed, [])
        time.sleep(pause_s)
        assert born(cluster, "0") == [*failed, f"{attempt + 1} Running"]
    cluster.end("a", 1, index=0)

    assert born(cluster, "1") == ["0 Running"]


def test_a_job_of_one_pod_backs_off_too(cluster: KubernetesCluster) -> None:
    cluster.set(back_off_s=60)
    apply(cluster, job(backoffLimit=1))

    cluster.end("a", 1)

    assert len(cluster.names("Pod")) == 1
    cluster.set(back_off_s=0)
    assert len(cluster.names("Pod")) == 2
