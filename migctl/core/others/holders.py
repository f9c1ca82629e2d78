"""Who keeps a GPU or one of its instances open, said in words, and what can be done about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from migctl.core.others.cgroups import Container
from migctl.core.others.services import Role, Service, known_service

_MOST_NAMED = 4
"""More than so many holders are counted, not named."""
_COMMAND_WIDTH = 60
STOP_SERVICES = "add --stop-services"
"""Advice for a command that has that option."""


class Purpose(StrEnum):
    """What was refused because somebody holds the GPU."""

    CREATE = "create"
    DESTROY = "destroy"
    MODE = "mode"
    RESET = "reset"


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device file: of a whole GPU, of a GPU instance, or of a compute instance."""

    path: str
    gpu_uuid: str
    gi_id: int | None = None
    ci_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that has a device file open or mapped, or that NVML names."""

    pid: int
    started: int | None = None
    """Start time in clock ticks since boot: a pid alone is reused."""
    uid: int | None = None
    user: str = "?"
    program: str = ""
    """Name of its executable, without the folder."""
    command: str = ""
    container: Container | None = None
    unit: str | None = None
    """Its systemd service."""
    slurm_job: int | None = None
    job: str | None = None
    """`RUN/JOB`, where it is one of the caller's own."""
    nodes: tuple[DeviceNode, ...] = ()
    """What of the GPU it has open; empty where only NVML names it."""
    gi_id: int | None = None
    """The GPU instance that NVML says it runs on."""

    @property
    def service(self) -> Service | None:
        """The known service it is part of."""
        return known_service(self.unit, self.program)

    @property
    def instances(self) -> frozenset[int]:
        """Ids of the GPU instances it is known to use."""
        found = {node.gi_id for node in self.nodes if node.gi_id is not None}
        return frozenset(found if self.gi_id is None else found | {self.gi_id})

    @property
    def stoppable(self) -> bool:
        """Whether `--stop-services` can make it let go: a monitoring service of this host, not one in a container."""
        return self.container is None and self.service is not None and self.service.role is Role.MONITORING


@dataclass(frozen=True, slots=True)
class KernelModule:
    """A loaded kernel module that can hold GPUs without any process (NVIDIA/mig-parted#181)."""

    name: str
    references: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One look for holders."""

    holders: tuple[Holder, ...] = ()
    modules: tuple[KernelModule, ...] = ()
    unseen: int = 0
    """Processes whose open files this user may not see."""
    hidden: bool = False
    """The kernel hides other users' processes altogether (hidepid, proc(5))."""

    @property
    def complete(self) -> bool:
        """Whether nobody can have been overlooked."""
        return not self.unseen and not self.hidden

    def of_gpu(self, uuid: str, named: Mapping[int, int | None]) -> Sighting:
        """Those of one GPU.

        Args:
            named: pid → GI id of the processes that NVML names there.
        """
        holders = tuple(
            replace(h, nodes=tuple(n for n in h.nodes if n.gpu_uuid == uuid), gi_id=named.get(h.pid))
            for h in self.holders
            if h.pid in named or any(node.gpu_uuid == uuid for node in h.nodes)
        )
        return replace(self, holders=holders)

    def on(self, gi_id: int) -> Sighting:
        """Those that can keep this GPU instance from being removed.

        Known users of it first; where there are none, those that hold the GPU and no other instance: a monitoring service opens
        the GPU as a whole, and so does a process whose instance is not known.
        """
        users = tuple(h for h in self.holders if gi_id in h.instances)
        others = tuple(h for h in self.holders if not h.instances)
        return replace(self, holders=users or others, modules=())


def holder_name(holder: Holder) -> str:
    """One holder in words: `pid 812 of root (service nvidia-persistenced.service)`."""
    who = f"pid {holder.pid} of {holder.user}"
    if holder.job is not None:
        return f"job {holder.job} ({who})"
    parts = []
    if holder.container is not None:
        pod = f" of pod {holder.container.pod}" if holder.container.pod else ""
        parts.append(f"in {holder.container.engine} container {holder.container.short_id}{pod}")
    elif holder.unit is not None:
        parts.append(f"service {holder.unit}")
    if holder.slurm_job is not None:
        parts.append(f"Slurm job {holder.slurm_job}")
    if holder.command and holder.unit is None:
        parts.insert(0, _short(holder.command))
    return f"{who} ({', '.join(parts)})" if parts else who


def holder_names(holders: Sequence[Holder]) -> str:
    """Several of them; the rest is counted."""
    named = [holder_name(holder) for holder in holders[:_MOST_NAMED]]
    if len(holders) > _MOST_NAMED:
        named.append(f"{len(holders) - _MOST_NAMED} more")
    return ", ".join(named)


