"""Kubernetes' pods and Jobs as plans: a job for each container."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from migctl.core.yaml_text import Value
from migctl.errors import PlanError
from migctl.planfile.importers.gpu_words import gpu_variable, profile_in
from migctl.planfile.importers.sketch import JobSketch, Sketch, listed, literal, plain, shown
from migctl.planfile.nodes import Node
from migctl.planfile.problems import Report

_RESOURCE = "nvidia.com/mig-"
_PULL = {"Always": "always", "Never": "never", "IfNotPresent": "missing"}
_KINDS = ("Pod", "Job")


def plan_of(documents: list[Node], report: Report) -> Sketch:
    """The plan of all pods in the file.

    Raises:
        PlanError: there is none.
    """
    sketch = Sketch(f"the Kubernetes manifest {report.source.name}")
    for document in documents:
        one = plain(document)
        if not isinstance(one, dict):
            continue
        kind, name = str(one.get("kind")), str(_below(one, "metadata").get("name") or "job")
        spec = _below(one, "spec")
        if kind == "Job":
            pod = _below(_below(spec, "template"), "spec")
        elif kind == "Pod":
            pod = spec
        else:
            sketch.leave(f"{kind} {name}", f"plans come of {listed(_KINDS)}")
            continue
        containers = [c for c in _listed(pod.get("containers")) if isinstance(c, dict)]
        if not sketch.jobs:
            sketch.name(name)
        for container in containers:
            job = sketch.job(name if len(containers) == 1 else f"{name}-{container.get('name')}")
            _container(job, container, pod)
            if kind == "Job":
                _counts(sketch, job, spec)
    if not sketch.jobs:
        raise PlanError(
            "nothing-to-import", f"{report.source.name} holds no pod", where=report.source.name,
            hint=f"migctl reads {listed(_KINDS)}",
        )  # fmt: skip
    return sketch


def _counts(sketch: Sketch, job: JobSketch, spec: Mapping[str, Any]) -> None:
    completions = str(spec.get("completions") or "1")
    if completions.isdigit() and int(completions) > 1:
        job.keys["replicas"] = int(completions)
        job.note("completions: the index of each is in MIGCTL_JOB's number, which begins at 1")
    parallelism, retries = str(spec.get("parallelism") or ""), str(spec.get("backoffLimit") or "0")
    if completions.isdigit() and parallelism.isdigit() and 0 < int(parallelism) < int(completions):
        sketch.keys["max_parallel"] = int(parallelism)
    if retries.isdigit() and retries != "0":
        job.keys["retries"] = int(retries)


def _container(job: JobSketch, container: Mapping[str, Any], pod: Mapping[str, Any]) -> None:
    for key, value in container.items():
        if key == "image":
            job.keys["image"] = literal(str(value))
        elif key == "imagePullPolicy":
            job.keys["pull_policy"] = _PULL.get(str(value), "missing")
        elif key == "command":
            job.keys["entrypoint"] = [literal(str(word)) for word in _listed(value)]
        elif key == "args":
            job.keys["command"] = [literal(str(word)) for word in _listed(value)]
        elif key == "workingDir":
            job.keys["working_dir"] = literal(str(value))
        elif key == "env":
            _environment(job, value)
        elif key == "resources":
            _resources(job, value)
        elif key not in ("name", "volumeMounts"):
            job.leave(f"{key}: {shown(value)}", "no key of a plan")
    # A command without an entry point of the image is an entry point: in a plan it reads better as the command.
    if "command" not in job.keys and "entrypoint" in job.keys:
        job.keys["command"] = job.keys.pop("entrypoint")
    _mounts(job, container.get("volumeMounts"), pod.get("volumes"))
    if grace := str(pod.get("terminationGracePeriodSeconds") or ""):
        job.keys["stop_grace_period"] = f"{grace}s"
    if limit := str(pod.get("activeDeadlineSeconds") or ""):
        job.keys["timeout"] = f"{limit}s"
    for key, value in pod.items():
        if key not in (
            "containers",
            "volumes",
            "restartPolicy",
            "terminationGracePeriodSeconds",
            "activeDeadlineSeconds",
        ):
            job.leave(f"{key}: {shown(value)}", "a matter of the cluster")
    if pod.get("restartPolicy") not in (None, "Never"):
        job.leave(f"restartPolicy: {pod['restartPolicy']}", "retries: N runs a failed job again")
    job.keys.setdefault("user", "image")


def _environment(job: JobSketch, entries: object) -> None:
    kept: dict[str, Value] = {}
    for entry in (one for one in _listed(entries) if isinstance(one, dict)):
        name = str(entry.get("name"))
        if "valueFrom" in entry:
            job.leave(f"env {name}", "its value comes from the cluster")
        elif not gpu_variable(job, name, str(entry.get("value") or "")):
            kept[name] = literal(str(entry.get("value") or ""))
    if kept:
        job.keys["environment"] = kept


def _resources(job: JobSketch, resources: object) -> None:
    limits = {**_below(resources, "requests"), **_below(resources, "limits")}
    for name, amount in limits.items():
        if name.startswith(_RESOURCE) and (profile := profile_in(name)) is not None:
            if "profile" in job.keys:
                raise PlanError(
                    "two-instances",
                    f"{job.name} asks for {job.keys['profile']} and {profile}; one job gets one GPU instance",
                    hint="write a container for each, or ask for one larger profile",
                )
            job.keys["profile"] = profile
            if str(amount) != "1":
                job.leave(f"{name}: {amount}", "one job gets one GPU instance")
        elif name == "nvidia.com/gpu":
            job.note(
                f"{name}: {amount}: with the plugin's strategy `single` this is a MIG device; without profile any size"
            )
        elif name == "cpu":
            _cpus(job, str(amount))
        elif name == "memory":
            job.keys["mem_limit"] = _quantity(str(amount))
        else:
            job.leave(f"{name}: {shown(amount)}", "no key of a plan")


def _cpus(job: JobSketch, amount: str) -> None:
    if amount.isdigit() and amount != "0":
        job.keys["cpus"] = int(amount)
        job.note(f"cpus: {amount} were CPUs as Kubernetes counts them (hardware threads); here they are physical cores")
    else:
        job.leave(f"cpu: {amount}", "a plan gives whole cores")


def _quantity(amount: str) -> str:
    """`16Gi` is `16g`; powers of ten and plain bytes are bytes."""
    if found := re.fullmatch(r"(\d+)([KMGT])i", amount):
        return f"{found[1]}{found[2].lower()}"
    if found := re.fullmatch(r"(\d+)([kMGT])", amount):
        return str(int(found[1]) * 1000 ** ("kMGT".index(found[2]) + 1))
    return amount


def _mounts(job: JobSketch, mounts: object, volumes: object) -> None:
    by_name = {str(volume.get("name")): volume for volume in _listed(volumes) if isinstance(volume, dict)}
    kept: list[Value] = []
    for mount in (one for one in _listed(mounts) if isinstance(one, dict)):
        name, path = str(mount.get("name")), str(mount.get("mountPath"))
        volume = by_name.get(name, {})
        read_only: dict[str, Value] = {"read_only": True} if str(mount.get("readOnly")) == "true" else {}
        empty = volume.get("emptyDir")
        if isinstance(empty, dict) and empty.get("medium") == "Memory" and path == "/dev/shm":
            if "sizeLimit" in empty:
                job.keys["shm_size"] = _quantity(str(empty["sizeLimit"]))
        elif "hostPath" in volume:
            kept.append(
                {"type": "bind", "source": str(_below(volume, "hostPath").get("path")), "target": path, **read_only}
            )
        elif "persistentVolumeClaim" in volume:
            claim = str(_below(volume, "persistentVolumeClaim").get("claimName"))
            job.note(f"the claim {claim} is a volume of that name here")
            kept.append({"type": "volume", "source": claim, "target": path, **read_only})
        elif isinstance(empty, dict):
            kept.append({"type": "volume", "target": path})
        else:
            job.leave(f"volume {name} on {path}", "its content is the cluster's")
    if kept:
        job.keys["volumes"] = kept


def _below(value: object, key: str) -> Mapping[str, Any]:
    """What a mapping has under a key, where that is a mapping too."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _listed(value: object) -> list[Any]:
    """A list's items, or the one value."""
    return value if isinstance(value, list) else [] if value is None else [value]
