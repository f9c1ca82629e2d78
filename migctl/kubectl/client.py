"""kubectl, asked for a run's Jobs and pods in one namespace of one cluster; every method is one call of it, and ends."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from migctl.core.cluster.kubernetes_nodes import KubernetesNode
from migctl.core.cluster.kubernetes_objects import KubernetesJob, Pod, Trouble
from migctl.core.cluster.kubernetes_states import Seen
from migctl.errors import HostError, MigctlError
from migctl.kubectl import documents
from migctl.kubectl.errors import is_gone, lacks_the_kind, translated
from migctl.programs import Answer, ask, find_program

MANAGER: Final = "migctl"
"""The name under which the API server keeps which fields are ours (server-side apply)."""
_ANSWER_S: Final = 30
"""Of one request of kubectl; an API server that works answers within a second (its own SLO)."""
_CALL_S: Final = 90.0
_OBJECT_S: Final = 0.5
"""More for each object that is sent."""

Document = documents.Document


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where kubectl would go by itself."""

    context: str
    """Nothing: there is no kubeconfig (inside a pod)."""
    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubectl:
    """One namespace of one cluster, as the caller's own kubectl reaches it."""

    environ: Mapping[str, str]
    context: str = ""
    namespace: str = ""
    """Nothing, as with the context: what kubectl takes by itself."""

    @property
    def place(self) -> str:
        """For people."""
        return (
            f"{self.context}/{self.namespace}"
            if self.context or self.namespace
            else "the cluster that kubectl has by itself"
        )

    def surroundings(self) -> Surroundings:
        """The context of this name, else the present one, with its namespace.

        Raises:
            HostError: there is no kubectl, or no such context.
        """
        answer = self._ask(["config", "view", "-o", "json"], here=True)
        self._check(answer, "reading the kubeconfig")
        found: Mapping[str, Any] = self._parsed(answer)
        name = self.context or found.get("current-context") or ""
        known = {one["name"]: one.get("context") or {} for one in found.get("contexts") or ()}
        if name and name not in known:
            there = f"; there are {', '.join(known)}" if known else "; there is none"
            raise HostError(
                "no-context",
                f"kubectl has no context {name}{there}",
                hint="kubectl config get-contexts lists them; see context under kubernetes",
            )
        return Surroundings(name, self.namespace or known.get(name, {}).get("namespace") or ("default" if name else ""))

    def apply(self, objects: Sequence[object], *, dry_run: bool) -> None:
        """Server-side apply of all these objects.

        Args:
            objects: plain values.
            dry_run: the server checks everything and keeps nothing.

        Raises:
            MigctlError: it refused one; the others are there nevertheless, where this was no dry run.
        """
        words = ["apply", "--server-side", f"--field-manager={MANAGER}", "--validate=strict", "-f", "-", "-o", "name"]
        given = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, ensure_ascii=False).encode()
        answer = self._ask([*words, *(["--dry-run=server"] if dry_run else [])], given, more_s=_OBJECT_S * len(objects))
        self._check(answer, "asking the cluster whether it takes the Jobs" if dry_run else "applying the Jobs")

    def seen(self, selector: str) -> Seen:
        """The Jobs and pods with these labels; warnings are asked for where something does not come to be.

        Raises:
            MigctlError: the cluster cannot be asked.
        """
        found = self._list(["jobs.batch,pods", "-l", selector], "asking for the run's Jobs")
        jobs, pods = documents.jobs(found), documents.pods(found)
        return Seen(jobs, pods, self._troubles() if _stuck(jobs, pods) else ())

    def nodes(self) -> tuple[KubernetesNode, ...] | None:
        """The cluster's nodes; `None`: the caller may not see them."""
        answer = self._ask(["get", "nodes", "-o", "json"])
        if not answer.ok and "orbidden" in answer.errors:
            return None
        self._check(answer, "asking for the nodes")
        return documents.nodes(documents.items(self._parsed(answer)))

    def patch(
        self,
        job: KubernetesJob,
        changes: Mapping[str, object],
        annotations: Mapping[str, str],
        labels: Mapping[str, str] | None = None,
    ) -> bool:
        """Change this very Job, and none of the same name that came after it.

        A patch that names another `metadata.uid` is refused, as a uid never changes; Kubernetes' own controllers adopt pods so.

        Args:
            job: the Job.
            changes: a merge patch (RFC 7386) of everything but its metadata.
            annotations: to set.
            labels: to set.

        Returns:
            whether it was there.
        """
        metadata = {"uid": job.uid, "annotations": annotations, **({"labels": labels} if labels else {})}
        whole = {"metadata": metadata, **changes}
        words = ["patch", "jobs.batch", job.name, "--type=merge", f"--field-manager={MANAGER}-turns", "-o", "name"]
        answer = self._ask([*words, "-p", json.dumps(whole)])
        if not answer.ok and is_gone(answer):
            return False
        self._check(answer, f"changing the Job {job.name}")
        return True

    def let_in(self, job: KubernetesJob, *, active: bool) -> None:
        """Tell Kueue whether it may start a Job (spec.active of its Workloads); where it has none, nothing is to be told."""
        label = f"kueue.x-k8s.io/job-uid={job.uid}"
        answer = self._ask(["get", "workloads.kueue.x-k8s.io", "-l", label, "-o", "json"])
        if lacks_the_kind(answer):
            return
        self._check(answer, "asking for Kueue's Workloads")
        for one in documents.items(self._parsed(answer)):
            words = ["patch", "workloads.kueue.x-k8s.io", one["metadata"]["name"], "--type=merge", "-o", "name"]
            answer = self._ask([*words, "-p", json.dumps({"spec": {"active": active}})])
            if answer.ok or not is_gone(answer):
                self._check(answer, f"changing Kueue's Workload of the Job {job.name}")

    def delete_job(self, job: KubernetesJob) -> None:
        """Delete this very Job, and its pods before it is gone itself; one of the same name that came after it stays."""
        path = f"/apis/batch/v1/namespaces/{job.namespace}/jobs/{job.name}"
        self._delete(path, job.uid, {"propagationPolicy": "Foreground"}, f"deleting the Job {job.name}")

    def delete_pod(self, pod: Pod, namespace: str, grace_s: int | None) -> None:
        """Delete this very pod: SIGTERM, and SIGKILL after its grace or this one; 0 counts as 1: it would not wait for the node."""
        grace = {} if grace_s is None else {"gracePeriodSeconds": max(1, grace_s)}
        path = f"/api/v1/namespaces/{namespace}/pods/{pod.name}"
        self._delete(path, pod.uid, grace, f"deleting the pod {pod.name}")

    def delete_claims(self, selector: str) -> None:
        """Delete the templates of device claims with these labels; they are objects of a run's own."""
        words = ["delete", "resourceclaimtemplates.resource.k8s.io", "-l", selector, "--wait=false", "-o", "name"]
        self._check(self._ask(words), "deleting the templates of device claims")

    def log_process(
        self, pod: str, *, follow: bool, tail: int | None, timestamps: bool, since: str | None = None
    ) -> subprocess.Popen[bytes]:
        """A kubectl that prints a pod's log; its errors are in its stderr."""
        words = ["logs", f"pod/{pod}", "--container=job"]
        words += ["--follow"] if follow else []
        words += [f"--tail={tail}"] if tail is not None else []
        words += [f"--since-time={since}"] if since is not None else []
        words += ["--timestamps"] if timestamps else []
        program = find_program("kubectl", self.environ)
        if program is None:
            raise translated(Answer(127, "", "", ""), "reading a log", self.place)
        return subprocess.Popen(
            [program, *self._target(0), *words],
            env=dict(self.environ) | {"LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def log_failure(self, code: int, errors: bytes) -> MigctlError | None:
        """What a `log_process` that ended has met; a pod that has gone, or not begun, has no log and is no failure."""
        answer = Answer(code, "", "", errors.decode("utf-8", "replace"))
        if answer.ok or is_gone(answer) or "is waiting to start" in answer.errors:
            return None
        return translated(answer, "reading a log", self.place)

    def _delete(self, path: str, uid: str, more: Mapping[str, object], doing: str) -> None:
        """By `--raw`, as `kubectl delete` itself knows no preconditions (DeleteOptions of the API)."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}, **more}
        answer = self._ask(["delete", f"--raw={path}", "-f", "-"], json.dumps(options).encode())
        if answer.ok or is_gone(answer):
            return
        self._check(answer, doing)

    def _troubles(self) -> tuple[Trouble, ...]:
        """Warnings of the namespace; whoever may not see them goes without."""
        answer = self._ask(["get", "events", "--field-selector=type=Warning", "-o", "json"])
        return documents.troubles(documents.items(self._parsed(answer))) if answer.ok else ()

    def _list(self, words: Sequence[str], doing: str) -> tuple[Document, ...]:
        answer = self._ask(["get", *words, "-o", "json"])
        self._check(answer, doing)
        return documents.items(self._parsed(answer))

    def _parsed(self, answer: Answer) -> Mapping[str, Any]:
        try:
            found = json.loads(answer.output)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise HostError(
                "kubectl-answer",
                f"kubectl printed no JSON object, but {answer.text[:100]!r}",
                where=self.place,
                hint="kubectl version; a wrapper of that name may print more than kubectl does",
            )
        return found

    def _check(self, answer: Answer, doing: str) -> None:
        if not answer.ok:
            raise translated(answer, doing, self.place)

    def _target(self, answer_s: int = _ANSWER_S) -> list[str]:
        """Which cluster, and how long one answer may take; 0: a stream has no end."""
        words = [f"--request-timeout={answer_s}s"]
        words += [f"--context={self.context}"] if self.context else []
        return words + ([f"--namespace={self.namespace}"] if self.namespace else [])

    def _ask(
        self, words: Iterable[str], given: bytes | None = None, *, more_s: float = 0.0, here: bool = False
    ) -> Answer:
        target = [] if here else self._target()
        return ask(["kubectl", *target, *words], self.environ, _CALL_S + more_s, given)


def _stuck(jobs: Iterable[KubernetesJob], pods: Sequence[Pod]) -> bool:
    """Whether a Job has no pod, or a pod no container yet, although nobody said why."""
    owners = {pod.owner_uid for pod in pods}
    alone = any(
        job.uid not in owners and not job.suspended and not job.leaving and job.finished_at is None for job in jobs
    )
    return alone or any(pod.phase == "Pending" and pod.node and pod.container.state != "running" for pod in pods)