def held_by(sighting: Sighting, purpose: Purpose) -> str:
    """The end of a sentence: who holds it, or what could not be seen."""
    if sighting.holders:
        text = f"it is held by {holder_names(sighting.holders)}"
    elif modules := _blocking(sighting, purpose):
        text = f"no process holds it, but the kernel module {modules} is loaded"
    elif sighting.complete:
        text = "no process that holds it was found"
    else:
        return f"who holds it cannot be seen: {unseen(sighting)}"
    return text if sighting.complete else f"{text}; {unseen(sighting)}"


def unseen(sighting: Sighting) -> str:
    """What was not looked at, for a user who is not root; nothing where all was seen."""
    if sighting.hidden:
        return "other users' processes are hidden from this user (needs root)"
    if not sighting.unseen:
        return ""
    plural = "" if sighting.unseen == 1 else "es"
    return f"{sighting.unseen} process{plural} of other users could not be looked into (needs root)"


def advice(sighting: Sighting, purpose: Purpose, uid: int, *, stopping: str | None = STOP_SERVICES) -> str:
    """The next step.

    Args:
        uid: of the user who is advised: nobody is told to end somebody else's work.
        stopping: how migctl itself stops services for a change of the whole GPU; `None`: it was told to already.
    """
    if not sighting.holders:
        return _nobody(sighting, purpose)
    services = [h for h in sighting.holders if h.stoppable]
    steps = [_step(holder, uid) for holder in sighting.holders if not holder.stoppable]
    if services:
        steps.append(_stop_services(services, purpose, stopping))
    return "; ".join(list(dict.fromkeys(steps))[: _MOST_NAMED + 1])


def service_commands(units: Sequence[str]) -> str:
    """How to stop services by hand, and to start them again."""
    words = " ".join(unit.removesuffix(".service") for unit in units)
    back = " ".join(unit.removesuffix(".service") for unit in reversed(units))
    return f"sudo systemctl stop {words}   and afterwards   sudo systemctl start {back}"


def _stop_services(services: Sequence[Holder], purpose: Purpose, stopping: str | None) -> str:
    units = list(dict.fromkeys(s.service.unit if s.unit is None and s.service else str(s.unit) for s in services))
    if stopping is not None and purpose in (Purpose.MODE, Purpose.RESET):
        return f"{stopping}, or: {service_commands(units)}"
    return service_commands(units)


def _step(holder: Holder, uid: int) -> str:
    if holder.job is not None:
        return f"migctl stop {holder.job}"
    if holder.slurm_job is not None:
        return f"scancel {holder.slurm_job}" if holder.uid == uid else f"wait for Slurm job {holder.slurm_job}"
    if holder.container is not None:
        step = _container_step(holder.container)
        return step if holder.uid == uid and uid != 0 else f"{step}   once its owner agrees"
    service = holder.service
    match service.role if service is not None else None:
        case Role.DISPLAY:
            return "log out of the desktop on this GPU: sudo systemctl isolate multi-user.target"
        case Role.CLUSTER | Role.CONTROLLER:
            unit = holder.unit or (service.unit if service is not None else "")
            return f"it serves others: drain this machine, then sudo systemctl stop {unit.removesuffix('.service')}"
        case Role.FABRIC:
            return "leave it running: every GPU of the machine needs it; reboot the machine instead"
        case _ if holder.unit is not None:
            return f"sudo systemctl stop {holder.unit.removesuffix('.service')}"
        case _:
            return f"kill {holder.pid}" if holder.uid == uid else f"ask {holder.user} to end pid {holder.pid}"


def _container_step(container: Container) -> str:
    if container.pod is not None:
        return f"end pod {container.pod} (kubectl drain of this node)"
    match container.engine:
        case "docker" | "podman":
            return f"{container.engine} stop {container.short_id}"
        case "containerd":
            return f"nerdctl stop {container.short_id}"
        case "lxc":
            return f"stop the LXC container {container.id}"
        case _:
            return f"stop container {container.short_id}"


def _nobody(sighting: Sighting, purpose: Purpose) -> str:
    if not sighting.complete:
        return "the same command with sudo names who holds it"
    if _blocking(sighting, purpose):
        return "where no screen hangs on this GPU: sudo modprobe -r nvidia_drm nvidia_modeset   then repeat the command"
    return "repeat the command in a moment; where it stays, restarting nvidia-dcgm is known to help (NVIDIA/DCGM#276)"


def _blocking(sighting: Sighting, purpose: Purpose) -> str:
    """Modules matter to changes of the whole GPU only."""
    if purpose not in (Purpose.MODE, Purpose.RESET) or not sighting.modules:
        return ""
    return " and ".join(f"{module.name} ({module.references} in use)" for module in sighting.modules)


def _short(command: str) -> str:
    return command if len(command) <= _COMMAND_WIDTH else f"{command[: _COMMAND_WIDTH - 1]}…"
