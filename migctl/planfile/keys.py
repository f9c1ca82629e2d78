"""Keys that a plan may not use: why, and what to do instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from migctl.planfile.nodes import Node, Scalar
from migctl.planfile.problems import did_you_mean


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a key is refused, and the way out."""

    id: str
    message: str
    hint: str


_GPU = Reason(
    "gpu-by-other-way",
    "{key} gives GPUs past the plan: one job gets one GPU instance, and CUDA uses only one MIG device in a process",
    "use profile, memory or slices; write a job for each further instance",
)
_DEVICE = Reason(
    "gpu-by-other-way",
    "{key} gives devices past the plan, and with them the neighbours' GPU",
    "delete it: migctl gives the job its instance",
)
_LIMITS = Reason("cpu-by-other-way", "{key} limits CPU time; migctl pins whole cores instead", "use cpus or cpuset")

REFUSED_IN_JOB: Mapping[str, Reason] = {
    "privileged": Reason(
        "privileged",
        "privileged: true shows a container every GPU and every instance, so nothing is isolated",
        "delete it; use cap_add for the one capability needed",
    ),
    "restart": Reason(
        "restart-policy",
        "a restart policy restarts the container after a reboot, when its GPU instance is gone",
        "delete it; retries: 3 runs a failed job again, on_reboot: resume the run after a reboot",
    ),
    "runtime": Reason(
        "runtime-in-job",
        "migctl chooses how a container gets its GPU instance",
        "delete it; runtime (docker or process) is a key of the plan",
    ),
    "gpus": _GPU,
    "gpu_ids": _GPU,
    "device_ids": _GPU,
    "device_requests": _GPU,
    "deploy": Reason(
        "gpu-by-other-way",
        "deploy is Compose's way to reserve devices and limits",
        "use profile for the GPU, cpus for cores, mem_limit for memory, replicas",
    ),
    "devices": _DEVICE,
    "device_cgroup_rules": _DEVICE,
    "cpu_count": _LIMITS,
    "cpu_percent": _LIMITS,
    "cpu_shares": _LIMITS,
    "cpu_quota": _LIMITS,
    "cpu_period": _LIMITS,
    "cpuset_cpus": Reason("unknown-key", "cpuset_cpus is not a key of a job", "write cpuset"),
    "container_name": Reason(
        "unknown-key",
        "migctl names containers itself, so that runs do not collide",
        "delete it; `migctl status` shows the names",
    ),
    "name": Reason("unknown-key", "a job's name is its key under jobs", "write jobs: {NAME: …}"),
    "build": Reason(
        "unknown-key", "migctl does not build images", "run `docker build -t NAME .` and write image: NAME"
    ),
    "depends_on": Reason(
        "unknown-key",
        "depends_on is not a key of a job",
        "write needs: [NAME]",
    ),
    "scale": Reason("unknown-key", "scale is not a key of a job", "write replicas"),
    "env": Reason("unknown-key", "env is not a key of a job", "write environment"),
    "init": Reason("unknown-key", "every container gets an init process anyway", "delete it"),
    "networks": Reason("unknown-key", "networks is not a key of a job", "write network_mode: NAME"),
    "min_memory": Reason("unknown-key", "min_memory is not a key of a job", "write memory"),
    "oom_score_adj": Reason(
        "unknown-key",
        "migctl sets oom_score_adj itself, so that jobs die before the system does",
        "delete it",
    ),
    "stop_signal": Reason(
        "unknown-key",
        "a job is always told to stop by SIGTERM",
        "handle SIGTERM in the training, and delete the key",
    ),
}

REFUSED_IN_PLAN: Mapping[str, Reason] = {
    "services": Reason(
        "compose-file",
        "this looks like a Compose file: a plan has jobs",
        "`migctl import FILE` makes a plan of it",
    ),
    "version": Reason("unknown-key", "a plan has no version", "delete it"),
    "mig-configs": Reason(
        "mig-parted-file",
        "this looks like a mig-parted configuration: a plan has jobs",
        "`migctl import FILE` makes a plan of it",
    ),
    "gpus": Reason(
        "gpu-by-other-way",
        "gpus is not a key of a plan: gpu says on which GPUs, and each job gets one instance",
        "write gpu: [0, 1], and a job for each instance",
    ),
    "volumes": Reason(
        "unknown-key",
        "volumes belong to a job",
        "write them under defaults or a job; a named volume needs no declaration",
    ),
    "networks": Reason(
        "unknown-key",
        "networks are the engine's",
        "make one with `docker network create` and write network_mode: NAME in a job",
    ),
    "image": Reason("unknown-key", "image belongs to a job", "write it under defaults or a job"),
    "command": Reason("unknown-key", "command belongs to a job", "write it under a job"),
    "profile": Reason("unknown-key", "profile belongs to a job", "write it under defaults or a job"),
    "environment": Reason("unknown-key", "environment belongs to a job", "write it under defaults or a job"),
    "job": Reason("unknown-key", "job is not a key of a plan", "write jobs"),
}


def is_extension(key: str) -> bool:
    """Compose's extension keys carry anchors and are ignored."""
    return key.startswith("x-")


def refusal(
    key: str, value: Node, *, in_job: bool, known: Iterable[str], elsewhere: Iterable[str] = ()
) -> Reason | None:
    """Why an unknown key is refused; `None` for a value that changes nothing (`privileged: false`, `restart: "no"`)."""
    reason = (REFUSED_IN_JOB if in_job else REFUSED_IN_PLAN).get(key)
    if reason is None and key in elsewhere:
        return _misplaced(key, in_job=in_job)
    if reason is None:
        near = did_you_mean(key, known)
        shown = key if key.isprintable() and 0 < len(key) <= 60 else repr(key[:60])
        return Reason(
            "unknown-key",
            f"{shown} is not a key of a {'job' if in_job else 'plan'}",
            near or "`migctl schema` lists the keys",
        )
    if isinstance(value, Scalar):
        if key == "privileged" and value.plain and value.text.lower() == "false":
            return None
        if key == "restart" and value.text in ("no", "false"):
            return None
    return Reason(reason.id, reason.message.replace("{key}", key), reason.hint)


def _misplaced(key: str, *, in_job: bool) -> Reason:
    if in_job:
        return Reason("unknown-key", f"{key} belongs to the plan, not to a job", "write it beside jobs")
    return Reason("unknown-key", f"{key} belongs to a job", "write it under defaults or a job")
