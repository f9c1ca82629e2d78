"""Services known to keep GPUs open, and which of them may be stopped for a moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """What a service is there for; decides what can be advised."""

    MONITORING = "monitoring"
    """It only looks, or keeps the driver loaded: no work is lost while it is stopped."""
    CLUSTER = "cluster"
    """It hands the GPU to others' jobs."""
    CONTROLLER = "controller"
    """It changes MIG mode and instances itself."""
    DISPLAY = "display"
    """Somebody's screen."""
    FABRIC = "fabric"
    """The NVLink switches: all GPUs of the machine need it."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service and what identifies it."""

    unit: str
    """Name of its systemd unit."""
    program: str
    """Name of its executable: all there is in a container, or without systemd."""
    role: Role


SERVICES: Final = (
    # In the order in which they are stopped: who asks a service is stopped before it. NVIDIA MIG User Guide, "Driver Clients"
    # (nvsm, dcgm); gpu-operator#118 (nvidia-persistenced); DCGM's packages call the unit nvidia-dcgm, older ones dcgm.
    Service("nvidia-dcgm-exporter.service", "dcgm-exporter", Role.MONITORING),
    Service("dcgm-exporter.service", "dcgm-exporter", Role.MONITORING),
    Service("nvsm.service", "nvsm_core", Role.MONITORING),
    Service("nvidia-dcgm.service", "nv-hostengine", Role.MONITORING),
    Service("dcgm.service", "nv-hostengine", Role.MONITORING),
    Service("nvidia-persistenced.service", "nvidia-persistenced", Role.MONITORING),
    Service("kubelet.service", "kubelet", Role.CLUSTER),
    Service("k3s.service", "k3s", Role.CLUSTER),
    Service("slurmd.service", "slurmd", Role.CLUSTER),
    Service("nvidia-device-plugin.service", "nvidia-device-plugin", Role.CLUSTER),
    Service("nvidia-mig-manager.service", "nvidia-mig-manager", Role.CONTROLLER),
    Service("display-manager.service", "Xorg", Role.DISPLAY),
    Service("gdm.service", "gdm", Role.DISPLAY),
    Service("gdm3.service", "gdm3", Role.DISPLAY),
    Service("lightdm.service", "lightdm", Role.DISPLAY),
    Service("sddm.service", "sddm", Role.DISPLAY),
    Service("gdm.service", "gnome-shell", Role.DISPLAY),
    Service("display-manager.service", "Xwayland", Role.DISPLAY),
    Service("nvidia-fabricmanager.service", "nv-fabricmanager", Role.FABRIC),
)


def known_service(unit: str | None, program: str) -> Service | None:
    """The service a process belongs to, by its unit, else by its program."""
    by_unit = next((service for service in SERVICES if service.unit == unit), None)
    return by_unit or next((service for service in SERVICES if service.program == program), None)


def monitoring_units() -> tuple[str, ...]:
    """What `--stop-services` may stop, in the order of stopping; started again in the opposite order."""
    return tuple(service.unit for service in SERVICES if service.role is Role.MONITORING)


def start_order(units: Iterable[str]) -> tuple[str, ...]:
    """The order in which stopped services are started again; unknown names are left out."""
    wanted = set(units)
    return tuple(unit for unit in reversed(monitoring_units()) if unit in wanted)
