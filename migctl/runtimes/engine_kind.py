"""Which engine answers and where it runs, told from its own words about itself."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

_NUMBERS = re.compile(r"([0-9]{0,6})(?:\.([0-9]{1,6}))?(?![0-9])")
USE_LOCAL_ENGINE = (
    "use the engine of this machine: DOCKER_HOST=unix:///var/run/docker.sock, or docker context use default"
)
"""The way out where it runs elsewhere."""


def is_podman(version: Mapping[str, Any]) -> bool:
    """Podman answers on Docker's API and names itself in the components."""
    return any(str(c.get("Name", "")).startswith("Podman") for c in version.get("Components") or ())


def is_desktop(version: Mapping[str, Any]) -> bool:
    """Docker Desktop runs its engine in a virtual machine of its own, also where that shares the kernel's name (WSL 2)."""
    return str((version.get("Platform") or {}).get("Name", "")).startswith("Docker Desktop")


def version_of(version: Mapping[str, Any]) -> tuple[int, int]:
    """First two numbers of the engine's version, 0 where it does not say."""
    found = _NUMBERS.match(str(version.get("Version", "")))
    return (int(found[1] or 0), int(found[2] or 0)) if found is not None else (0, 0)


def where_else(url: str, version: Mapping[str, Any]) -> str:
    """Where the engine runs if not on this machine, as the end of a sentence; nothing for one that shares this kernel.

    One in a virtual machine (Docker Desktop) also has a socket here, but another kernel. Whether an address of the network leads
    back to this machine cannot be proven.
    """
    if is_desktop(version):
        return "is Docker Desktop's and runs in a virtual machine"
    if not url.startswith("unix://"):
        return f"is reached over the network ({url})"
    if version.get("KernelVersion", "") not in ("", os.uname().release):
        return f"runs on another kernel ({version['KernelVersion']}), in a virtual machine or behind a forwarded socket"
    return ""
