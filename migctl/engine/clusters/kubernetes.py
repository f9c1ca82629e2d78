"""The engine for Kubernetes: Jobs through kubectl, everything that is asked for read back from the cluster itself."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from migctl import __version__
from migctl.core.cluster.clusterrun import ClusterJob, ClusterRun
from migctl.core.cluster.clusterturns import Turn
from migctl.core.cluster.kubernetes_objects import AFTER, ALL, BEGUN, CLAIMS, QUEUE, STOPPED, TOKEN, KubernetesJob, Pod
from migctl.core.cluster.kubernetes_states import Seen, Sight, names_of, of_run, sights, stopped_indexes, turn_of
from migctl.core.cluster.kubernetes_stops import Single, stops
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.plan import Plan
from migctl.core.runs.record import JobState
from migctl.core.yaml_text import plain
from migctl.engine.clusters import kubernetes_logs
from migctl.engine.clusters.kubernetes_shares import Shares, shares
from migctl.engine.session import Session
from migctl.errors import MigctlError, Notice, PartlyApplied
from migctl.kubectl.client import Kubectl
from migctl.render.exported import Exporter
from migctl.render.kubernetes import job_names, manifests
from migctl.render.kubernetes_marks import marks

_AT_ONCE = 8
"""kubectls beside each other: each is a process and a connection."""
_OVER = ("Succeeded", "Failed")
_MORE_S = 60.0
"""Longer than its grace a pod is waited for: the kubelet and the API server take some seconds of their own."""

T = TypeVar("T")


class KubernetesEngine:
    """Implements `engine.clusters.cluster.ClusterEngine`."""

    look_s = 2.0
    keeps_order = False

    def __init__(self, session: Session, folder: Path) -> None:
        self._session = session
        self._folder = folder
        self._shares: Shares | None = None

    def place(self, plan: Plan) -> str:
        """Context and namespace, as kubectl takes them now: a run stays where it is when the context is changed later."""
        settings = plan.kubernetes
        kubectl = Kubectl(
            environ=self._session.environ, context=settings.context or "", namespace=settings.namespace or ""
        )
        at = kubectl.surroundings()
        return f"{at.context}/{at.namespace}"

    def turns(self, plan: Plan) -> tuple[Sequence[Turn], Sequence[Notice]]:
        """The plan's jobs, with what the nodes tell in place of what it leaves open."""
        self._shares = shares(plan, self._at(self.place(plan)))
        return self._shares.turns, self._shares.notices

    def submit(
        self, plan: Plan, turns: Sequence[Turn], run: ClusterRun, save: Callable[[ClusterRun], None]
    ) -> ClusterRun:
        """Ask the server whether it takes everything, then apply it; what a failed call made is taken back."""
        kubectl = self._at(run.place)
        found = self._shares if self._shares is not None else shares(plan, kubectl)
        groups = [turn.group for turn in turns]
        names = job_names(plan, groups, {job.unit for job in (*run.jobs, *run.past)})
        settled = replace(plan, kubernetes=found.plan.kubernetes)
        caller = self._session.caller
        marked = marks(settled, turns, run, names)
        exporter = Exporter(f"{caller.uid}:{caller.gid}", caller.name, __version__)
        objects = [plain(one) for one in manifests(settled, turns, exporter, product=found.product, marks=marked)]
        kubectl.apply(objects, dry_run=True)
        try:
            kubectl.apply(objects, dry_run=False)
            made = _seen(kubectl, run)
        except (MigctlError, KeyboardInterrupt) as error:
            self._take_back(kubectl, run, set(names.values()), error)
            raise
        uids = {job.name: job.uid for job in made.jobs}
        changed: dict[str, ClusterJob] = {}
        for group in groups:
            unit = names[group.name]
            for index, member in enumerate(group.members):
                old = run.job(member.name)
                assert old is not None
                changed[old.name] = replace(
                    old, unit=unit, uid=uids.get(unit, ""), index=index if group.array else None
                )
        run = run.with_jobs(changed)
        save(run)
        return run

    def look(self, run: ClusterRun) -> Mapping[str, ClusterJob]:
        """Every job, read from the Jobs that carry the run's token."""
        seen = _seen(self._at(run.place), run)
        found = sights(seen)
        places = {(name, job.name): n for job in seen.jobs for n, name in enumerate(names_of(job))}
        jobs = {job.name: job for job in seen.jobs}
        over = {job.unit for job in run.past}
        unit_of = {name: unit for name, unit in places if unit not in over}
        told: dict[str, ClusterJob] = {}
        for job in run.jobs:
            unit = job.unit or unit_of.get(job.name, "")
            number = places.get((job.name, unit))
            if number is not None and number < len(found[unit]):
                index = number if jobs[unit].indexed else None
                told[job.name] = _as_seen(replace(job, unit=unit, uid=jobs[unit].uid, index=index), found[unit][number])
            elif job.unit and not job.state.ended:
                why = f"its Job {job.unit} is gone from {run.place}: somebody deleted it, or its namespace"
                told[job.name] = replace(job, state=JobState.LOST, reason=why)
            else:
                told[job.name] = job
        return told

    def advance(self, run: ClusterRun) -> tuple[str, ...]:
        """Let begin what waited for others and need not wait any more; its jobs."""
        kubectl = self._at(run.place)
        seen = _seen(kubectl, run)
        found = sights(seen)
        begun: list[str] = []
        for job in seen.jobs:
            waits = AFTER in job.annotations and BEGUN not in job.annotations and job.suspended
            if not waits or STOPPED in job.annotations or not turn_of(job, found).may_begin:
                continue
            queue = job.annotations.get(QUEUE)
            changes = {} if queue else {"spec": {"suspend": False}}
            if kubectl.patch(job, changes, {BEGUN: "true"}, {QUEUE: queue} if queue else None):
                begun += names_of(job)
        return tuple(begun)

    def logs(
        self,
        run: ClusterRun,
        job: str,
        *,
        follow: bool,
        tail: int | None,
        since: float | None,
        timestamps: bool,
        cancel: threading.Event,
    ) -> Iterator[bytes]:
        """What the job's newest pod has written; where its pods are gone, what was kept of it."""
        kubectl = self._at(run.place)
        known = run.job(job)
        kept = kubernetes_logs.path(self._folder, known.unit if known is not None else "", job)

        def look() -> Sight | None:
            return _sights_by_job(_seen(kubectl, run), run).get(job)

        return kubernetes_logs.read(
            kubectl,
            look,
            kept,
            follow=follow,
            tail=tail,
            since=since,
            timestamps=timestamps,
            cancel=cancel,
            look_s=self.look_s,
        )

    def stop(self, run: ClusterRun, jobs: Collection[str], *, grace_s: float | None, cancel: threading.Event) -> None:
        """Suspend Jobs that end as a whole, and delete the pods of single jobs of an Indexed Job.

        Raises:
            PlanError: a single job of an Indexed Job that Kubernetes would start in spite of it; nothing was stopped.
        """
        kubectl = self._at(run.place)
        seen = _seen(kubectl, run)
        chosen = stops(seen, sights(seen), jobs)
        ending = {name for one in chosen.single for name in one.pods}
        stopping = {job.uid for job in chosen.whole}
        pods = [pod for pod in seen.pods if pod.owner_uid in stopping or pod.name in ending]
        self._keep(kubectl, seen, pods)
        for job in chosen.whole:
            queue = QUEUE in job.labels
            if kubectl.patch(job, {} if queue else {"spec": {"suspend": True}}, {STOPPED: ALL}) and queue:
                kubectl.let_in(job, active=False)
        for job, indexes in _by_job(chosen.single):
            noted = stopped_indexes(job.annotations.get(STOPPED, "")) | CpuSet(indexes)
            kubectl.patch(job, {}, {STOPPED: str(noted)})
        gone = [pod for pod in pods if pod.phase not in _OVER]
        only = gone if grace_s is not None else [pod for pod in gone if pod.name in ending]
        _end_pods(kubectl, seen, only, grace_s)
        wait_s = self._longest(run, grace_s)
        self._until(
            kubectl,
            run,
            cancel,
            wait_s,
            lambda now: not {pod.uid for pod in gone} & {pod.uid for pod in now.pods if pod.phase not in _OVER},
        )

    def remove(self, run: ClusterRun, *, grace_s: float | None, cancel: threading.Event) -> None:
        """Delete the run's Jobs, each by its uid, and wait until they and their pods are gone."""
        kubectl = self._at(run.place)
        seen = _seen(kubectl, run)
        self._keep(kubectl, seen, seen.pods)
        if any(CLAIMS in job.annotations for job in seen.jobs):
            kubectl.delete_claims(f"{TOKEN}={run.token}")
        _each(seen.jobs, kubectl.delete_job)
        if grace_s is not None:
            _end_pods(kubectl, seen, seen.pods, grace_s)
        gone = self._until(kubectl, run, cancel, self._longest(run, grace_s), lambda now: not now.jobs and not now.pods)
        if not gone:
            raise PartlyApplied(
                "still-there",
                f"Jobs of {run.run} are still being deleted in {run.place}: a node may not answer, or a finalizer holds them",
                where=f"run {run.run}",
                hint=f"kubectl get jobs,pods -l {TOKEN}={run.token}; migctl down {run.run} again",
            )

    def _until(
        self, kubectl: Kubectl, run: ClusterRun, cancel: threading.Event, wait_s: float, done: Callable[[Seen], bool]
    ) -> bool:
        """Look until it is done; at a signal what is left gets no more grace."""
        end = time.monotonic() + wait_s
        hurried = False
        while True:
            seen = _seen(kubectl, run)
            if done(seen):
                return True
            if cancel.is_set() and not hurried:
                hurried = True
                _end_pods(kubectl, seen, [pod for pod in seen.pods if pod.leaving], 1)
                end = min(end, time.monotonic() + _MORE_S)
            if time.monotonic() >= end:
                return False
            if hurried:
                time.sleep(self.look_s / 4)
            else:
                cancel.wait(self.look_s / 4)

    def _longest(self, run: ClusterRun, grace_s: float | None) -> float:
        grace = grace_s if grace_s is not None else max((job.grace_s for job in run.jobs), default=0.0)
        return grace + _MORE_S

    def _keep(self, kubectl: Kubectl, seen: Seen, pods: Iterable[Pod]) -> None:
        files = {
            (job.uid, index): kubernetes_logs.path(self._folder, job.name, name)
            for job in seen.jobs
            for index, name in _indexes(job)
        }
        begun = sorted(
            (p for p in pods if p.container.state in ("running", "terminated")), key=lambda p: p.created_at or 0.0
        )
        last = {files[pod.owner_uid, pod.index]: pod.name for pod in begun if (pod.owner_uid, pod.index) in files}
        kubernetes_logs.keep(kubectl, [(pod, file) for file, pod in last.items()])

    def _take_back(self, kubectl: Kubectl, run: ClusterRun, units: set[str], why: BaseException) -> None:
        try:
            made = [job for job in _seen(kubectl, run).jobs if job.name in units]
            _each(made, kubectl.delete_job)
        except MigctlError as error:
            raise PartlyApplied(
                "partly-handed-over",
                f"{why}; what was made of it could not be taken back: {error.message}",
                where=f"run {run.run}",
                hint=f"migctl down {run.run} takes it away",
            ) from error

    def _at(self, place: str) -> Kubectl:
        # A context's name may have slashes (EKS: an ARN), a namespace's has none.
        context, _, namespace = place.rpartition("/")
        return Kubectl(environ=self._session.environ, context=context, namespace=namespace)


