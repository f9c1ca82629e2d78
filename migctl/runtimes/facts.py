"""What a runtime's host is and can do."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.others.idmap import IdMap
from migctl.errors import Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeFacts:
    """What the runtime's host can do."""

    name: str
    """`docker 20.10.24`, `podman 4.3.1`, `process`."""
    endpoint: str
    """The socket or address it talks to, empty for processes."""
    cpus: CpuSet | None
    """CPUs that the engine's cgroup allows; `None` = no limit known."""
    cpu_quota: Fraction | None = None
    """CPUs' worth of time that the engine's cgroup allows; `None` = no limit known."""
    gpu_access: str
    """The way a container gets its MIG device, in words; `none: <reason>` where there is none."""
    local: bool = True
    source: str = ""
    """Who named the endpoint: `DOCKER_HOST`, `docker context lab`, `rootless socket`."""
    rootless: bool = False
    ids: IdMap | None = IdMap()
    """Which users of this machine those in containers are; `None` = others, and not known which."""
    gpu_hint: str = ""
    """What to do where `gpu_access` is none."""
    notes: tuple[Notice, ...] = ()
    """What about this engine deserves a warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CdiEntry:
    """A device in a CDI specification that the engine reads, or (with `error`) a file that cannot be read."""

    file: str
    name: str = ""
    """Qualified: `nvidia.com/gpu=MIG-…`."""
    missing: tuple[str, ...] = ()
    """Device nodes it names that do not exist."""
    ours: bool = False
    orphan: bool = False
    """Ours, and this engine has no container that it was written for."""
    error: str = ""
