"""Whether this process may make GPU instances and change MIG modes; asked of the kernel, nothing is tried out."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

_CAP_SYS_ADMIN = 21
"""linux/capability.h; what the NVIDIA kernel module takes for an administrator."""
_CONFIG = "proc/driver/nvidia/capabilities/mig/config"
_MINORS = "proc/driver/nvidia-caps/mig-minors"


@dataclass(frozen=True, slots=True)
class Rights:
    """What the driver will let this process do, by NVIDIA's MIG User Guide, "Device Nodes and Capabilities"."""

    administrator: bool
    """CAP_SYS_ADMIN: everything, the MIG mode included."""
    delegated: bool
    """Read access to the mig/config capability: instances, but not the mode."""
    capability: Path
    """The file whose reader may make instances: the device node, or (drivers that make none) the file in /proc."""

    @property
    def instances(self) -> bool:
        """Whether instances may be made and destroyed."""
        return self.administrator or self.delegated


def rights(root: Path = Path("/")) -> Rights:
    """Those of this process.

    Args:
        root: where /proc and /dev are.
    """
    capability = _capability(root)
    return Rights(
        administrator=_effective(root) >> _CAP_SYS_ADMIN & 1 == 1,
        delegated=os.access(capability, os.R_OK, effective_ids=True),
        capability=capability,
    )


def _capability(root: Path) -> Path:
    """With device nodes their permissions count, and the file in /proc only tells their number."""
    minor = "1"
    try:
        for line in (root / _MINORS).read_text("utf-8", "replace").splitlines():
            name, _, number = line.partition(" ")
            if name == "config" and number.strip().isdigit():
                minor = number.strip()
    except OSError:
        pass
    node = root / "dev/nvidia-caps" / f"nvidia-cap{minor}"
    try:
        there = stat.S_ISCHR(node.stat().st_mode)
    except OSError:
        there = False
    return node if there else root / _CONFIG


def _effective(root: Path) -> int:
    try:
        for line in (root / "proc/self/status").read_text("utf-8", "replace").splitlines():
            if line.startswith("CapEff:"):
                return int(line.partition(":")[2].strip(), 16)
    except (OSError, ValueError):
        pass
    return -1 if os.geteuid() == 0 else 0
