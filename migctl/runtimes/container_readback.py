"""What a started container really got: its CPUs and its GPU, read from outside, because an engine may drop either in silence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.runs.observed import Unit
from migctl.errors import MigctlError
from migctl.runtimes import proc
from migctl.runtimes.device_nodes import DeviceNodes, Unknown, find_nodes, number_of
from migctl.runtimes.docker_errors import engine_errors
from migctl.runtimes.engine_client import Engine
from migctl.runtimes.gpu_device import GpuDevice
from migctl.runtimes.readback import Found, cpus_of

_OF_GPUS = re.compile(r"nvidia\d+")
_OF_CAPABILITIES = re.compile(r"nvidia-cap\d+")
Held = Mapping[str, int | None]
"""Node's name → the kernel's number, `None` where only the name could be seen."""


def cpus_inside(unit: Unit, wanted: CpuSet, *, local: bool) -> Found:
    """Whether a running container is on its CPUs: a rootless engine drops a cpuset that it was not delegated, with a mere warning.

    Args:
        unit: the container.
        wanted: by its label; none for one that was made without.
        local: the engine's pids are this machine's.
    """
    wanted = wanted or unit.cpus or CpuSet()
    if not wanted:
        return Found(True)
    if not local and unit.cpus is not None and unit.cpus != wanted:
        return Found(False, f"not on its CPUs: wanted {wanted}, the engine gave it {unit.cpus or 'all'}")
    if not local:
        return Found(None, "the engine is on another machine")
    if unit.pid is None:
        return Found(None, "the engine does not tell its process")
    return cpus_of(unit.pid, unit.pid_start, wanted)


def gpu_inside(engine: Engine, unit: Unit, device: GpuDevice, root: Path) -> Found:
    """Whether a running container holds the nodes of its own device and no other GPU's or instance's.

    Args:
        engine: asked to look inside where /proc may not be read.
        unit: the container, whose process is one of this machine.
        device: what it should hold.
        root: below which this machine's own /dev lies.
    """
    try:
        nodes = find_nodes(device, root)
    except MigctlError as error:
        return Found(False, error.message)
    if isinstance(nodes, Unknown):
        return Found(None, nodes.reason)
    held = held_by(unit.pid) if unit.pid is not None else None
    if unit.pid is not None and not proc.is_alive(unit.pid, unit.pid_start):
        return Found(True)  # it has ended, and the pid may be another process's by now: nothing can be said, or need be
    if held is None:
        held = _ask(engine, unit.handle)
    if held is None:
        return Found(None, "neither /proc/PID/root of the container nor an ls in it could be used")
    wrong = compare(nodes, held)
    return Found(wrong is None, wrong or "")


def compare(nodes: DeviceNodes, held: Held) -> str | None:
    """What is wrong about the nodes that a container holds; `None` when they are exactly its own."""
    own = {path.name: number_of(path) for path in (nodes.gpu, *nodes.capabilities)}
    lacking = sorted(name for name in own if name not in held)
    more = sorted(name for name in held if name not in own)
    other = sorted(name for name in own if name in held and held[name] not in (None, own[name]))
    parts = [
        f"lacks {', '.join(lacking)}" if lacking else "",
        f"has {', '.join(other)} of something else" if other else "",
        f"also holds {', '.join(more)}" if more else "",
    ]
    text = " and ".join(part for part in parts if part)
    return f"the container {text}" if text else None


def held_by(pid: int) -> Held | None:
    """GPU and capability nodes that a process sees below /dev; `None` where it may not be looked at, or has ended."""
    dev = proc.PROC / str(pid) / "root/dev"
    try:
        names = [path for path in dev.iterdir() if _OF_GPUS.fullmatch(path.name)]
    except OSError:
        return None
    try:
        names += [path for path in (dev / "nvidia-caps").iterdir() if _OF_CAPABILITIES.fullmatch(path.name)]
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError:
        return None
    return {path.name: number_of(path) for path in names}


def _ask(engine: Engine, handle: str) -> Held | None:
    """The names that `ls` shows in the container, where it has one."""
    try:
        with engine_errors(engine.endpoint, handle[:12]):
            made = engine.client.exec_create(handle, ["ls", "/dev", "/dev/nvidia-caps"], user="0", stderr=False)
            output: bytes = engine.client.exec_start(made["Id"])
            code = engine.client.exec_inspect(made["Id"]).get("ExitCode")
    except MigctlError:
        return None
    # 126, 127: no such program. Another code is ls saying that there is no nvidia-caps.
    return None if code in (126, 127, None) else names_listed(output.decode(errors="replace"))


def names_listed(text: str) -> Held:
    """GPU and capability nodes among the lines of `ls /dev /dev/nvidia-caps`."""
    words = text.split()
    return {word: None for word in words if _OF_GPUS.fullmatch(word) or _OF_CAPABILITIES.fullmatch(word)}


def labelled_cpus(data: Mapping[str, Any], label: str) -> CpuSet:
    """The CPUs that a container was made for."""
    return CpuSet.parse(data["Config"]["Labels"].get(label, ""))
