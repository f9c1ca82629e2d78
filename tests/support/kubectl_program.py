"""A stand-in for kubectl and the cluster behind it: objects in a file, and no kinder than an API server of 1.36 with its
scheduler, Job controller and kubelets is.

Run as a program; `KUBECTL_CLUSTER` names the file. The texts of errors are those of kubectl 1.36 and kube-apiserver 1.36.
"""

from __future__ import annotations

import contextlib
import copy
import fcntl
import json
import os
import re
import sys
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.kubernetes_scheduler import chosen

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IMMUTABLE = (
    "completions",
    "selector",
    "template",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
    "manualSelector",
)
GROUPS = {"jobs": "batch", "resourceclaimtemplates": "resource.k8s.io", "workloads": "kueue.x-k8s.io"}
FLAGS = {
    "apply": {"--server-side", "--field-manager=", "--validate=", "-f", "-o", "--dry-run="},
    "get": {"-l", "-o", "--field-selector="},
    "patch": {"--type=", "--field-manager=", "-o", "-p"},
    "delete": {"--raw=", "-f", "-l", "--wait=", "-o"},
    "logs": {"--container=", "--follow", "--tail=", "--since-time=", "--timestamps"},
    "config": {"-o"},
}
OBEYED = {
    ("apply", "-f"): {"-"},
    ("apply", "-o"): {"name"},
    ("apply", "--validate"): {"strict", "true"},
    ("apply", "--dry-run"): {"server", "none"},
    ("get", "-o"): {"json"},
    ("patch", "--type"): {"merge"},
    ("patch", "-o"): {"name"},
    ("delete", "-f"): {"-"},
    ("delete", "-o"): {"name"},
    ("config", "-o"): {"json"},
}
"""Values of flags that the stand-in does as they say; a real kubectl knows more."""
_FIELD = re.compile(r"([^=!]+)(!=|==?)([^=!]*)")
Object = dict[str, Any]


class Refused(Exception):  # noqa: N818 -- reads as the sentence it is
    """What stands on stderr; the exit code is 1."""


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def server(reason: str, text: str) -> Refused:
    return Refused(f"Error from server ({reason}): {text}")


