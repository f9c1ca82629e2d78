"""migctl's own CDI specification: one device for one job, complete, in the oldest schema version that can say it.

Schema and versions: github.com/cncf-tags/container-device-interface, SPEC.md. Readers refuse what they do not know (podman 4.3.1
reads up to 0.5.0, toolkits from 1.19 on write 0.7.0), so the version follows from what is used, and what newer versions brought is
left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from migctl.runtimes.device_nodes import DeviceNodes

VENDOR_CLASS = "migctl.io/gpu"
"""A kind of our own: a name of nvidia.com could clash with a specification of the toolkit's, and both would be void."""
FILE_PREFIX = "migctl.io-gpu_"

_MOUNT_KEYS = ("hostPath", "containerPath", "options", "type")
_HOOK_KEYS = ("hookName", "path", "args", "env", "timeout")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One of the driver's files in the container."""

    host: str
    container: str
    options: tuple[str, ...] = ("ro", "nosuid", "nodev", "rbind", "rprivate")


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverEdits:
    """What every container with a GPU needs beside device nodes: the driver's libraries and programs, and hooks for the linker."""

    source: str
    """Who told: `nvidia-ctk`, or the linker's cache."""
    mounts: tuple[Mapping[str, object], ...] = ()
    hooks: tuple[Mapping[str, object], ...] = ()


def device_name(uuid: str, token: str) -> str:
    """The device's name: the attempt's part keeps two attempts on one instance apart."""
    return f"{uuid}.{token[:8]}"


def qualified_name(uuid: str, token: str) -> str:
    """What an engine is asked for."""
    return f"{VENDOR_CLASS}={device_name(uuid, token)}"


def file_name(unit: str) -> str:
    """Name of a unit's file; the unit's name has run, job and token in it."""
    return f"{FILE_PREFIX}{unit}.json"


def unit_of_file(name: str) -> str | None:
    """The unit that a file of ours belongs to; `None` for somebody else's file."""
    if name.startswith(FILE_PREFIX) and name.endswith(".json"):
        return name.removeprefix(FILE_PREFIX).removesuffix(".json")
    return None


def specification(name: str, nodes: DeviceNodes, driver: DriverEdits, root: Path) -> dict[str, object]:
    """The whole specification.

    Args:
        name: of `device_name`.
        nodes: of the device.
        driver: edits for all containers.
        root: below which the nodes lie; in the container they lie below /.
    """
    edits: dict[str, object] = {
        "env": ["NVIDIA_VISIBLE_DEVICES=void"],  # as in the toolkit's own: its hook must not add what this already has
        "deviceNodes": [_node(path, root) for path in nodes.all],
    }
    if driver.mounts:
        edits["mounts"] = list(driver.mounts)
    if driver.hooks:
        edits["hooks"] = list(driver.hooks)
    content: dict[str, object] = {"kind": VENDOR_CLASS, "devices": [{"name": name, "containerEdits": edits}]}
    return {"cdiVersion": _version(edits), **content}


def text_of(spec: Mapping[str, object]) -> str:
    """The file's content."""
    return json.dumps(spec, indent=1) + "\n"


def toolkit_edits(spec: Mapping[str, object]) -> DriverEdits:
    """The edits for all devices of a specification that nvidia-ctk wrote, without what older readers do not know.

    Its device nodes are not taken: they are the kernel's to tell, and the toolkit leaves out those that do not exist yet
    (NVIDIA/k8s-dra-driver-gpu#787).
    """
    edits = spec.get("containerEdits")
    if not isinstance(edits, Mapping):
        return DriverEdits(source="nvidia-ctk")
    return DriverEdits(
        source="nvidia-ctk",
        mounts=tuple(_only(entry, _MOUNT_KEYS) for entry in _entries(edits, "mounts")),
        hooks=tuple(_only(entry, _HOOK_KEYS) for entry in _entries(edits, "hooks")),
    )


def mount_edit(mount: Mount) -> dict[str, object]:
    """The mount as a specification has it."""
    return {"hostPath": mount.host, "containerPath": mount.container, "options": list(mount.options)}


def _entries(edits: Mapping[str, object], key: str) -> Sequence[Mapping[str, object]]:
    found = edits.get(key)
    return [entry for entry in found if isinstance(entry, Mapping)] if isinstance(found, list) else []


def _only(entry: Mapping[str, object], keys: Sequence[str]) -> dict[str, object]:
    return {key: entry[key] for key in keys if entry.get(key)}


def _node(path: Path, root: Path) -> dict[str, object]:
    inside = f"/{path.relative_to(root)}"
    return {"path": inside} if inside == str(path) else {"path": inside, "hostPath": str(path)}


def _version(edits: Mapping[str, object]) -> str:
    """0.5.0 brought hostPath of nodes, 0.4.0 the type of mounts; 0.3.0 is the first that engines read."""
    if any("hostPath" in node for node in _entries(edits, "deviceNodes")):
        return "0.5.0"
    if any("type" in mount for mount in _entries(edits, "mounts")):
        return "0.4.0"
    return "0.3.0"
