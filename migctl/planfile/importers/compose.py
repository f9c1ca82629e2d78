"""Compose files as plans: a job for each service."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from migctl.core.yaml_text import Value
from migctl.errors import PlanError
from migctl.planfile.importers.gpu_words import gpu_variable, set_devices
from migctl.planfile.importers.sketch import JobSketch, Sketch, dollars, entries, items, plain, shown, value_of
from migctl.planfile.nodes import Mapping as MappingNode
from migctl.planfile.nodes import Node, Scalar
from migctl.planfile.problems import Report

SAME = (
    "image", "pull_policy", "entrypoint", "command", "env_file", "volumes", "ports", "network_mode", "shm_size", "tmpfs",
    "working_dir", "group_add", "ulimits", "labels", "extra_hosts", "cap_add", "security_opt", "ipc", "stop_grace_period",
    "mem_limit", "user", "cpuset",
)  # fmt: skip
"""Keys that mean the same in a plan."""

_WHY: Mapping[str, str] = {
    "restart": "after a reboot the instance is gone: retries: N and on_reboot: resume are a plan's words",
    "container_name": "migctl names containers, so that runs do not collide",
    "privileged": "it would show the container every GPU",
    "build": "docker build -t NAME . first, and write image: NAME",
    "healthcheck": "a training ends with an exit code",
    "devices": "they would give the neighbours' GPU",
    "networks": "network_mode: NAME joins a network that is there",
    "profiles": "every job of a plan runs",
    "stdin_open": "migctl run -i is for that",
    "tty": "migctl run -i is for that",
    "init": "every job has an init process anyway",
    "logging": "migctl keeps the logs itself",
}


def plan_of(root: Node, report: Report) -> Sketch:
    """The plan of all services.

    Raises:
        PlanError: there is no service, or one has several MIG devices.
    """
    whole = entries(root)
    services = entries(whole.get("services"))
    if not services:
        raise PlanError("nothing-to-import", "the Compose file has no services", where=report.source.name)
    sketch = Sketch(f"the Compose file {report.source.name}")
    for key, node in whole.items():
        if key == "name" and isinstance(node, Scalar):
            sketch.name(node.text)
        elif key == "volumes":
            for name in entries(node):
                sketch.note(
                    f"volume {name}: Compose puts the project's name before it; a plan takes the name as it stands"
                )
        elif key != "services" and not key.startswith("x-"):
            sketch.leave(f"{key}: {shown(plain(node))}", "obsolete" if key == "version" else "not a matter of jobs")
    names = {name: sketch.job(name) for name in services}
    for name, node in services.items():
        _service(names[name], entries(node), {one: job.name for one, job in names.items()})
    return sketch


def _service(job: JobSketch, keys: Mapping[str, Node], names: Mapping[str, str]) -> None:
    special: dict[str, Callable[[JobSketch, Node], None]] = {
        "deploy": _deploy,
        "gpus": _gpus,
        "environment": _environment,
        "runtime": _runtime,
        "cpus": _cpus,
        "scale": _replicas,
    }
    # Devices first: variables that say the same are then no news.
    for key in ("deploy", "gpus"):
        if key in keys:
            special[key](job, keys[key])
    for key, node in keys.items():
        if key in SAME:
            job.keys[key] = value_of(node)
        elif key == "depends_on":
            _needs(job, node, names)
        elif key in special:
            if key not in ("deploy", "gpus"):
                special[key](job, node)
        elif not key.startswith("x-") and plain(node) not in ("no", "false", None):
            job.leave(f"{key}: {shown(plain(node))}", _WHY.get(key, "no key of a plan"))
    job.keys.setdefault("user", "image")
    if "build" in keys and "image" not in job.keys:
        job.keys["image"] = f"{job.name.lower()}:latest"
    if isinstance(volumes := job.keys.get("volumes"), list):
        job.keys["volumes"] = [_volume(job, volume) for volume in volumes]


def _volume(job: JobSketch, volume: Value) -> Value:
    """Without the options that a plan has not."""
    if isinstance(volume, str) and re.search(r":(?:[a-z,]*,)?[zZ](?:,[a-z]*)?$", volume):
        job.note(
            f"volume {volume}: relabelling for SELinux is left out; security_opt: [label=disable] is the other way"
        )
        return re.sub(r",?[zZ]\b", "", volume).rstrip(":")
    if isinstance(volume, dict) and "bind" in volume:
        job.note("volumes: a folder that is missing is an error, and never made")
        return {key: value for key, value in volume.items() if key != "bind"}
    return volume


def _environment(job: JobSketch, node: Node) -> None:
    pairs: dict[str, Value] = {}
    if isinstance(node, MappingNode):
        pairs = {name: value_of(value) for name, value in node.entries.items()}
    else:
        for item in items(node):
            name, equals, value = plain(item).partition("=")
            pairs[name] = dollars(value) if equals else None
    kept = {name: value for name, value in pairs.items() if not gpu_variable(job, name, str(value or ""))}
    if kept:
        job.keys["environment"] = kept


def _deploy(job: JobSketch, node: Node) -> None:
    for key, below in entries(node).items():
        if key == "replicas":
            _replicas(job, below)
        elif key == "resources":
            _resources(job, below)
        else:
            job.leave(f"deploy.{key}: {shown(plain(below))}", "no key of a plan")


def _resources(job: JobSketch, node: Node) -> None:
    resources = entries(node)
    for key, value in entries(resources.get("limits")).items():
        if key == "memory":
            job.keys.setdefault("mem_limit", value_of(value))
        elif key == "cpus":
            _cpus(job, value)
        else:
            job.leave(f"deploy.resources.limits.{key}: {shown(plain(value))}")
    for key, value in entries(resources.get("reservations")).items():
        if key == "devices":
            for device in items(value):
                _device(job, entries(device), "device_ids")
        else:
            job.leave(
                f"deploy.resources.reservations.{key}: {shown(plain(value))}", "a plan gives cores and memory limits"
            )


def _gpus(job: JobSketch, node: Node) -> None:
    for item in items(node):
        if isinstance(item, MappingNode):
            _device(job, item.entries, "gpus")
        elif plain(item) != "all":
            job.leave(f"gpus: {shown(plain(item))}", "each job gets one GPU instance")


def _device(job: JobSketch, keys: Mapping[str, Node], where: str) -> None:
    if "device_ids" in keys:
        set_devices(job, [str(plain(item)) for item in items(keys["device_ids"])], where)
    if plain(keys.get("count")) not in (None, "1", "all"):
        job.leave(f"count: {plain(keys['count'])}", "each job gets one GPU instance: write replicas for several jobs")
    driver = plain(keys.get("driver"))
    if driver not in (None, "nvidia", "cdi"):
        job.leave(f"driver: {shown(driver)}", "migctl gives NVIDIA GPUs")
    for key in keys:
        if key not in ("device_ids", "count", "driver", "capabilities"):
            job.leave(f"{key}: {shown(plain(keys[key]))} of a device")


def _runtime(job: JobSketch, node: Node) -> None:
    if plain(node) not in ("nvidia", "runc"):
        job.leave(f"runtime: {shown(plain(node))}", "migctl chooses how a container gets its device")


def _cpus(job: JobSketch, node: Node) -> None:
    spelt = str(plain(node))
    if "cpuset" in job.keys or not re.fullmatch(r"[0-9.]+", spelt):
        job.leave(f"cpus: {shown(spelt)}", "a plan pins whole cores")
        return
    cores = max(1, round(float(spelt)))
    job.keys.setdefault("cpus", cores)
    job.note(f"cpus: {spelt} was a limit of CPU time; here they are {cores} physical cores of the job's own")


def _replicas(job: JobSketch, node: Node) -> None:
    if str(plain(node)).isdigit() and int(plain(node)) > 1:
        job.keys["replicas"] = int(plain(node))


def _needs(job: JobSketch, node: Node, names: Mapping[str, str]) -> None:
    """Success of another service is what `needs` is for; mere start has no meaning among trainings."""
    needed: list[Value] = []
    conditions = {name: plain(entries(below).get("condition")) for name, below in entries(node).items()}
    for name in conditions or [plain(item) for item in items(node)]:
        if conditions.get(name) == "service_completed_successfully" and name in names:
            needed.append(names[name])
        else:
            job.leave(f"depends_on: {name}", "it waits for a start; needs: [NAME] waits for success")
    if needed:
        job.keys["needs"] = needed