class Cluster:
    """The state, changed by one command."""

    def __init__(self, state: Object) -> None:
        self.state = state

    # What is there.

    def kind(self, kind: str, namespace: str) -> list[Object]:
        return [
            o for o in self.state["objects"] if o["kind"] == kind and o["metadata"].get("namespace", "") == namespace
        ]

    def find(self, kind: str, namespace: str, name: str) -> Object | None:
        return next((o for o in self.kind(kind, namespace) if o["metadata"]["name"] == name), None)

    def allowed(self, verb: str, resource: str, namespace: str, name: str = "") -> None:
        if f"{verb} {resource}" in self.state["forbidden"]:
            plural = resource.partition("/")[0]
            group = GROUPS.get(plural, "")
            full = f"{plural}.{group}" if group else plural
            what = f'{full} "{name}"' if name else full
            where = "at the cluster scope" if plural == "nodes" else f'in the namespace "{namespace}"'
            raise server(
                "Forbidden",
                f'{what} is forbidden: User "ada" cannot {verb} resource "{resource}" in API group "{group}" {where}',
            )

    def in_namespace(self, namespace: str) -> None:
        if namespace not in self.state["namespaces"]:
            raise server("NotFound", f'namespaces "{namespace}" not found')

    # Server-side apply.

    def apply(self, given: Object, namespace: str, manager: str, *, dry_run: bool) -> str:
        kind, metadata = given["kind"], given["metadata"]
        plural = {"Job": "jobs", "ResourceClaimTemplate": "resourceclaimtemplates"}[kind]
        if metadata.get("namespace", namespace) != namespace:
            own = metadata["namespace"]
            raise Refused(
                f'error: the namespace from the provided object "{own}" does not match the namespace "{namespace}". '
                f"You must pass '--namespace={own}' to perform this operation."
            )
        if kind == "ResourceClaimTemplate" and not self.state["dra"]:
            raise Refused(
                f'error: resource mapping not found for name: "{metadata["name"]}" namespace: "{namespace}" from "STDIN": '
                'no matches for kind "ResourceClaimTemplate" in version "resource.k8s.io/v1"\nensure CRDs are installed first'
            )
        self.in_namespace(namespace)
        self.allowed("patch", plural, namespace, metadata["name"])
        self._strict(given, namespace)
        from tests.support.kubernetes_rules import refusals

        if wrong := refusals(given):
            raise Refused(f'The {kind} "{metadata["name"]}" is invalid: {wrong[0]}')
        old = self.find(kind, namespace, metadata["name"])
        if old is None:
            self.allowed("create", plural, namespace, metadata["name"])
        quota = self.state["job_quota"]
        if kind == "Job" and old is None and quota is not None and len(self.kind("Job", namespace)) >= quota:
            raise server(
                "Forbidden",
                f'jobs.batch "{metadata["name"]}" is forbidden: exceeded quota: few, requested: count/jobs.batch=1, '
                f"used: count/jobs.batch={quota}, limited: count/jobs.batch={quota}",
            )
        if old is not None:
            self._conflicts(old, given, manager)
            if kind == "Job":
                _unchanging(metadata["name"], old["spec"], {**old["spec"], **given["spec"]})
        if not dry_run:
            self._store(old, copy.deepcopy(given), namespace, manager)
        group = {"Job": "job.batch", "ResourceClaimTemplate": "resourceclaimtemplate.resource.k8s.io"}[kind]
        return f"{group}/{metadata['name']}"

    def _strict(self, given: Object, namespace: str) -> None:
        """Unknown fields, by the server's own schema; kubernetes_validate checks the rest elsewhere, and takes a second to load."""
        with Path(self.state["schema"]).open() as file:
            definitions = json.load(file)["$defs"]
        group, _, version = given["apiVersion"].partition("/")
        name = {"batch": "io.k8s.api.batch", "resource.k8s.io": "io.k8s.api.resource"}[
            group
        ] + f".{version}.{given['kind']}"
        unknown = next(_unknown(given, {"$ref": f"#/$defs/{name}"}, definitions, ""), None)
        if unknown is not None:
            what = f"{namespace}/{given['metadata']['name']}; {given['apiVersion']}, Kind={given['kind']}"
            raise Refused(
                f"Error from server: failed to create typed patch object ({what}): {unknown}: field not declared in schema"
            )

    def _conflicts(self, old: Object, given: Object, manager: str) -> None:
        theirs = [(f, m) for f, m in old["metadata"].get("x-managers", {}).items() if m != manager]
        for field, owner in theirs:
            if field in given["spec"] and given["spec"][field] != old["spec"].get(field):
                raise Refused(
                    f'error: Apply failed with 1 conflict: conflict with "{owner}" using batch/v1: .spec.{field}\n'
                    "Please review the fields above--they currently have other managers. Here\nare the ways you can resolve"
                )

    def _store(self, old: Object | None, new: Object, namespace: str, manager: str) -> None:
        metadata = new["metadata"]
        if old is not None:
            for notes in ("labels", "annotations"):
                if notes in metadata:
                    old["metadata"][notes] = {**old["metadata"].get(notes, {}), **metadata[notes]}
            old["spec"].update(new["spec"])
            return
        metadata |= {"namespace": namespace, "uid": str(uuid.uuid4()), "creationTimestamp": now()}
        if new["kind"] == "Job":
            metadata["x-managers"] = dict.fromkeys(new["spec"], manager)
            spec = new["spec"]
            spec.setdefault("suspend", False)
            spec.setdefault("completions", 1)
            spec.setdefault("parallelism", 1)
            spec.setdefault("completionMode", "NonIndexed")
            if "backoffLimitPerIndex" not in spec:
                spec.setdefault("backoffLimit", 6)
            new["status"] = {}
        self.state["objects"].append(new)

    # Patch and delete.

    def patch(self, resource: str, name: str, namespace: str, change: Object, manager: str) -> None:
        self.in_namespace(namespace)
        kind = {"jobs.batch": "Job", "workloads.kueue.x-k8s.io": "Workload"}[resource]
        found = self.find(kind, namespace, name)
        if found is None:
            raise server("NotFound", f'{resource} "{name}" not found')
        plural = resource.partition(".")[0]
        self.allowed("get", plural, namespace, name)
        self.allowed("patch", plural, namespace, name)
        uid = change.get("metadata", {}).get("uid", found["metadata"].get("uid"))
        if uid != found["metadata"].get("uid"):
            raise Refused(f'The {kind} "{name}" is invalid: metadata.uid: Invalid value: "{uid}": field is immutable')
        new = copy.deepcopy(found)
        _merge(new, {key: value for key, value in change.items() if key != "status" or kind != "Job"})
        if kind == "Job":
            self._patched(found, new, change, namespace, manager)
        found.clear()
        found |= new

    def _patched(self, old: Object, new: Object, change: Object, namespace: str, manager: str) -> None:
        """What applying is checked for; a real server warns of an unknown field and drops it, which no test would see."""
        name = old["metadata"]["name"]
        metadata = {key: value for key, value in new["metadata"].items() if not key.startswith("x-")}
        self._strict({**new, "metadata": metadata}, namespace)
        from tests.support.kubernetes_rules import refusals

        if wrong := refusals(new):
            raise Refused(f'The Job "{name}" is invalid: {wrong[0]}')
        for field in ("name", "namespace"):
            if new["metadata"].get(field) != old["metadata"].get(field):
                raise server("BadRequest", f"the {field} of the object does not match the {field} on the URL")
        _unchanging(name, old["spec"], new["spec"])
        taken = dict.fromkeys(
            (field for field in change.get("spec", {}) if new["spec"].get(field) != old["spec"].get(field)), manager
        )
        new["metadata"]["x-managers"] = {**old["metadata"].get("x-managers", {}), **taken}

    def delete(self, path: str, options: Object) -> None:
        words = path.strip("/").split("/")
        namespace, plural, name = words[words.index("namespaces") + 1 :]
        kind = {"jobs": "Job", "pods": "Pod"}[plural]
        self.allowed("delete", plural, namespace, name)
        found = self.find(kind, namespace, name)
        if found is None:
            raise server("NotFound", f'{plural}{".batch" if kind == "Job" else ""} "{name}" not found')
        uid = options.get("preconditions", {}).get("uid")
        if uid is not None and uid != found["metadata"]["uid"]:
            raise server(
                "Conflict",
                f'Operation cannot be fulfilled on {plural} "{name}": Precondition failed: UID in precondition: {uid}, '
                f"UID in object meta: {found['metadata']['uid']}",
            )
        found["metadata"]["deletionTimestamp"] = now()
        grace = options.get("gracePeriodSeconds")
        self.leave(found, grace)
        if kind == "Job":
            for pod in self.pods_of(found):
                self.leave(pod, None)

    def leave(self, one: Object, grace: int | None) -> None:
        one["metadata"].setdefault("deletionTimestamp", now())
        if one["kind"] == "Pod":
            longest = one["spec"].get("terminationGracePeriodSeconds", 30) if grace is None else grace
            stubborn = self.state["stubborn"]
            end = time.time() + (longest if stubborn else 0)
            one["metadata"]["x-end"] = min(end, one["metadata"].get("x-end", end))

    def pods_of(self, job: Object) -> list[Object]:
        uid = job["metadata"]["uid"]
        return [
            o
            for o in self.state["objects"]
            if o["kind"] == "Pod" and any(r["uid"] == uid for r in o["metadata"].get("ownerReferences", []))
        ]

    # The controllers, as far as they have come when somebody looks.

    def settle(self) -> None:
        for one in list(self.state["objects"]):
            if one["kind"] == "Pod" and one["metadata"].get("x-end", time.time() + 1) <= time.time():
                self._gone(one)
            elif one["kind"] == "Pod":
                self._pod_deadline(one)
        for job in [o for o in self.state["objects"] if o["kind"] == "Job"]:
            if "deletionTimestamp" in job["metadata"]:
                if not self.pods_of(job):
                    self.state["objects"].remove(job)
                continue
            self._control(job)

    def _pod_deadline(self, pod: Object) -> None:
        """The kubelet counts from when it took the pod, and gives it its grace (pkg/kubelet/active_deadline.go)."""
        status, most = pod["status"], pod["spec"].get("activeDeadlineSeconds")
        if most is None or status["phase"] != "Running":
            return
        grace = pod["spec"].get("terminationGracePeriodSeconds", 30) if self.state["stubborn"] else 0
        if time.time() < pod["metadata"]["x-started"] + most + grace:
            return
        begun = status["containerStatuses"][0]["state"]["running"]["startedAt"]
        ended = {"exitCode": 137 if grace else 143, "reason": "Error", "startedAt": begun, "finishedAt": now()}
        status["containerStatuses"] = [{"name": "job", "state": {"terminated": ended}}]
        status |= {
            "phase": "Failed",
            "reason": "DeadlineExceeded",
            "message": "Pod was active on the node longer than the specified deadline",
        }

    def _job_deadline(self, job: Object) -> bool:
        """Whether the Job has had its time: its pods are ended, and it has failed when they are gone."""
        status, most = job["status"], job["spec"].get("activeDeadlineSeconds")
        begun = job["metadata"].setdefault("x-started", time.time())
        status.setdefault("startTime", now())
        if most is None or time.time() < begun + most:
            return False
        told = {"reason": "DeadlineExceeded", "message": "Job was active longer than specified deadline"}
        conditions = [{"type": "FailureTarget", "status": "True", "lastTransitionTime": now(), **told}]
        live = [p for p in self.pods_of(job) if p["status"]["phase"] in ("Pending", "Running")]
        for pod in live:
            self.leave(pod, None)
        status["active"] = len(live)
        status["conditions"] = [*conditions, *([] if live else [{**conditions[0], "type": "Failed"}])]
        return True

    def _gone(self, pod: Object) -> None:
        owner = next(r["uid"] for r in pod["metadata"]["ownerReferences"])
        job = next((o for o in self.state["objects"] if o["kind"] == "Job" and o["metadata"]["uid"] == owner), None)
        if job is not None and pod["status"]["phase"] in ("Pending", "Running") and not job["spec"]["suspend"]:
            self._count(job, pod, failed=True)
        self.state["objects"].remove(pod)

    def _count(self, job: Object, pod: Object, *, failed: bool) -> None:
        """A pod that ended is counted once, and its index given up or retried."""
        metadata, status, spec = pod["metadata"], job["status"], job["spec"]
        if metadata.get("x-counted"):
            return
        metadata["x-counted"] = True
        status["failed" if failed else "succeeded"] = status.get("failed" if failed else "succeeded", 0) + 1
        index = metadata.get("annotations", {}).get(INDEX)
        tries = job["metadata"].setdefault("x-tries", {})
        number = tries.get(index or "0", [0, 0.0])[0]
        tries[index or "0"] = [number + 1 if failed else 0, time.time()]
        if index is None:
            return
        if not failed:
            status["completedIndexes"] = _with(status.get("completedIndexes", ""), int(index))
        elif int(metadata["annotations"].get(FAILURES, "0")) + 1 > spec.get("backoffLimitPerIndex", 6):
            status["failedIndexes"] = _with(status.get("failedIndexes", ""), int(index))

    def _control(self, job: Object) -> None:
        spec, status = job["spec"], job["status"]
        pods = self.pods_of(job)
        for pod in pods:
            if pod["status"]["phase"] in ("Succeeded", "Failed"):
                self._count(job, pod, failed=pod["status"]["phase"] == "Failed")
        live = [p for p in pods if p["status"]["phase"] in ("Pending", "Running")]
        if status.get("conditions") and any(c["type"] in ("Complete", "Failed") for c in status["conditions"]):
            return
        if spec["suspend"]:
            for pod in live:
                self.leave(pod, None)
            status["conditions"] = [
                {"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended"}
            ]
            status["active"] = 0
            status.pop("startTime", None)
            job["metadata"].pop("x-started", None)
            return
        if any(c["type"] == "FailureTarget" for c in status.get("conditions", [])) and self._job_deadline(job):
            return
        status["conditions"] = []
        self._finish(job)
        if not status["conditions"] and self._job_deadline(job):
            return
        if not status["conditions"]:
            self._births(job, live)
        for pod in self.pods_of(job):
            self._schedule(pod)
        status["active"] = len([p for p in self.pods_of(job) if p["status"]["phase"] in ("Pending", "Running")])

    def _finish(self, job: Object) -> None:
        spec, status = job["spec"], job["status"]
        if spec["completionMode"] == "Indexed":
            done, bad = _set(status.get("completedIndexes", "")), _set(status.get("failedIndexes", ""))
            if len(done | bad) < spec["completions"]:
                return
            failed, reason, message = bool(bad), "FailedIndexes", "Job has failed indexes"
        else:
            failed = status.get("failed", 0) > spec["backoffLimit"]
            if not failed and not status.get("succeeded"):
                return
            reason, message = "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        kind = "Failed" if failed else "Complete"
        told = {"reason": reason, "message": message} if failed else {}
        status["conditions"] = [{"type": kind, "status": "True", "lastTransitionTime": now(), **told}]
        if not failed:
            status["completionTime"] = now()

    def _births(self, job: Object, live: list[Object]) -> None:
        spec, status, metadata = job["spec"], job["status"], job["metadata"]
        if self.state["pod_refusal"]:
            self._event(
                job,
                "FailedCreate",
                f'Error creating: pods "{metadata["name"]}-" is forbidden: {self.state["pod_refusal"]}',
            )
            return
        if spec["completionMode"] == "Indexed":
            over = _set(status.get("completedIndexes", "")) | _set(status.get("failedIndexes", ""))
            there = {int(p["metadata"]["annotations"][INDEX]) for p in live}
            free = [n for n in range(spec["completions"]) if n not in over | there]
        else:
            free = [0] if not live and not status.get("succeeded") else []
        # An index in its back-off keeps its place: the next ones do not get ahead of it.
        for index in free[: max(0, spec["parallelism"] - len(live))]:
            failures, last = metadata.get("x-tries", {}).get(str(index), (0, 0.0))
            if not failures or time.time() >= last + self.state["back_off_s"] * 2 ** min(failures - 1, 6):
                self._birth(job, index, failures)

    def _birth(self, job: Object, index: int, failures: int) -> None:
        template = copy.deepcopy(job["spec"]["template"])
        indexed = job["spec"]["completionMode"] == "Indexed"
        name = job["metadata"]["name"] + (f"-{index}" if indexed else "")
        annotations = {**template["metadata"].get("annotations", {})}
        if indexed:
            annotations |= {INDEX: str(index), FAILURES: str(failures)}
        labels = {**template["metadata"].get("labels", {}), "batch.kubernetes.io/job-name": job["metadata"]["name"]}
        self.state["objects"].append(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{name}-{uuid.uuid4().hex[:5]}",
                    "namespace": job["metadata"]["namespace"],
                    "uid": str(uuid.uuid4()),
                    "creationTimestamp": now(),
                    "labels": labels,
                    "annotations": annotations,
                    "ownerReferences": [
                        {"kind": "Job", "name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}
                    ],
                },
                "spec": template["spec"],
                "status": {"phase": "Pending"},
            }
        )

    def _schedule(self, pod: Object) -> None:
        status, spec = pod["status"], pod["spec"]
        if status["phase"] != "Pending" or "deletionTimestamp" in pod["metadata"]:
            return
        container = spec["containers"][0]
        if "nodeName" not in spec:
            pods = [one for one in self.state["objects"] if one["kind"] == "Pod"]
            name, why = chosen(pod, self.state["nodes"], pods)
            if not name:
                status["conditions"] = [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
                ]
                return
            spec["nodeName"] = name
            status["conditions"] = [{"type": "PodScheduled", "status": "True"}]
        bad = self.state["bad_images"].get(container["image"])
        if bad:
            waiting = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{container["image"]}": {bad}'}
            status["containerStatuses"] = [{"name": "job", "state": {"waiting": waiting}}]
            return
        status |= {"phase": "Running", "startTime": now()}
        pod["metadata"]["x-started"] = time.time()
        status["containerStatuses"] = [{"name": "job", "state": {"running": {"startedAt": now()}}}]

    def _event(self, about: Object, reason: str, message: str) -> None:
        metadata = about["metadata"]
        involved = {"kind": about["kind"], "name": metadata["name"], "uid": metadata["uid"]}
        self.state["objects"].append(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "type": "Warning",
                "metadata": {"name": f"{metadata['name']}.{uuid.uuid4().hex[:8]}", "namespace": metadata["namespace"]},
                "involvedObject": involved,
                "reason": reason,
                "message": message,
                "lastTimestamp": now(),
            }
        )


