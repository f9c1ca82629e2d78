"""From a launch to the request that creates its container; pure, so that what is asked can be read and tested."""

from __future__ import annotations

import math
from typing import Any

from migctl.core.plan import Job, Volume
from migctl.core.runs.labels import LABEL
from migctl.runtimes.access import GpuAccess
from migctl.runtimes.engine_ids import ROOTLESS_USER
from migctl.runtimes.launch import Launch

OPEN_FILES = 65536
"""Soft limit of open files: engines from 29 on give 1024, too few for loaders that pass tensors as file descriptors."""
LOG_OPTIONS = {"max-size": "50m", "max-file": "4"}
"""At most 200 MiB of log a container on the engine's disk; what fell out of the rotation is lost."""
OOM_SCORE_ADJ = 500
"""Where RAM runs out the trainings go first, not the engine or the machine's services."""


def container_config(
    launch: Launch, access: GpuAccess, *, image_sets_cuda: bool, open_files: int | None, rootless: bool = False
) -> dict[str, Any]:
    """Body of `POST /containers/create` (API 1.40 and later).

    Args:
        launch: what to run.
        access: how the container gets its device.
        image_sets_cuda: the image itself sets CUDA_VISIBLE_DEVICES. A name without `=` takes it away again (moby,
            container/env.go: "Values w/o = means they want this env to be removed/unset").
        open_files: hard limit of open files, `None` = the engine's default (a rootless one cannot raise it).
        rootless: the engine runs without root, so the caller outside is root inside.
    """
    settings, variables = access.settings(launch.mig_uuid, launch.token)
    own = {LABEL + "run": launch.run, LABEL + "job": launch.job, LABEL + "token": launch.token}
    neutral = ("CUDA_VISIBLE_DEVICES",) if image_sets_cuda else ()
    config: dict[str, Any] = {
        "Image": launch.image_id,
        "Env": [*(f"{name}={value}" for name, value in launch.environment), *variables, *neutral],
        "Labels": {**own, **dict(launch.labels)},
        "Tty": False,
        "OpenStdin": False,
        # Whatever the image's STOPSIGNAL is: the design promises SIGTERM to the main process.
        "StopSignal": "SIGTERM",
        "StopTimeout": math.ceil(launch.spec.stop_grace_period_s),
        "HostConfig": {**_host_config(launch, open_files=open_files), **settings},
    }
    if launch.command is not None:
        config["Cmd"] = list(launch.command)
    if launch.entrypoint is not None:
        config["Entrypoint"] = list(launch.entrypoint)
    if launch.working_dir:
        config["WorkingDir"] = launch.working_dir
    user = ROOTLESS_USER if rootless and launch.spec.user is None else launch.user
    if user:
        config["User"] = user
    if launch.spec.ports:
        config["ExposedPorts"] = {f"{port.container}/{port.protocol}": {} for port in launch.spec.ports}
    return config


def _host_config(launch: Launch, *, open_files: int | None) -> dict[str, Any]:
    job = launch.spec
    host: dict[str, Any] = {
        "CpusetCpus": str(launch.cpus),
        "Init": True,
        "AutoRemove": False,
        "RestartPolicy": {"Name": "no"},
        "LogConfig": {"Type": "json-file", "Config": LOG_OPTIONS},
        "OomScoreAdj": OOM_SCORE_ADJ,
        "ShmSize": launch.shm_size_bytes,
        "Ulimits": _ulimits(job, open_files=open_files),
        # Mounts, not binds: for a missing source of a bind the engine makes an empty folder as root.
        "Mounts": [_mount(volume) for volume in job.volumes],
    }
    if launch.mems is not None:
        host["CpusetMems"] = str(launch.mems)
    optional = {
        "GroupAdd": list(job.group_add),
        "NetworkMode": job.network_mode,
        "PortBindings": _ports(job),
        "Tmpfs": dict(_tmpfs(text) for text in job.tmpfs),
        "ExtraHosts": list(job.extra_hosts),
        "CapAdd": list(job.cap_add),
        "SecurityOpt": list(job.security_opt),
        "IpcMode": job.ipc,
        "Memory": job.mem_limit_bytes,
    }
    return host | {key: value for key, value in optional.items() if value}


def _ulimits(job: Job, *, open_files: int | None) -> list[dict[str, Any]]:
    limits = [{"Name": limit.name, "Soft": limit.soft, "Hard": limit.hard} for limit in job.ulimits]
    if open_files is not None and not any(limit.name == "nofile" for limit in job.ulimits):
        limits.append({"Name": "nofile", "Soft": min(OPEN_FILES, open_files), "Hard": open_files})
    return limits


def _mount(volume: Volume) -> dict[str, Any]:
    mount: dict[str, Any] = {"Type": volume.kind, "Target": volume.target, "ReadOnly": volume.read_only}
    if volume.source is not None:
        mount["Source"] = volume.source
    return mount


def _ports(job: Job) -> dict[str, list[dict[str, str]]]:
    bindings: dict[str, list[dict[str, str]]] = {}
    for port in job.ports:
        # An empty host port lets the engine choose a free one.
        bound = {"HostIp": port.host_ip, "HostPort": str(port.host) if port.host else ""}
        bindings.setdefault(f"{port.container}/{port.protocol}", []).append(bound)
    return bindings


def _tmpfs(text: str) -> tuple[str, str]:
    path, _, options = text.partition(":")
    return path, options
