"""The device nodes (made with mknod) and capability files of MIG devices as a driver would have them, below a folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from migctl.runtimes.gpu_device import GpuDevice
from tests.support.engines import missing

NUMBERS = {
    "nvidiactl": (1, 3),
    "nvidia-uvm": (1, 5),
    "nvidia-uvm-tools": (1, 7),
    "nvidia0": (1, 8),
    "nvidia1": (1, 9),
    "nvidia-caps/nvidia-cap12": (5, 0),
    "nvidia-caps/nvidia-cap13": (5, 2),
    "nvidia-caps/nvidia-cap21": (10, 229),
    "nvidia-caps/nvidia-cap22": (10, 200),
}
"""Numbers of other drivers, which a container without that driver may have all the same: what counts here is which is which."""
FIRST = GpuDevice(uuid="MIG-11111111-2222-3333-4444-555555555555", minor=0, gi_id=1, ci_id=0)
SECOND = GpuDevice(uuid="MIG-66666666-7777-8888-9999-aaaaaaaaaaaa", minor=0, gi_id=2, ci_id=0)
CAPABILITIES: Mapping[str, int] = {"gi1/access": 12, "gi1/ci0/access": 13, "gi2/access": 21, "gi2/ci0/access": 22}


def capability_tree(root: Path, capabilities: Mapping[str, int] = CAPABILITIES) -> Path:
    """/proc of a driver with these instances on GPU 0; the text is that of the MIG User Guide."""
    for name, minor in capabilities.items():
        file = root / "proc/driver/nvidia/capabilities/gpu0/mig" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    minors = root / "proc/driver/nvidia-caps/mig-minors"
    minors.parent.mkdir(parents=True, exist_ok=True)
    minors.write_text("config 1\nmonitor 2\n" + "".join(f"gpu0/{name} {m}\n" for name, m in capabilities.items()))
    return root


def make_node(root: Path, name: str) -> Path:
    """The node below dev/."""
    path = root / "dev" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        os.mknod(path, 0o20666, os.makedev(*NUMBERS[name]))
    return path


def device_tree(root: Path) -> Path:
    """A driver's whole tree, nodes included."""
    if os.geteuid() != 0:
        missing("device nodes are made by root only")
    for name in NUMBERS:
        make_node(root, name)
    return capability_tree(root)