def _unknown(value: Any, schema: Any, definitions: Any, path: str) -> Iterator[str]:
    while "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    if isinstance(value, list):
        for item in value:
            yield from _unknown(item, schema.get("items", {}), definitions, f"{path}[0]")
    if isinstance(value, dict) and "properties" in schema:
        for key, item in value.items():
            if key not in schema["properties"]:
                yield f"{path}.{key}"
            else:
                yield from _unknown(item, schema["properties"][key], definitions, f"{path}.{key}")


def _unchanging(name: str, old: Object, new: Object) -> None:
    """ValidateJobSpecUpdate (pkg/apis/batch/validation), in its order; completions of an elastic Indexed Job may change."""
    for field in IMMUTABLE:
        if old.get(field) == new.get(field):
            continue
        why = "field is immutable"
        if field == "completions" and new.get("completionMode") == "Indexed":
            if new.get("completions") == new.get("parallelism"):
                continue
            why = "can only be modified in tandem with spec.parallelism"
        value = new.get(field)
        shown = "{...}" if isinstance(value, dict) else json.dumps(value)
        raise Refused(f'The Job "{name}" is invalid: spec.{field}: Invalid value: {shown}: {why}')


def _merge(into: Object, change: Object) -> None:
    """RFC 7386."""
    for key, value in change.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        else:
            into[key] = value


