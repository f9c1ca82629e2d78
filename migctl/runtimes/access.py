"""How a container gets its MIG device: chosen on purpose from what the engine says about itself, never left to luck."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, assert_never

EXPLICIT_HOOK_SINCE = 29
"""From this engine on a named driver wins (moby#50717); without a name CDI, with a possibly stale spec, is tried first (#50228)."""
HOOK_DRIVER = "nvidia.runtime-hook"
HOOK_PROGRAM = "nvidia-container-runtime-hook"


class Way(StrEnum):
    """The ways into a container."""

    RUNTIME = "runtime"
    """Runtime `nvidia` with NVIDIA_VISIBLE_DEVICES."""
    REQUEST = "request"
    """A device request to the engine's own hook driver."""
    CDI = "cdi"
    """A device request by CDI name: the engine can, migctl writes no spec file yet."""
    NONE = "none"


@dataclass(frozen=True, slots=True)
class GpuAccess:
    """The way, and why it is this one."""

    way: Way
    reason: str = ""
    driver: str = ""
    """Driver named in a device request; empty = the engine chooses by capability."""
    certain: bool = True
    """Whether the engine is known to be able to, or only the start will tell."""

    @property
    def usable(self) -> bool:
        """A container can be given a device."""
        return self.way in (Way.RUNTIME, Way.REQUEST)

    def __str__(self) -> str:
        match self.way:
            case Way.RUNTIME:
                return "runtime nvidia with NVIDIA_VISIBLE_DEVICES"
            case Way.REQUEST:
                text = f"device request to driver {self.driver}" if self.driver else "device request (--gpus)"
                return text if self.certain else f"{text}, {self.reason}"
            case Way.CDI | Way.NONE:
                return f"none: {self.reason}"
            case _:
                assert_never(self.way)

    def settings(self, device: str | None) -> tuple[dict[str, Any], tuple[str, ...]]:
        """What goes into HostConfig and into the environment for this device.

        Without a way, or without a device, NVIDIA_VISIBLE_DEVICES is `void`: images set it to `all` themselves, and an engine whose
        default runtime is nvidia would show every GPU.
        """
        if device is None or not self.usable:
            return {}, ("NVIDIA_VISIBLE_DEVICES=void",)
        if self.way is Way.RUNTIME:
            return {"Runtime": "nvidia"}, (f"NVIDIA_VISIBLE_DEVICES={device}",)
        request = {"Driver": self.driver, "Count": 0, "DeviceIDs": [device], "Capabilities": [["gpu"]], "Options": {}}
        return {"DeviceRequests": [request]}, ()


def is_podman(version: Mapping[str, Any]) -> bool:
    """Podman answers on Docker's API and names itself in the components."""
    return any(str(c.get("Name", "")).startswith("Podman") for c in version.get("Components") or ())


def major_version(version: Mapping[str, Any]) -> int:
    """First number of the engine's version, 0 when it does not say."""
    first = str(version.get("Version", "")).partition(".")[0]
    return int(first) if first.isdigit() else 0


def choose_access(
    info: Mapping[str, Any],
    version: Mapping[str, Any],
    simulated: bool,
    *,
    hook: bool | None = None,
    variable_allowed: bool = True,
) -> GpuAccess:
    """The way for this engine.

    Args:
        info: answer of `GET /info`.
        version: answer of `GET /version`.
        simulated: the GPU is a simulated one: only a way that certainly exists is taken.
        hook: whether the engine found `nvidia-container-runtime-hook` on its PATH when it started, `None` = not known. Engines do
            not tell; those without it answer "could not select device driver" when a container starts.
        variable_allowed: whether the toolkit accepts NVIDIA_VISIBLE_DEVICES from unprivileged containers.
    """
    podman = is_podman(version)
    refused = ""
    if "nvidia" in (info.get("Runtimes") or {}):
        if variable_allowed:
            return GpuAccess(Way.RUNTIME)
        refused = "the toolkit refuses NVIDIA_VISIBLE_DEVICES (accept-nvidia-visible-devices-envvar-when-unprivileged = false)"
    if not podman and (hook or (hook is None and not simulated)):
        driver = HOOK_DRIVER if major_version(version) >= EXPLICIT_HOOK_SINCE else ""
        why = "" if hook else "which only a start can prove"
        return GpuAccess(Way.REQUEST, reason=why, driver=driver, certain=bool(hook))
    missing = (
        refused
        or f"no runtime nvidia is registered, and {'podman has' if podman else 'the engine found'} no {HOOK_PROGRAM}"
    )
    if podman or info.get("CDISpecDirs"):
        if simulated:
            return GpuAccess(Way.NONE, reason=f"{missing}; the simulated GPU has no device anyway")
        return GpuAccess(Way.CDI, reason=f"{missing}; CDI alone is left, for which this version writes no spec")
    return GpuAccess(Way.NONE, reason=missing)
