"""What is made of a Job, its pods and the cluster's words: each job's state, why it waits, how it ended, and what may be ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from migctl.core.cluster.clusterrun import ClusterJob, ClusterRun
from migctl.core.cluster.clusters import EngineName
from migctl.core.cluster.kubernetes_ends import failure
from migctl.core.cluster.kubernetes_objects import (
    AFTER,
    JOBS,
    STOPPED,
    TOKEN,
    UNIT,
    Condition,
    Container,
    KubernetesJob,
    Pod,
    Trouble,
)
from migctl.core.cluster.kubernetes_states import Seen, Sight, of_run, sights
from migctl.core.cluster.kubernetes_stops import stops
from migctl.core.cluster.kubernetes_turns import Before, decode, encode
from migctl.core.cluster.kubernetes_waits import pending, unborn
from migctl.core.runs.record import JobState
from migctl.errors import PlanError

RUNNING = Container(state="running", started_at=100.0)


def job(name: str = "sweep", jobs: str = '["a"]', **fields: Any) -> KubernetesJob:
    annotations = {UNIT: name, JOBS: jobs, **fields.pop("annotations", {})}
    return KubernetesJob(
        name=name, namespace="lab", uid=f"uid-{name}", annotations=annotations, labels={TOKEN: "t"}, **fields
    )


def pod(phase: str = "Running", **fields: Any) -> Pod:
    name = fields.pop("name", "sweep-x")
    return Pod(name=name, uid=f"uid-{name}", owner_uid=fields.pop("owner_uid", "uid-sweep"), phase=phase, **fields)


def ended(code: int, reason: str = "Error", **fields: Any) -> Pod:
    container = Container(state="terminated", exit_code=code, reason=reason, started_at=100.0, finished_at=160.0)
    return pod("Failed" if code else "Succeeded", container=container, node="n1", **fields)


def one(there: KubernetesJob, *pods: Pod, troubles: tuple[Trouble, ...] = ()) -> Sight:
    (sight,) = sights(Seen([there], pods, troubles))[there.name]
    return sight


COMPLETE = Condition("Complete", True)
FAILED = Condition("Failed", True, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
STATES: dict[str, tuple[KubernetesJob, tuple[Pod, ...], JobState, int | None]] = {
    "nothing yet": (job(), (), JobState.QUEUED, None),
    "no node has room": (
        job(),
        (pod("Pending", conditions=(Condition("PodScheduled", False, "Unschedulable", "0/1 nodes"),)),),
        JobState.QUEUED,
        None,
    ),
    "its image is pulled": (job(), (pod("Pending", node="n1"),), JobState.STARTING, None),
    "it runs": (job(active=1), (pod(container=RUNNING, node="n1"),), JobState.RUNNING, None),
    "it succeeded": (job(conditions=(COMPLETE,)), (ended(0),), JobState.SUCCEEDED, 0),
    "it succeeded and its pod is gone": (job(conditions=(COMPLETE,)), (), JobState.SUCCEEDED, 0),
    "it failed": (job(conditions=(FAILED,)), (ended(3),), JobState.FAILED, 3),
    "the controller has not counted it yet": (job(), (ended(3),), JobState.FAILED, 3),
    "it failed and is tried again": (job(retries=2, failures=1), (ended(3),), JobState.QUEUED, None),
    "the second attempt runs": (
        job(retries=2, failures=1),
        (ended(3), pod(name="y", container=RUNNING)),
        JobState.RUNNING,
        None,
    ),
    "it failed and its pod is gone": (job(conditions=(FAILED,)), (), JobState.FAILED, None),
    "its node is lost": (job(), (pod(reason="NodeLost", node="n1", container=RUNNING),), JobState.RUNNING, None),
    "stopped": (job(suspended=True, annotations={STOPPED: "all"}), (), JobState.STOPPED, None),
    "being stopped": (
        job(annotations={STOPPED: "all"}),
        (pod(container=RUNNING, leaving=True),),
        JobState.RUNNING,
        None,
    ),
    "stopped after it succeeded": (
        job(conditions=(COMPLETE,), annotations={STOPPED: "all"}),
        (),
        JobState.SUCCEEDED,
        0,
    ),
    "somebody deletes it": (job(leaving=True), (), JobState.STOPPED, None),
}


@pytest.mark.parametrize("which", STATES)
def test_a_job_has_the_state_that_the_cluster_tells(which: str) -> None:
    there, pods, state, code = STATES[which]

    sight = one(there, *pods)

    assert (sight.state, sight.exit_code) == (state, code)


def test_each_index_of_an_indexed_job_is_a_job_of_its_own() -> None:
    there = job(
        jobs='["a", "b", "c", "d", "e"]',
        indexed=True,
        completed=frozenset({0}),
        failed=frozenset({1}),
        active=1,
        annotations={STOPPED: "4"},
    )
    pods = (
        ended(0, name="p0", index=0),
        ended(7, name="p1", index=1),
        pod(name="p2", index=2, container=RUNNING, node="n2"),
        ended(143, name="p4", index=4),
    )

    found = sights(Seen([there], pods))["sweep"]

    assert [s.state.value for s in found] == ["succeeded", "failed", "running", "queued", "stopped"]
    assert [s.exit_code for s in found] == [0, 7, None, None, 143]
    assert found[2].node == "n2"
    assert found[3].reason == "waits for its turn among the jobs of its Job"


def test_what_failed_before_the_whole_job_was_stopped_stays_failed() -> None:
    there = job(jobs='["a", "b"]', indexed=True, failed=frozenset({0}), suspended=True, annotations={STOPPED: "all"})

    found = sights(Seen([there], (ended(7, index=0),)))["sweep"]

    assert [s.state for s in found] == [JobState.FAILED, JobState.STOPPED]


SHORT = (
    "0/3 nodes are available: 1 node(s) had untolerated taint {team: other}, 2 Insufficient nvidia.com/mig-1g.10gb. "
    "preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
)
WAITS = {
    "a device": (
        SHORT,
        ("no node has nvidia.com/mig-1g.10gb free", "for ever where no node offers it", "kubectl describe nodes"),
    ),
    "CPUs": ("0/1 nodes are available: 1 Insufficient cpu.", ("Insufficient cpu", "fewer cpus")),
    "memory": ("0/1 nodes are available: 1 Insufficient memory.", ("a smaller mem_limit",)),
    "a label": ("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.", ("node_selector",)),
    "a volume": (
        '0/1 nodes are available: persistentvolumeclaim "data" not found.',
        ("make the PersistentVolumeClaim",),
    ),
    "a claim": ("0/1 nodes are available: 1 cannot allocate all claims.", ("resourceslices",)),
    "a taint": (
        "0/1 nodes are available: 1 node(s) had untolerated taint {a: b}.",
        ("administrator can lift the taint",),
    ),
}


@pytest.mark.parametrize("which", WAITS)
def test_a_pod_that_no_node_takes_says_what_is_lacking_and_what_helps(which: str) -> None:
    message, told = WAITS[which]

    reason = pending(pod("Pending", conditions=(Condition("PodScheduled", False, "Unschedulable", message),)))

    assert reason is not None
    assert all(part in reason for part in told), reason
    assert "preemption" not in reason


IMAGES = {
    "a wrong name": ("ErrImagePull", "failed to resolve reference: x: not found", "see image; the node tries again"),
    "a password": ("ImagePullBackOff", "pull access denied, repository does not exist", "image_pull_secrets"),
    "a limit": ("ErrImagePull", "toomanyrequests: You have reached your pull rate limit", "limits anonymous pulls"),
    "never pulled": (
        "ErrImageNeverPull",
        "Container image is not present with pull policy of Never",
        "pull_policy: missing",
    ),
    "no name": ("InvalidImageName", "couldn't parse image name", "see image"),
    "a key": ("CreateContainerConfigError", 'secret "x" not found', "kubectl describe pod"),
}


@pytest.mark.parametrize("which", IMAGES)
def test_a_container_that_cannot_be_made_says_why(which: str) -> None:
    reason, message, told = IMAGES[which]

    found = pending(pod("Pending", node="n1", container=Container(state="waiting", reason=reason, message=message)))

    assert found is not None
    assert reason in found
    assert told in found


def test_a_warning_tells_where_the_container_says_nothing() -> None:
    warned = Trouble(
        "uid-sweep-x", "FailedMount", 'MountVolume.SetUp failed for volume "v": hostPath type check failed'
    )

    assert "FailedMount: MountVolume.SetUp failed" in str(pending(pod("Pending", node="n1"), (warned,)))
    assert pending(pod("Pending", node="n1")) is None


UNBORN = {
    "quota": (
        'Error creating: pods "s-" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/mig-1g.5gb=1, used: 2',
        "the namespace's quota gpus is used up",
    ),
    "pod security": (
        'Error creating: pods "s-" is forbidden: violates PodSecurity "restricted:latest": hostPath volumes',
        "the namespace's pod security refuses its pod",
    ),
    "priority": (
        'Error creating: pods "s-" is forbidden: no PriorityClass with name x was found',
        "kubectl get priorityclasses",
    ),
    "account": ('Error creating: pods "s-" is forbidden: serviceaccount "x" not found', 'serviceaccount "x" not found'),
}


@pytest.mark.parametrize("which", UNBORN)
def test_a_job_whose_pods_are_refused_says_by_what(which: str) -> None:
    message, told = UNBORN[which]

    assert told in str(unborn(job(), (Trouble("uid-sweep", "FailedCreate", message),)))


def test_a_suspended_job_of_a_queue_waits_for_kueue() -> None:
    there = replace(job(suspended=True), labels={"kueue.x-k8s.io/queue-name": "gpus"})

    assert "Kueue has not let it in" in str(one(there).reason)


ENDS: dict[str, tuple[Pod, tuple[str, ...]]] = {
    "memory": (ended(137, "OOMKilled", memory_limit="8Gi"), ("over its limit of 8Gi", "mem_limit")),
    "killed": (ended(137), ("SIGKILL", "exit code 137")),
    "terminated": (ended(143), ("somebody deleted its pod",)),
    "a code": (ended(3), ("exit code 3",)),
    "not found": (ended(127), ("its program was not found", "exit code 127")),
    "a start": (
        replace(
            ended(128, "StartError"),
            container=Container(state="terminated", exit_code=128, reason="StartError", message="exec: x"),
        ),
        ("could not be started: exec: x",),
    ),
    "a deadline": (pod("Failed", reason="DeadlineExceeded"), ("longer than its timeout",)),
    "eviction": (
        pod("Failed", reason="Evicted", message="The node was low on resource: memory"),
        ("evicted", "low on resource"),
    ),
    "no device": (
        pod("Failed", reason="UnexpectedAdmissionError", message="Allocate failed"),
        ("its node refused it",),
    ),
    "preemption": (
        replace(ended(143), conditions=(Condition("DisruptionTarget", True, "PreemptionByScheduler", "preempting"),)),
        ("PreemptionByScheduler", "retries"),
    ),
    "nothing": (pod("Failed"), ("before its container ran",)),
}


@pytest.mark.parametrize("which", ENDS)
def test_an_end_says_why_and_what_helps(which: str) -> None:
    gone, told = ENDS[which]

    assert all(part in failure(gone) for part in told), failure(gone)


def waiting(*befores: Before) -> KubernetesJob:
    return job("train", '["t"]', suspended=True, annotations={AFTER: encode(befores)})


TURNS = {
    "not yet": (job("prepare", '["p"]'), True, JobState.QUEUED, "waits for prepare"),
    "succeeded": (job("prepare", '["p"]', conditions=(COMPLETE,)), True, JobState.QUEUED, "its turn has come"),
    "failed": (
        job("prepare", '["p"]', conditions=(FAILED,)),
        True,
        JobState.STOPPED,
        "will not run: prepare, which it needs, failed",
    ),
    "ended": (job("prepare", '["p"]', conditions=(FAILED,)), False, JobState.QUEUED, "its turn has come"),
}


@pytest.mark.parametrize("which", TURNS)
def test_a_job_that_waits_for_another_says_how_that_stands(which: str) -> None:
    first, success, state, told = TURNS[which]
    second = waiting(Before("prepare", None, success, "prepare"))

    (sight,) = sights(Seen([second, first], ()))["train"]

    assert sight.state is state
    assert told in str(sight.reason)


def test_a_job_that_needs_one_that_is_gone_will_not_run() -> None:
    assert "is gone from the cluster" in str(one(waiting(Before("prepare"))).reason)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[["a"]]', "nonsense", '[["a", "b", true, "c"]]'])
def test_a_note_that_somebody_spoilt_waits_for_nothing(text: str) -> None:
    assert decode(text) == ()


def test_what_is_encoded_is_decoded() -> None:
    befores = (Before("a", None, True, "x"), Before("b", 3, False, 'ä"'))

    assert decode(encode(befores)) == befores


def test_only_what_the_run_made_is_its_own() -> None:
    run = ClusterRun(
        run="r",
        engine=EngineName.KUBERNETES,
        token="t",
        jobs=(ClusterJob(name="a", digest="", unit="sweep", uid="uid-sweep"),),
    )
    copy_with_another_name = replace(job("copy"), annotations=job().annotations)
    made_anew = replace(job(), uid="another")
    of_another_run = replace(job("other"), labels={TOKEN: "x"})
    own = job("just-made")

    found = of_run(Seen([copy_with_another_name, made_anew, of_another_run, own], (pod(owner_uid="another"),)), run)

    assert [one.name for one in found.jobs] == ["just-made"]
    assert found.pods == []


def test_a_job_is_stopped_as_a_whole_where_nothing_of_it_goes_on() -> None:
    there = job(jobs='["a", "b", "c"]', indexed=True, completed=frozenset({0}))
    seen = Seen([there], (pod(name="p1", index=1, container=RUNNING), pod(name="p2", index=2, container=RUNNING)))

    both = stops(seen, sights(seen), {"b", "c"})
    single = stops(seen, sights(seen), {"b"})

    assert (both.whole, both.single) == ((there,), ())
    assert [(s.name, s.index, s.pods) for s in single.single] == [("b", 1, ("p1",))]
    assert stops(seen, sights(seen), {"a"}) == stops(seen, sights(seen), ())


@pytest.mark.parametrize(("retries", "why"), [(0, "has not begun"), (2, "would be tried again")])
def test_one_of_an_indexed_job_that_would_start_nevertheless_is_not_stopped(retries: int, why: str) -> None:
    there = job(jobs='["a", "b"]', indexed=True, retries=retries)
    pods = (pod(name="p0", index=0, container=RUNNING),) if retries else ()
    seen = Seen([there], pods)

    with pytest.raises(PlanError, match=why) as refused:
        stops(seen, sights(seen), {"a"})

    assert "stop all jobs of it (a, b)" in str(refused.value.hint)