def _set(text: str) -> set[int]:
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        found |= set(range(int(low), int(high or low) + 1))
    return found


def _with(text: str, index: int) -> str:
    ordered = sorted(_set(text) | {index})
    parts: list[str] = []
    for number in ordered:
        low, _, high = parts[-1].partition("-") if parts else ("", "", "")
        if parts and int(high or low) == number - 1:
            parts[-1] = f"{low}-{number}"
        else:
            parts.append(str(number))
    return ",".join(parts)


class Line:
    """The command line, as strict as kubectl's."""

    def __init__(self, words: list[str]) -> None:
        self.context = self.namespace = ""
        self.verb = ""
        self.words: list[str] = []
        self.flags: dict[str, str] = {}
        self.seen = 0
        """Lines of a log that are printed already."""
        left = list(words)
        while left:
            word = left.pop(0)
            name, equals, value = word.partition("=")
            if name in ("--request-timeout", "--context", "--namespace") and equals:
                setattr(self, name[2:].replace("-", "_"), value)
            elif word.startswith("-") and word != "-":
                known = FLAGS.get(self.verb, set())
                if name + "=" in known and equals:
                    self.flags[name] = value
                elif word in known:
                    switch = word in ("--server-side", "--follow", "--timestamps")
                    self.flags[word] = "" if switch else left.pop(0)
                else:
                    raise Refused(f"error: unknown flag: {name}\nSee 'kubectl {self.verb} --help' for usage.")
            elif not self.verb:
                self.verb = word
            else:
                self.words.append(word)


