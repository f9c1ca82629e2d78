"""How a container gets its MIG device: chosen on purpose from what the engine says about itself, never left to luck."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, assert_never

from migctl.runtimes.cdi_spec import qualified_name
from migctl.runtimes.engine_kind import USE_LOCAL_ENGINE, is_podman, version_of

EXPLICIT_HOOK_SINCE = 29
"""From this engine on a named driver wins (moby#50717); without a name CDI, with a possibly stale spec, is tried first (#50228)."""
PODMAN_CDI_SINCE = (4, 1)
"""Release notes of podman 4.1.0."""
HOOK_DRIVER = "nvidia.runtime-hook"
HOOK_PROGRAM = "nvidia-container-runtime-hook"
INSTALL_TOOLKIT = (
    "install nvidia-container-toolkit, run nvidia-ctk runtime configure --runtime=docker, restart the engine;"
    " or --runtime process"
)


class Way(StrEnum):
    """The ways into a container."""

    RUNTIME = "runtime"
    """Runtime `nvidia` with NVIDIA_VISIBLE_DEVICES."""
    REQUEST = "request"
    """A device request to the engine's own hook driver."""
    CDI = "cdi"
    """By the name of a device in a CDI specification of migctl's own."""
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
    folder: str = ""
    """Where the specification is written."""
    hint: str = ""
    """What to do where there is no way."""

    @property
    def usable(self) -> bool:
        """A container can be given a device."""
        return self.way is not Way.NONE

    def __str__(self) -> str:
        match self.way:
            case Way.RUNTIME:
                return "runtime nvidia with NVIDIA_VISIBLE_DEVICES"
            case Way.REQUEST:
                text = f"device request to driver {self.driver}" if self.driver else "device request (--gpus)"
                return text if self.certain else f"{text}, {self.reason}"
            case Way.CDI:
                return f"CDI, with migctl's own specification in {self.folder}"
            case Way.NONE:
                return f"none: {self.reason}"
            case _:
                assert_never(self.way)

    def settings(self, device: str | None, token: str) -> tuple[dict[str, Any], tuple[str, ...]]:
        """What goes into HostConfig and into the environment for this device of this attempt.

        Without a way, without a device, and beside CDI, NVIDIA_VISIBLE_DEVICES is `void`: images set it to `all` themselves, and an
        engine whose default runtime is nvidia would show every GPU.
        """
        void = ("NVIDIA_VISIBLE_DEVICES=void",)
        if device is None:
            return {}, void
        match self.way:
            case Way.RUNTIME:
                return {"Runtime": "nvidia"}, (f"NVIDIA_VISIBLE_DEVICES={device}",)
            case Way.REQUEST:
                request = {"Driver": self.driver, "Count": 0, "DeviceIDs": [device], "Capabilities": [["gpu"]]}
                return {"DeviceRequests": [request | {"Options": {}}]}, ()
            case Way.CDI:
                # No capabilities: the engine's CDI driver has none to match (moby, daemon/devices.go).
                request = {"Driver": "cdi", "Count": 0, "DeviceIDs": [qualified_name(device, token)]}
                return {"DeviceRequests": [request | {"Capabilities": [], "Options": {}}]}, void
            case Way.NONE:
                return {}, void
            case _:
                assert_never(self.way)


def choose_access(
    info: Mapping[str, Any],
    version: Mapping[str, Any],
    simulated: bool,
    *,
    hook: bool | None = None,
    variable_allowed: bool = True,
    elsewhere: str = "",
    folders: Sequence[str] = (),
    folder: str | None = None,
) -> GpuAccess:
    """The way for this engine. In this table the first row that holds counts.

    | the engine | way |
    |---|---|
    | is not on this machine (a real GPU) | none: its containers cannot reach an instance made here |
    | is podman 4.1 or later | CDI: its Docker API ignores runtimes and device requests alike |
    | has a runtime nvidia, and the toolkit accepts the variable | that runtime |
    | found NVIDIA's hook when it started | device request; by the driver's name from engine 29 on |
    | reads CDI specifications | CDI |
    | does not show whether it found the hook | device request, which only a start can prove |
    | anything else | none |

    With a simulated GPU neither CDI (there is no node to name) nor a guess is taken.

    Args:
        info: answer of `GET /info`.
        version: answer of `GET /version`.
        simulated: the GPU is a simulated one: only a way that certainly exists is taken.
        hook: whether the engine found `nvidia-container-runtime-hook` on its PATH when it started, `None` = not known. Engines do
            not tell; those without it answer "could not select device driver" when a container starts.
        variable_allowed: whether the toolkit accepts NVIDIA_VISIBLE_DEVICES from unprivileged containers.
        elsewhere: where the engine runs, if not on this machine.
        folders: where it reads CDI specifications, nothing where it reads none.
        folder: that of them which can be written.
    """
    if elsewhere and not simulated:
        return GpuAccess(
            Way.NONE,
            reason=f"the engine {elsewhere}, so its containers cannot get a GPU instance of this machine",
            hint=USE_LOCAL_ENGINE,
        )
    if is_podman(version):
        return _podman(version, simulated, folders, folder)
    refused = ""
    if "nvidia" in (info.get("Runtimes") or {}):
        if variable_allowed:
            return GpuAccess(Way.RUNTIME)
        refused = "the toolkit refuses NVIDIA_VISIBLE_DEVICES (accept-nvidia-visible-devices-envvar-when-unprivileged = false)"
    driver = HOOK_DRIVER if version_of(version)[0] >= EXPLICIT_HOOK_SINCE else ""
    if hook:
        return GpuAccess(Way.REQUEST, driver=driver)
    missing = refused or f"no runtime nvidia is registered, and the engine found no {HOOK_PROGRAM}"
    if simulated:
        return GpuAccess(Way.NONE, reason=f"{missing}; the simulated GPU has no device anyway", hint=INSTALL_TOOLKIT)
    if folders:
        return _cdi(folders, folder)
    if hook is None:
        return GpuAccess(Way.REQUEST, reason="which only a start can prove", driver=driver, certain=False)
    return GpuAccess(Way.NONE, reason=f"{missing}; nor does it read CDI specifications", hint=INSTALL_TOOLKIT)


def _podman(version: Mapping[str, Any], simulated: bool, folders: Sequence[str], folder: str | None) -> GpuAccess:
    if simulated:
        return GpuAccess(Way.NONE, reason="podman takes CDI only, and the simulated GPU has no device anyway")
    if version_of(version) < PODMAN_CDI_SINCE:
        return GpuAccess(
            Way.NONE,
            reason=f"podman {version.get('Version', 'of an unknown version')} has no CDI",
            hint="podman 4.1 or later has it; or --runtime process",
        )
    return _cdi(folders, folder)


def _cdi(folders: Sequence[str], folder: str | None) -> GpuAccess:
    if folder is not None:
        return GpuAccess(Way.CDI, folder=folder)
    return GpuAccess(
        Way.NONE,
        reason=f"CDI is the engine's only way, and none of its folders ({', '.join(folders)}) can be written",
        hint="run it with sudo: whoever writes there can run programs as the engine's user",
    )
