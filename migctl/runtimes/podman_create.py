"""From Docker's request for a container to podman's own: over Docker's API podman starts a container and leaves its device out.

Only what `container_config` asks for is known here; anything else is an error, never left out in silence. Fields: podman,
pkg/specgen/specgen.go (API 4.0.0). A device whose path is a CDI name is taken for that device.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from typing import Any

from migctl.errors import PlanError

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_TOP = frozenset(
    {
        "Image",
        "Env",
        "Labels",
        "Tty",
        "OpenStdin",
        "StopSignal",
        "StopTimeout",
        "HostConfig",
        "Cmd",
        "Entrypoint",
        "WorkingDir",
        "User",
        "ExposedPorts",
    }
)
_HOST = frozenset(
    {
        "CpusetCpus",
        "CpusetMems",
        "Init",
        "AutoRemove",
        "RestartPolicy",
        "LogConfig",
        "OomScoreAdj",
        "ShmSize",
        "Ulimits",
        "Mounts",
        "GroupAdd",
        "NetworkMode",
        "PortBindings",
        "Tmpfs",
        "ExtraHosts",
        "CapAdd",
        "SecurityOpt",
        "IpcMode",
        "Memory",
        "DeviceRequests",
    }
)


def podman_spec(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Body of `POST /libpod/containers/create`.

    Args:
        config: body of Docker's `POST /containers/create`.
        name: of the container.

    Raises:
        PlanError: a security_opt that podman does not have.
        ValueError: the request has something that is not translated.
    """
    host: Mapping[str, Any] = config["HostConfig"]
    unknown = (set(config) - _TOP) | (set(host) - _HOST)
    if unknown:
        raise ValueError(f"not translated for podman: {', '.join(sorted(unknown))}")
    environment = [str(item).partition("=") for item in config["Env"]]
    spec: dict[str, Any] = {
        "name": name,
        "image": config["Image"],
        "env": {key: value for key, equals, value in environment if equals},
        "unsetenv": [key for key, equals, _ in environment if not equals],
        "labels": config["Labels"],
        "terminal": config["Tty"],
        "stdin": config["OpenStdin"],
        "stop_signal": int(signal.Signals[config["StopSignal"]]),
        "stop_timeout": config["StopTimeout"],
        "command": config.get("Cmd"),
        "entrypoint": config.get("Entrypoint"),
        "work_dir": config.get("WorkingDir"),
        "create_working_dir": True,  # as Docker does
        "user": config.get("User"),
        "init": host["Init"],
        "remove": host["AutoRemove"],
        "restart_policy": host["RestartPolicy"]["Name"],
        "log_configuration": _log(host["LogConfig"]),
        "oom_score_adj": host["OomScoreAdj"],
        "shm_size": host["ShmSize"],
        "r_limits": [{"type": u["Name"].upper(), "soft": u["Soft"], "hard": u["Hard"]} for u in host["Ulimits"]],
        "resource_limits": _resources(host),
        "groups": host.get("GroupAdd"),
        "hostadd": host.get("ExtraHosts"),
        "cap_add": host.get("CapAdd"),
        "devices": [{"path": device} for r in host.get("DeviceRequests") or () for device in r["DeviceIDs"]],
        **_mounts(host),
        **_network(host, config.get("ExposedPorts")),
        **_security(host.get("SecurityOpt") or ()),
    }
    if ipc := host.get("IpcMode"):
        spec["ipcns"] = _namespace(ipc)
    return {key: value for key, value in spec.items() if value not in (None, [], {}, "")}


def _log(log: Mapping[str, Any]) -> dict[str, Any]:
    """k8s-file is podman's json-file; it keeps one file of this size and rotates none."""
    options = log["Config"]
    return {"driver": "k8s-file", "size": _bytes(options["max-size"]) * int(options["max-file"])}


def _resources(host: Mapping[str, Any]) -> dict[str, Any]:
    cpu = {"cpus": host["CpusetCpus"]} | ({"mems": host["CpusetMems"]} if host.get("CpusetMems") else {})
    return {"cpu": cpu} | ({"memory": {"limit": host["Memory"]}} if host.get("Memory") else {})


def _mounts(host: Mapping[str, Any]) -> dict[str, Any]:
    mounts: list[dict[str, Any]] = []
    volumes: list[dict[str, Any]] = []
    for mount in host["Mounts"]:
        mode = ["ro"] if mount["ReadOnly"] else ["rw"]
        if mount["Type"] == "bind":
            bound = {"destination": mount["Target"], "type": "bind", "source": mount["Source"]}
            mounts.append(bound | {"options": ["rbind", "rprivate", *mode]})
        else:
            volumes.append({"Name": mount.get("Source", ""), "Dest": mount["Target"], "Options": mode})
    for target, options in (host.get("Tmpfs") or {}).items():
        words = [word for word in options.split(",") if word]
        mounts.append({"destination": target, "type": "tmpfs", "source": "tmpfs", "options": words})
    return {"mounts": mounts, "volumes": volumes}


def _network(host: Mapping[str, Any], exposed: Mapping[str, Any] | None) -> dict[str, Any]:
    mode = host.get("NetworkMode") or ""
    found: dict[str, Any] = {}
    if mode in ("none", "host", "bridge", "slirp4netns", "pasta") or mode.startswith("container:"):
        found["netns"] = _namespace(mode)
    elif mode and mode != "default":
        found |= {"netns": {"nsmode": "bridge"}, "Networks": {mode: {}}}
    bindings = host.get("PortBindings") or {}
    ports: list[dict[str, Any]] = []
    for key in exposed or {}:
        number, _, protocol = key.partition("/")
        for bound in bindings.get(key) or ():
            port = {"container_port": int(number), "protocol": protocol, "host_ip": bound["HostIp"]}
            # Without a host port podman chooses a free one.
            ports.append(port | ({"host_port": int(bound["HostPort"])} if bound["HostPort"] else {}))
    return found | {"portmappings": ports}


def _security(options: tuple[str, ...] | list[str]) -> dict[str, Any]:
    """`key=value` or `key:value`, as podman's own command line takes them apart (pkg/specgenutil/specgen.go)."""
    found: dict[str, Any] = {"selinux_opts": []}
    for option in options:
        key, _, value = re.sub(r"^(\w[\w-]*)[:=]", r"\1=", option).partition("=")
        match key:
            case "no-new-privileges":
                found["no_new_privileges"] = value in ("", "true")
            case "label":
                found["selinux_opts"].append(value)
            case "apparmor":
                found["apparmor_profile"] = value
            case "seccomp":
                found["seccomp_profile_path"] = value
            case "mask":
                found["mask"] = value.split(":")
            case "unmask" | "systempaths":
                found["unmask"] = ["ALL"] if value == "unconfined" else value.split(":")
            case _:
                raise PlanError(
                    "engine-refused", f"podman has no security_opt {option}", hint="podman-run(1), --security-opt"
                )
    return found


def _namespace(text: str) -> dict[str, str]:
    mode, _, value = text.partition(":")
    return {"nsmode": mode} | ({"value": value} if value else {})


def _bytes(text: str) -> int:
    number = text.rstrip("kmgKMG")
    return int(number) * _UNITS[text[len(number) :].lower()]