@contextlib.contextmanager
def opened() -> Iterator[Object]:
    """The cluster's state, which nobody else changes meanwhile."""
    place = Path(os.environ["KUBECTL_CLUSTER"])
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = json.loads(place.read_text())
        try:
            yield state
        finally:
            new = place.with_suffix(".new")
            new.write_text(json.dumps(state))
            new.replace(place)


def main(words: list[str]) -> None:
    line = Line(words)
    with opened() as state:
        state["calls"].append(words)
        told = _call(line, Cluster(state))
        if line.verb == "logs":
            line.seen = len(written(state, line.words[0].removeprefix("pod/")))
    sys.stdout.write(told)
    sys.stdout.flush()
    if "--follow" in line.flags:
        follow(line)


def _call(line: Line, cluster: Cluster) -> str:
    state = cluster.state
    for (verb, flag), values in OBEYED.items():
        if line.verb == verb and line.flags.get(flag, next(iter(values))) not in values:
            raise Refused(f"error: this stand-in does not know {flag} {line.flags[flag]}")
    if line.verb in ("apply", "get", "patch") and "-o" not in line.flags:
        raise Refused(f"error: this stand-in knows {line.verb} with -o only")
    if line.verb == "patch" and "--type" not in line.flags:
        raise Refused("error: this stand-in knows no strategic merge")
    if line.verb == "config":
        contexts = [{"name": n, "context": {"cluster": n, "user": n, **c}} for n, c in state["contexts"].items()]
        return json.dumps({"kind": "Config", "contexts": contexts or None, "current-context": state["current"]})
    context = line.context or state["current"]
    if context not in state["contexts"]:
        if not context:
            raise Refused(
                "The connection to the server localhost:8080 was refused - did you specify the right host or port?"
            )
        raise Refused(f'error: context "{context}" does not exist')
    failing = state["failing"].get(line.verb)
    if failing and failing["after"] <= 0:
        raise Refused(failing["text"])
    if failing:
        failing["after"] -= 1
    namespace = line.namespace or state["contexts"][context].get("namespace", "default")
    return {"apply": _apply, "get": _get, "patch": _patch, "delete": _delete, "logs": _logs}[line.verb](
        line, cluster, namespace
    )


