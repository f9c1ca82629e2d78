"""Who sits where on the memory-slice axis of a GPU, for the layout picture."""

from __future__ import annotations

from dataclasses import dataclass

from migctl.core.gpu.mig import MigMode, Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Somebody on the memory-slice axis of a GPU."""

    placement: Placement
    profile: str
    compute_slices: int | None = None
    """`None`: the driver would not tell."""
    owner: str
    """`run/job`, `user/run`, or `not ours`."""
    job: str | None = None
    """The job of the plan or run that is shown; `None` for everybody else."""
    mates: tuple[str, ...] = ()
    """Further jobs of the plan or run that share the instance."""
    foreign: bool = False
    """Not made by migctl."""
    note: str = ""
    """What is special about it: `unusable (no compute instance)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPicture:
    """A GPU to be drawn: its grid and who lies where."""

    uuid: str
    index: int | None
    """`None` for a board that is only planned for."""
    name: str
    memory_slices: int
    """Width of the placement axis; 0 = no MIG, or not known."""
    compute_slices: int
    memory_mib: int
    mig: MigMode | None = None
    seats: tuple[Seat, ...] = ()
    whole: tuple[str, ...] = ()
    """Jobs that have the whole GPU, together or one after another."""
    reason: str = ""
    """Why its seats are not known: `does not answer`, `needs root`."""
