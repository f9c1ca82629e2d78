"""Each job of a Kubernetes Job as it is now, decided from the Job, its pods and the cluster's warnings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from migctl.core.cluster.clusterrun import ClusterRun
from migctl.core.cluster.kubernetes_ends import failure
from migctl.core.cluster.kubernetes_objects import (
    AFTER,
    ALL,
    BEGUN,
    JOBS,
    STOPPED,
    TOKEN,
    UNIT,
    KubernetesJob,
    Pod,
    Trouble,
)
from migctl.core.cluster.kubernetes_turns import Standing, decode, standing
from migctl.core.cluster.kubernetes_waits import pending, unborn
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.runs.record import JobState

_OVER = ("Succeeded", "Failed")
"""Phases of a pod that will not change any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One job as it is seen; times are Unix seconds."""

    state: JobState
    exit_code: int | None = None
    reason: str | None = None
    node: str | None = None
    pods: tuple[str, ...] = ()
    """Names of its pods that are there, oldest first."""
    started_at: float | None = None
    finished_at: float | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything of a run that the cluster tells."""

    jobs: Sequence[KubernetesJob]
    pods: Sequence[Pod]
    troubles: Sequence[Trouble] = ()


def of_run(seen: Seen, run: ClusterRun) -> Seen:
    """Only what the run made: under the name and with the uid that it has still; a copy that somebody made has neither."""
    uids = {job.unit: job.uid for job in (*run.past, *run.jobs) if job.uid}
    jobs = [
        job
        for job in seen.jobs
        if job.labels.get(TOKEN) == run.token
        and job.annotations.get(UNIT) == job.name
        and uids.get(job.name, job.uid) == job.uid
    ]
    owners = {job.uid for job in jobs}
    return Seen(jobs, [pod for pod in seen.pods if pod.owner_uid in owners], seen.troubles)


def names_of(job: KubernetesJob) -> tuple[str, ...]:
    """The jobs in a Job, by index; nothing where its note of them is gone."""
    try:
        found = json.loads(job.annotations.get(JOBS, "[]"))
    except ValueError:
        return ()
    return tuple(found) if isinstance(found, list) and all(isinstance(name, str) for name in found) else ()


def sights(seen: Seen) -> Mapping[str, tuple[Sight, ...]]:
    """Name of a Job → its jobs by index."""
    pods: dict[str, dict[int | None, list[Pod]]] = {}
    for pod in sorted(seen.pods, key=lambda pod: (pod.created_at or 0.0, pod.name)):
        pods.setdefault(pod.owner_uid, {}).setdefault(pod.index, []).append(pod)
    found: dict[str, tuple[Sight, ...]] = {}
    for job in seen.jobs:
        own = pods.get(job.uid, {})
        indexes: Iterable[int | None] = range(len(names_of(job))) if job.indexed else (None,)
        found[job.name] = tuple(_sight(job, index, own.get(index, ()), seen.troubles) for index in indexes)
    for job in seen.jobs:
        if AFTER in job.annotations and BEGUN not in job.annotations and job.suspended:
            found[job.name] = tuple(_in_turn(job, sight, found) for sight in found[job.name])
    return found


def _sight(job: KubernetesJob, index: int | None, pods: Sequence[Pod], troubles: Sequence[Trouble]) -> Sight:
    names = tuple(pod.name for pod in pods)
    good = next((pod for pod in pods if pod.phase == "Succeeded"), None)
    live = next((pod for pod in reversed(pods) if pod.phase not in _OVER), None)
    bad = next((pod for pod in reversed(pods) if pod.phase == "Failed"), None)
    if good is not None or _completed(job, index):
        return _ended(JobState.SUCCEEDED, good, job, names)
    if live is not None:
        return replace(_alive(live, troubles), pods=names)
    if _is_stopped(job, index):
        return replace(_ended(JobState.STOPPED, bad, job, names), reason="stopped by migctl stop")
    if bad is not None and (_given_up(job, index) or _tries(job, pods) > job.retries or job.leaving):
        return replace(_ended(JobState.FAILED, bad, job, names), reason=failure(bad))
    if _given_up(job, index):
        return replace(_ended(JobState.FAILED, None, job, names), reason=_words(job))
    if bad is not None:
        why = f"an attempt of it failed: {failure(bad)}; Kubernetes starts the next one, later each time"
        return Sight(state=JobState.QUEUED, reason=why, pods=names, node=bad.node or None)
    if job.leaving:
        return Sight(state=JobState.STOPPED, reason="its Job is being deleted", pods=names)
    return Sight(state=JobState.QUEUED, reason=unborn(job, troubles), pods=names)