def _apply(line: Line, cluster: Cluster, namespace: str) -> str:
    if "--server-side" not in line.flags or not line.flags.get("--field-manager"):
        raise Refused("error: this stand-in knows server-side apply only")
    dry = line.flags.get("--dry-run")
    told: list[str] = []
    wrong: list[Refused] = []
    for one in json.load(sys.stdin)["items"]:
        try:
            told.append(cluster.apply(one, namespace, line.flags["--field-manager"], dry_run=dry == "server"))
        except Refused as error:
            wrong.append(error)
    cluster.settle()
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        raise Refused("[" + ", ".join(str(error) for error in wrong) + "]")
    return "".join(f"{one}\n" for one in told)


def _selected(objects: list[Object], selector: str) -> list[Object]:
    wanted = dict(part.split("=", 1) for part in selector.split(",") if part)
    return [o for o in objects if all(o["metadata"].get("labels", {}).get(k) == v for k, v in wanted.items())]


KINDS = {
    "jobs.batch": ("Job", "jobs"),
    "pods": ("Pod", "pods"),
    "nodes": ("Node", "nodes"),
    "events": ("Event", "events"),
    "workloads.kueue.x-k8s.io": ("Workload", "workloads"),
}


_FIELDS = {
    "Event": {"type", "reason", "involvedObject.kind", "involvedObject.name", "involvedObject.uid"},
    "Pod": {"spec.nodeName", "spec.restartPolicy", "status.phase"},
    "Job": {"status.successful"},
    "Node": {"spec.unschedulable"},
}
"""What an API server selects by, beside name and namespace, as far as the stand-in has it."""


