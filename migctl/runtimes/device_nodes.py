"""The device nodes of a MIG device on this machine: which they are by the kernel's own word, and how they come to exist.

A MIG device is opened through three kinds of node (NVIDIA MIG User Guide, "Device Nodes and Capabilities"): the GPU's, the driver's
common ones, and one capability node each for the GPU instance and the compute instance. The capability nodes are made by
nvidia-modprobe or by any call of nvidia-smi, not by the driver, so a new instance may lack them.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from migctl.errors import HostError
from migctl.programs import ask, with_system_path
from migctl.runtimes.gpu_device import GpuDevice

CAPABILITIES = "proc/driver/nvidia/capabilities"
CAPABILITY_DRIVER = "proc/driver/nvidia-caps"
CONTROL = ("nvidiactl", "nvidia-uvm")
OPTIONAL_CONTROL = ("nvidia-uvm-tools",)
MAKE_DEADLINE_S = 5.0
"""How long a node may take to appear after its maker has ended (udev may still be at work)."""
_PROGRAM_TIMEOUT_S = 60.0
_POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNodes:
    """Paths on this machine."""

    gpu: Path
    control: tuple[Path, ...]
    capabilities: tuple[Path, ...]
    """Of the GPU instance and the compute instance; empty for a whole GPU."""

    @property
    def all(self) -> tuple[Path, ...]:
        """In the order in which a specification lists them."""
        return (*self.control, self.gpu, *self.capabilities)


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nothing can be said about the nodes, and why."""

    reason: str


def capability_files(device: GpuDevice, root: Path) -> tuple[Path, ...]:
    """The kernel's files of the instance's two capabilities; none for a whole GPU."""
    if not device.is_mig or device.minor is None:
        return ()
    instance = root / CAPABILITIES / f"gpu{device.minor}/mig/gi{device.gi_id}"
    return instance / "access", instance / f"ci{device.ci_id}/access"


def find_nodes(device: GpuDevice, root: Path) -> DeviceNodes | Unknown:
    """Where the device's nodes are, or would be.

    Raises:
        HostError: no-capability: the kernel has capabilities, but none for this instance.
    """
    if device.minor is None:
        return Unknown("the driver does not tell the GPU's minor number")
    dev = root / "dev"
    if device.is_mig and not (root / CAPABILITY_DRIVER).exists():
        return Unknown("this kernel has no /proc/driver/nvidia-caps")
    minors = [_capability_minor(file, root, device) for file in capability_files(device, root)]
    optional = (dev / name for name in OPTIONAL_CONTROL)
    return DeviceNodes(
        gpu=dev / f"nvidia{device.minor}",
        control=(*(dev / name for name in CONTROL), *(node for node in optional if is_node(node))),
        capabilities=tuple(dev / f"nvidia-caps/nvidia-cap{minor}" for minor in minors),
    )


def make_nodes(device: GpuDevice, root: Path, environ: Mapping[str, str]) -> DeviceNodes | Unknown:
    """Find the nodes and have NVIDIA's own programs make those that are missing; looked for again afterwards.

    Args:
        device: whose nodes.
        root: below which /dev and /proc lie.
        environ: the caller's environment; nvidia-modprobe and nvidia-smi are on its PATH or among the system's programs.

    Raises:
        HostError: no-device-node: one is still missing, so a container would start without its GPU.
    """
    system = with_system_path(environ)
    nodes = find_nodes(device, root)
    if isinstance(nodes, Unknown) or not missing_nodes(nodes):
        return nodes
    lacking = set(missing_nodes(nodes))
    for node, file in zip(nodes.capabilities, capability_files(device, root), strict=True):
        if node in lacking:
            ask(("nvidia-modprobe", "-f", str(file)), system, _PROGRAM_TIMEOUT_S)
    if nodes.gpu in lacking:
        ask(("nvidia-modprobe", "-c", str(device.minor)), system, _PROGRAM_TIMEOUT_S)
    if lacking & set(nodes.control):
        ask(("nvidia-modprobe", "-u", "-c", str(device.minor)), system, _PROGRAM_TIMEOUT_S)
    if missing_nodes(nodes):
        ask(("nvidia-smi", "-L"), system, _PROGRAM_TIMEOUT_S)
    deadline = time.monotonic() + MAKE_DEADLINE_S
    while (left := missing_nodes(nodes)) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    if left:
        raise HostError(
            "no-device-node",
            f"{', '.join(map(str, left))} of {device.uuid} does not exist, and neither nvidia-modprobe nor nvidia-smi made it",
            hint="sudo nvidia-smi -L, and look again; the package of the driver has nvidia-modprobe",
        )
    return nodes


def missing_nodes(nodes: DeviceNodes) -> tuple[Path, ...]:
    """Those that do not exist as device nodes."""
    return tuple(node for node in nodes.all if not is_node(node))


def is_node(path: Path) -> bool:
    """A character device is there."""
    return number_of(path) is not None


def number_of(path: Path) -> int | None:
    """The kernel's number of a character device (st_rdev), which its copies share; `None` where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_rdev if stat.S_ISCHR(found.st_mode) else None


def _capability_minor(file: Path, root: Path, device: GpuDevice) -> int:
    """`DeviceFileMinor: 12` in the capability's file, or its line in nvidia-caps/mig-minors, which anybody may read."""
    try:
        found = re.search(r"^DeviceFileMinor:\s*(\d+)", file.read_text(), re.MULTILINE)
    except OSError:
        found = None
    if found is None:
        name = f"gpu{device.minor}/" + str(file.relative_to(root / CAPABILITIES / f"gpu{device.minor}/mig"))
        try:
            lines = (root / CAPABILITY_DRIVER / "mig-minors").read_text()
        except OSError:
            lines = ""
        found = re.search(rf"^{re.escape(name)}\s+(\d+)$", lines, re.MULTILINE)
    # mig-minors lists every instance that could be; only a capability's own file proves that it exists.
    if found is None or (not file.exists() and file.parent.parent.exists() and os.access(file.parent.parent, os.X_OK)):
        raise HostError(
            "no-capability",
            f"the kernel has no capability {file} for {device.uuid}",
            hint="migctl check",
        )
    return int(found[1])