def _seen(kubectl: Kubectl, run: ClusterRun) -> Seen:
    return of_run(kubectl.seen(f"{TOKEN}={run.token}"), run)


def _sights_by_job(seen: Seen, run: ClusterRun) -> Mapping[str, Sight]:
    found = sights(seen)
    units = {job.name: job.unit for job in run.jobs}
    return {
        name: sight
        for job in seen.jobs
        for name, sight in zip(names_of(job), found[job.name], strict=False)
        if units.get(name, "") in ("", job.name)
    }


def _as_seen(job: ClusterJob, sight: Sight) -> ClusterJob:
    """What ended once stays so: a pod that is gone takes its exit code and its times with it."""
    return replace(
        job,
        state=sight.state,
        exit_code=sight.exit_code if sight.exit_code is not None else _kept(job, sight, job.exit_code),
        reason=sight.reason,
        node=sight.node or job.node,
        started_at=sight.started_at if sight.started_at is not None else _kept(job, sight, job.started_at),
        finished_at=sight.finished_at if sight.finished_at is not None else _kept(job, sight, job.finished_at),
    )


def _kept(job: ClusterJob, sight: Sight, value: T | None) -> T | None:
    return value if sight.state is job.state else None


def _indexes(job: KubernetesJob) -> Iterator[tuple[int | None, str]]:
    for index, name in enumerate(names_of(job)):
        yield (index if job.indexed else None), name


def _by_job(single: Iterable[Single]) -> Iterator[tuple[KubernetesJob, list[int]]]:
    found: dict[str, tuple[KubernetesJob, list[int]]] = {}
    for one in single:
        found.setdefault(one.job.uid, (one.job, []))[1].append(one.index)
    yield from found.values()


def _each(things: Sequence[T], act: Callable[[T], None]) -> None:
    if things:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(act, things))


def _end_pods(kubectl: Kubectl, seen: Seen, pods: Sequence[Pod], grace_s: float | None) -> None:
    namespaces = {job.uid: job.namespace for job in seen.jobs}
    grace = None if grace_s is None else math.ceil(grace_s)
    _each(pods, lambda pod: kubectl.delete_pod(pod, namespaces[pod.owner_uid], grace))