def _with_fields(objects: list[Object], kind: str, selector: str) -> list[Object]:
    wanted = [_FIELD.fullmatch(part) for part in selector.split(",") if part]
    for part in wanted:
        known = _FIELDS.get(kind, set()) | {"metadata.name", "metadata.namespace"}
        if part is None or part[1] not in known:
            label = part[1] if part is not None else selector
            raise server(
                "BadRequest",
                f'Unable to find "{kind}" that match label selector "", field selector "{selector}": '
                f"field label not supported: {label}",
            )
    return [o for o in objects if all((_field(o, p[1]) == p[3]) == (p[2] != "!=") for p in wanted if p is not None)]


def _field(one: Object, path: str) -> str:
    value: Any = one
    for word in path.split("."):
        value = value.get(word, "") if isinstance(value, dict) else ""
    return str(value)


def _get(line: Line, cluster: Cluster, namespace: str) -> str:
    found: list[Object] = []
    cluster.settle()
    for resource in line.words[0].split(","):
        kind, plural = KINDS[resource]
        cluster.allowed("list", plural, namespace)
        if kind == "Workload" and not cluster.state["kueue"]:
            raise Refused('error: the server doesn\'t have a resource type "workloads"')
        there = cluster.state["nodes"] if kind == "Node" else cluster.kind(kind, namespace)
        found += _with_fields(_selected(there, line.flags.get("-l", "")), kind, line.flags.get("--field-selector", ""))
    shown = [{**o, "metadata": {k: v for k, v in o["metadata"].items() if not k.startswith("x-")}} for o in found]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": shown})


