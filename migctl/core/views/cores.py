"""Every core with what it is to the jobs, for the picture of the cores."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from migctl.core.cpu.cpuset import CpuSet


class CoreMark(StrEnum):
    """What a core is to the plan that is shown."""

    JOB = "job"
    FREE = "free"
    RESERVED = "reserved"
    """Kept for the system."""
    REST = "rest"
    """Available, but beyond this plan's fair part."""
    CLAIMED = "claimed"
    """Held by another run."""
    CONTAINER = "container"
    """In the cpuset of a container that migctl did not start."""
    ISOLATED = "isolated"
    UNAVAILABLE = "unavailable"
    """Outside of what this process or the engine may use, or only a part of it is free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreCell:
    """One physical core to be drawn."""

    id: int
    cpus: CpuSet
    node: int | None = None
    l3: int = 0
    mark: CoreMark = CoreMark.FREE
    jobs: tuple[str, ...] = ()
    """One name; several where jobs have one hardware thread each, or share."""
    part: bool = False
    """Hardware threads of it are left that no job has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoresView:
    """All cores of the machine, ascending by id."""

    cells: tuple[CoreCell, ...]
    hidden: bool = False
    """The machine shows no topology: vCPUs are counted as cores."""
