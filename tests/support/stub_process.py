"""What the stand-in for Docker's engine makes of a container's settings: it acts on them, or it refuses them."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

IMAGE_CONFIG: Mapping[str, Any] = {"Env": ["PATH=/bin"], "Cmd": ["sh"], "Entrypoint": None, "Labels": None}
SHM_BYTES = 64 << 20
OPEN_FILES = 524288
"""The hard limit of a service of systemd's (DefaultLimitNOFILE), as an engine is one; a rootless one cannot raise its own."""
# Settings that nothing here acts on, with the values that ask for nothing: any other one is refused.
IDLE_CONFIG: Mapping[str, Sequence[Any]] = {
    "Tty": (None, False),
    "OpenStdin": (None, False),
    "ExposedPorts": (None, {}),
}
IDLE_HOST: Mapping[str, Sequence[Any]] = {
    # No PID namespace is made: a signal's default action is taken, as it is below docker-init and not by a PID 1 of its own.
    "Init": (True,),
    "AutoRemove": (None, False),
    "RestartPolicy": (None, {"Name": "no"}, {"Name": ""}),
    # "none": a network namespace of its own, where this machine lets one be made.
    "NetworkMode": ("none", "host"),
}
_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None)


class SettingRefusedError(Exception):
    """An answer with this status: Docker's own, or 501 for what Docker does and this stand-in does not."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def check(body: Mapping[str, Any]) -> None:
    """Refuse what Docker refuses about these settings, and what nothing here acts on.

    Raises:
        SettingRefusedError: why.
    """
    host = body["HostConfig"]
    for values, idle in ((body, IDLE_CONFIG), (host, IDLE_HOST)):
        for name, allowed in idle.items():
            if values.get(name) not in allowed:
                raise SettingRefusedError(501, f"the stand-in does nothing about {name}: {values.get(name)!r}")
    if (host.get("LogConfig") or {"Type": "json-file"})["Type"] != "json-file":
        raise SettingRefusedError(501, f"the stand-in keeps no logs: {host['LogConfig']!r}")
    # The root has no /dev/shm at all, so nobody is given more than he asked for.
    if (host.get("ShmSize") or SHM_BYTES) < 0:
        raise SettingRefusedError(400, "SHM size can not be less than 0")
    for limit in host.get("Ulimits") or ():
        if limit["Name"] not in _limits():
            raise SettingRefusedError(400, f"invalid ulimit type: {limit['Name']}")
        if limit["Soft"] > limit["Hard"] != -1:
            raise SettingRefusedError(400, "ulimit soft limit must be less than or equal to hard limit")
    if not cpus(host.get("CpusetCpus") or "") <= set(range(os.cpu_count() or 1)):
        raise SettingRefusedError(400, f"Requested CPUs are not available - requested {host['CpusetCpus']}")
    for mount in host.get("Mounts") or ():
        if mount["Type"] == "bind" and not Path(mount["Source"]).exists():
            # moby, volume/mounts/linux_parser.go: of `Binds`, which are no field here, it would make a folder.
            raise SettingRefusedError(
                400, f'invalid mount config for type "bind": bind source path does not exist: {mount["Source"]}'
            )
        raise SettingRefusedError(501, f"the stand-in mounts nothing: {mount!r}")


def merged(body: Mapping[str, Any]) -> dict[str, Any]:
    """The container's configuration with what the image gives (moby, daemon/commit.go and container/env.go)."""
    config = {name: value for name, value in body.items() if name != "HostConfig"}
    own = [str(item) for item in body.get("Env") or ()]
    named = {item.partition("=")[0] for item in own}
    env = [item for item in IMAGE_CONFIG["Env"] if item.partition("=")[0] not in named]
    # A name without a sign takes the image's value away.
    config["Env"] = [*(item for item in own if "=" in item), *env]
    if not body.get("Cmd") and not body.get("Entrypoint"):
        config["Cmd"] = IMAGE_CONFIG["Cmd"]
    return config


def begin(root: Path, config: Mapping[str, Any], host: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    """The container's process in its root, which has its command, its environment and nothing of the test's.

    Raises:
        SettingRefusedError: it could not be started.
    """
    command = [*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())]
    uid, gid = _user(config.get("User") or "0")
    folder = config.get("WorkingDir") or "/"
    (root / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
    limits = [_limit(one) for one in host.get("Ulimits") or ()]
    on = cpus(host.get("CpusetCpus") or "") or os.sched_getaffinity(0)
    alone = host["NetworkMode"] == "none"
    score = str(host.get("OomScoreAdj") or 0)

    def enter() -> None:
        if alone:
            _LIBC.unshare(_CLONE_NEWNET)  # refused without CAP_SYS_ADMIN: then the network is the machine's
        if score != "0":
            Path("/proc/self/oom_score_adj").write_text(score)
        os.sched_setaffinity(0, on)
        for kind, values in limits:
            resource.setrlimit(kind, values)
        os.chroot(root)
        os.chdir(folder)
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)

    environment = dict(item.split("=", 1) for item in config["Env"])
    try:
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=enter,
        )
    except FileNotFoundError:
        raise SettingRefusedError(400, f'exec: "{command[0]}": executable file not found in $PATH: unknown') from None
    except PermissionError:
        raise SettingRefusedError(400, f'exec: "{command[0]}": permission denied: unknown') from None
    except subprocess.SubprocessError:
        raise SettingRefusedError(500, "error setting rlimits for ready process: operation not permitted") from None


def stop_signal(config: Mapping[str, Any]) -> int:
    """What `docker stop` sends first."""
    return signal.Signals[config.get("StopSignal") or "SIGTERM"]


def cpus(text: str) -> set[int]:
    """The CPUs of a list as cpuset(7) writes it."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def _user(text: str) -> tuple[int, int]:
    """The image has no passwd: names are unknown, and a number's group is 0 (moby, oci/user.go)."""
    user, _, group = text.partition(":")
    with suppress(ValueError):
        return int(user), int(group or 0)
    raise SettingRefusedError(400, f"unable to find user {user}: no matching entries in passwd file")


def _limit(asked: Mapping[str, Any]) -> tuple[int, tuple[int, int]]:
    """Kind, soft and hard: what an engine may give, as far as this machine lets its tests have it."""
    kind = _limits()[asked["Name"]]
    soft, hard = asked["Soft"], asked["Hard"]
    if kind == resource.RLIMIT_NOFILE:
        if not 0 <= hard <= OPEN_FILES:
            raise SettingRefusedError(500, "error setting rlimits for ready process: operation not permitted")
        most = resource.getrlimit(kind)[1]
        soft, hard = (min(value, most) if most >= 0 else value for value in (soft, hard))
    return kind, (soft, hard)


def _limits() -> dict[str, int]:
    return {name[7:].lower(): getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}