def _in_turn(job: KubernetesJob, sight: Sight, found: Mapping[str, Sequence[Sight]]) -> Sight:
    """A job that is held back until others have ended."""
    if sight.state is not JobState.QUEUED:
        return sight
    at = turn_of(job, found)
    if at.missing:
        return replace(sight, state=JobState.STOPPED, reason=f"will not run: {at.missing}")
    if at.waits_for:
        return replace(sight, reason=f"waits for {', '.join(at.waits_for)}")
    return replace(sight, reason="its turn has come; migctl up starts it")


def turn_of(job: KubernetesJob, found: Mapping[str, Sequence[Sight]]) -> Standing:
    """Whether the turn of a Job that waits for others has come."""

    def states(unit: str, index: int | None) -> Sequence[JobState]:
        there = [sight.state for sight in found.get(unit, ())]
        return there if index is None else there[index : index + 1]

    return standing(decode(job.annotations.get(AFTER, "")), states)


def _alive(pod: Pod, troubles: Sequence[Trouble]) -> Sight:
    container = pod.container
    node = pod.node or None
    if pod.reason == "NodeLost" or pod.phase == "Unknown":
        why = f"its node {pod.node} does not answer; kubectl describe node {pod.node}"
        return Sight(state=JobState.RUNNING, reason=why, node=node, started_at=container.started_at)
    leaving = "it is being ended" if pod.leaving else None
    if container.state in ("running", "terminated"):
        return Sight(state=JobState.RUNNING, reason=leaving, node=node, started_at=container.started_at)
    state = JobState.STARTING if pod.node else JobState.QUEUED
    return Sight(state=state, reason=leaving or pending(pod, troubles), node=node)


def _ended(state: JobState, pod: Pod | None, job: KubernetesJob, names: tuple[str, ...]) -> Sight:
    if pod is None:
        code = 0 if state is JobState.SUCCEEDED else None
        return Sight(state=state, exit_code=code, finished_at=job.finished_at, pods=names)
    container = pod.container
    code = 0 if state is JobState.SUCCEEDED else container.exit_code
    return Sight(
        state=state,
        exit_code=code,
        node=pod.node or None,
        started_at=container.started_at,
        finished_at=container.finished_at or job.finished_at,
        pods=names,
    )


def _completed(job: KubernetesJob, index: int | None) -> bool:
    if index is not None:
        return index in job.completed
    return job.condition("Complete", "SuccessCriteriaMet") is not None


def _given_up(job: KubernetesJob, index: int | None) -> bool:
    """Whether Kubernetes makes no further attempt."""
    return (index is not None and index in job.failed) or job.condition("Failed", "FailureTarget") is not None


def _tries(job: KubernetesJob, pods: Sequence[Pod]) -> int:
    """Failed attempts, also those whose pods are gone; a Job counts its own only after the pod shows it."""
    bad = [pod for pod in pods if pod.phase == "Failed"]
    told = max((pod.failures + 1 for pod in bad), default=0) if job.indexed else job.failures
    return max(len(bad), told)


def _is_stopped(job: KubernetesJob, index: int | None) -> bool:
    noted = job.annotations.get(STOPPED, "")
    if noted == ALL:
        return index is None or index not in job.failed
    return index is not None and index in stopped_indexes(noted)


def stopped_indexes(noted: str) -> CpuSet:
    """The indexes in that annotation; what is none of ours stops nothing."""
    try:
        return CpuSet.parse(noted)
    except ValueError:
        return CpuSet()


def _words(job: KubernetesJob) -> str:
    """What the Job controller says where no pod is left to ask."""
    condition = job.condition("Failed", "FailureTarget")
    if condition is None:
        return "failed; its pod is gone, and with it why"
    return f"{condition.reason}: {condition.message}" if condition.message else condition.reason
