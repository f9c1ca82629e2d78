"""What this machine shows of an engine that runs on it: whether it is here, its CPUs, its PATH, the NVIDIA toolkit's settings."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import tomllib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from migctl.core.cpu.cpuquota import cpu_quota_of
from migctl.core.cpu.cpuset import CpuSet
from migctl.runtimes.access import HOOK_PROGRAM
from migctl.runtimes.cdi_files import DEFAULT_FOLDERS
from migctl.runtimes.device_nodes import number_of

CGROUP = Path("/sys/fs/cgroup")
TOOLKIT_CONFIG = Path("/etc/nvidia-container-runtime/config.toml")
SERVICE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH of a systemd service (systemd.exec(5)), where the engine's own cannot be read."""


def podman_folders(environ: Mapping[str, str], places: Sequence[Path] | None = None) -> tuple[str, ...]:
    """Where podman reads CDI specifications: `cdi_spec_dirs` of containers.conf(5), which its API does not tell."""
    config = Path(environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME") or "/", ".config"))
    folders: tuple[str, ...] = DEFAULT_FOLDERS
    for place in places or (
        Path("/usr/share/containers/containers.conf"),
        Path("/etc/containers/containers.conf"),
        *sorted(Path("/etc/containers/containers.conf.d").glob("*.conf")),
        config / "containers/containers.conf",
    ):
        try:
            listed = tomllib.loads(place.read_text()).get("engine", {}).get("cdi_spec_dirs")
        except (OSError, ValueError, AttributeError):
            continue
        if isinstance(listed, list) and listed:
            folders = tuple(str(folder) for folder in listed)
    return folders


def lacks_cpuset(uid: int, root: Path = CGROUP) -> bool:
    """Whether a rootless engine of this user was not delegated the cpuset controller (cgroup v2), so that it drops cpusets."""
    try:
        controllers = (root / f"user.slice/user-{uid}.slice/user@{uid}.service/cgroup.controllers").read_text()
    except OSError:
        return False
    return "cpuset" not in controllers.split()


def unlinked_nodes(dev: Path = Path("/dev")) -> tuple[str, ...]:
    """NVIDIA's device nodes without a link in /dev/char, where runc looks when systemd has it set up a container's rules anew."""
    nodes = [*dev.glob("nvidia[0-9]*"), *dev.glob("nvidiactl"), *dev.glob("nvidia-caps/nvidia-cap*")]
    found = ((node, number_of(node)) for node in nodes)
    return tuple(
        str(node)
        for node, number in sorted(found)
        if number is not None and not (dev / f"char/{os.major(number)}:{os.minor(number)}").exists()
    )


def engine_cpus(info: Mapping[str, Any], root: Path = CGROUP) -> CpuSet | None:
    """CPUs that the cgroup above all containers allows; `None` when no file says so."""
    above = _above_containers(info)
    if _version_2(info):
        places = [root / above / "cpuset.cpus.effective", root / "cpuset.cpus.effective"]
    else:
        places = [
            root / "cpuset" / above / "cpuset.effective_cpus",
            root / "cpuset/cpuset.effective_cpus",
            root / "cpuset/cpuset.cpus",
        ]
    for place in places:
        try:
            cpus = CpuSet.parse(place.read_text())
        except (OSError, ValueError):
            continue
        if cpus:
            return cpus
    return None


def engine_quota(info: Mapping[str, Any], root: Path = CGROUP) -> Fraction | None:
    """CPUs' worth of time that the cgroup above all containers may use, and those above it that are seen from here."""
    base = root if _version_2(info) else root / "cpu"
    found = (_quota(base / _above_containers(info)), _quota(base))
    return min((quota for quota in found if quota is not None), default=None)


def _quota(group: Path) -> Fraction | None:
    return cpu_quota_of(lambda name: _text(group / name))


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None


def _version_2(info: Mapping[str, Any]) -> bool:
    return str(info.get("CgroupVersion", "1")) == "2"


def _above_containers(info: Mapping[str, Any]) -> str:
    """The cgroup in which the engine puts its containers' (dockerd(8), `--cgroup-parent`)."""
    if _version_2(info) and any("rootless" in str(option) for option in info.get("SecurityOptions") or ()):
        return "user.slice"
    return "system.slice" if info.get("CgroupDriver") == "systemd" else "docker"


def finds_hook(socket_path: str) -> bool | None:
    """Whether the engine finds NVIDIA's hook on its PATH; `None` when its PATH cannot be read and the usual one has none.

    The engine looks once, when it starts (moby, daemon/nvidia_linux.go), and tells nobody.
    """
    pid = _listener(socket_path)
    search = _path_of(pid) if pid is not None else None
    if search is not None:
        return shutil.which(HOOK_PROGRAM, path=search) is not None
    return True if shutil.which(HOOK_PROGRAM, path=SERVICE_PATH) else None


def open_files_limit(socket_path: str) -> int | None:
    """The engine's own hard limit of open files: what starts containers inherits it, and cannot always raise it."""
    pid = _listener(socket_path)
    if pid is None or _command(pid) not in ("dockerd", "podman"):
        return None
    try:
        lines = Path("/proc", str(pid), "limits").read_text().splitlines()
    except OSError:
        return None
    hard = next((line.split()[4] for line in lines if line.startswith("Max open files")), "")
    return int(hard) if hard.isdigit() else None


def toolkit_accepts_variable(config: Path = TOOLKIT_CONFIG) -> bool:
    """Whether NVIDIA_VISIBLE_DEVICES works for unprivileged containers: so it is unless an administrator forbade it."""
    try:
        settings = tomllib.loads(config.read_text())
    except (OSError, ValueError):
        return True
    return settings.get("accept-nvidia-visible-devices-envvar-when-unprivileged", True) is not False


def _listener(path: str) -> int | None:
    """Process that listens on a socket (SO_PEERCRED of a connection, socket(7))."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.settimeout(2)
            probe.connect(path)
            pid, _, _ = struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        except OSError:
            return None
    return int(pid) or None


def _path_of(pid: int) -> str | None:
    """PATH of an engine's process; `None` where systemd listens for it (socket activation) or it is another user's."""
    if _command(pid) != "dockerd":
        return None
    try:
        variables = Path("/proc", str(pid), "environ").read_bytes().split(b"\0")
    except OSError:
        return None
    return next((v[5:].decode(errors="surrogateescape") for v in variables if v.startswith(b"PATH=")), os.defpath)


def _command(pid: int) -> str:
    try:
        return Path("/proc", str(pid), "comm").read_text().strip()
    except OSError:
        return ""