def _patch(line: Line, cluster: Cluster, namespace: str) -> str:
    resource, name = line.words
    manager = line.flags.get("--field-manager", "kubectl-patch")
    cluster.patch(resource, name, namespace, json.loads(line.flags["-p"]), manager)
    cluster.settle()
    kind, dot, group = resource.partition(".")
    return f"{kind.removesuffix('s')}{dot}{group}/{name}\n"


def _delete(line: Line, cluster: Cluster, namespace: str) -> str:
    if "--raw" in line.flags:
        cluster.delete(line.flags["--raw"], json.load(sys.stdin))
        return "{}"
    kind, plural = "ResourceClaimTemplate", "resourceclaimtemplates"
    cluster.allowed("list", plural, namespace)
    gone = _selected(cluster.kind(kind, namespace), line.flags["-l"])
    for one in gone:
        cluster.allowed("delete", plural, namespace, one["metadata"]["name"])
    cluster.state["objects"] = [o for o in cluster.state["objects"] if o not in gone]
    return "".join(f"resourceclaimtemplate.resource.k8s.io/{o['metadata']['name']}\n" for o in gone)


def _logs(line: Line, cluster: Cluster, namespace: str) -> str:
    name = line.words[0].removeprefix("pod/")
    cluster.allowed("get", "pods", namespace, name)
    pod = cluster.find("Pod", namespace, name)
    if pod is None:
        raise server("NotFound", f'pods "{name}" not found')
    cluster.allowed("get", "pods/log", namespace, name)
    if pod["status"]["phase"] == "Pending":
        raise server("BadRequest", f'container "job" in pod "{name}" is waiting to start: ContainerCreating')
    containers = [one["name"] for one in pod["spec"]["containers"]]
    if line.flags.get("--container", containers[0]) not in containers:
        raise Refused(f"error: container {line.flags['--container']} is not valid for pod {name}")
    lines = written(cluster.state, name)
    if "--since-time" in line.flags:
        since = datetime.fromisoformat(line.flags["--since-time"]).timestamp()
        lines = [one for one in lines if one[0] >= since]
    if "--tail" in line.flags and int(line.flags["--tail"]) >= 0:
        lines = lines[max(0, len(lines) - int(line.flags["--tail"])) :]
    return "".join(_line(one, line) for one in lines)


def _line(one: tuple[float, str], line: Line) -> str:
    moment = datetime.fromtimestamp(one[0], UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z ")
    return (moment if "--timestamps" in line.flags else "") + one[1]


def write(state: Object, pod: str, text: str) -> None:
    """A pod has written all this by now; what is new in it was written now."""
    old = state["logs"].get(pod, "")
    state["logs"][pod] = text
    known = state["log_times"].get(pod, []) if text.startswith(old) else []
    lines = len(text.splitlines())
    state["log_times"][pod] = (known + [time.time()] * lines)[:lines]


def written(state: Object, pod: str) -> list[tuple[float, str]]:
    """Its lines, each with when it was written."""
    lines = state["logs"].get(pod, "").splitlines(keepends=True)
    return list(zip(state["log_times"].get(pod, []), lines, strict=True))


def follow(line: Line) -> None:
    """Print what a pod writes after what was printed already, until it ends or is gone."""
    name = line.words[0].removeprefix("pod/")
    while True:
        with opened() as state:
            cluster = Cluster(state)
            cluster.settle()
            lines = written(state, name)
            runs = any(
                one["kind"] == "Pod" and one["metadata"]["name"] == name and one["status"]["phase"] == "Running"
                for one in state["objects"]
            )
        sys.stdout.write("".join(_line(one, line) for one in lines[line.seen :]))
        sys.stdout.flush()
        line.seen = len(lines)
        if not runs:
            return
        time.sleep(0.1)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Refused as error:
        sys.stderr.write(f"{error}\n")
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        sys.exit(1)
