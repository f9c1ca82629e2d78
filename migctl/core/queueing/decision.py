"""What the queue decided: the jobs that start now, what has to be done for each, and why the others wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from migctl.core.gpu.mig import Placement, Profile
from migctl.core.queueing.turn import Reason, Spare


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One job that starts now, and what has to be done for it, in this order: destroy, cut (unless it takes over), start."""

    job: str
    gpu_uuid: str
    profile: Profile | None
    """`None`: the GPU without instances, or an administrator's instance."""
    placement: Placement | None
    memory_mib: int
    """GPU memory that it may use."""
    cores: int
    """Cores (hardware threads where the run shares those) that it gets; 0 with `cpuset` or `oversubscribe`."""
    takes_over: Spare | None = None
    """The ended job's instance that it gets as it is; nothing is cut."""
    destroys: tuple[Spare, ...] = ()
    """Instances of ended jobs that are in the way; as `takes_over`, of starts on one instance the same, of others never."""
    instance_uuid: str | None = None
    """MIG UUID of the administrator's instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Room that is kept free for a job."""

    job: str
    gpu_uuid: str
    placement: Placement | None
    """`None`: memory of the GPU under `shared`."""
    waits_for: tuple[str, ...]
    """Running jobs that must end before it starts there."""
    expected_at: float | None
    """Unix seconds; `None`: the end of one of them is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What happens now."""

    starts: tuple[Start, ...] = ()
    """In the queue's order."""
    waits: Mapping[str, Reason] = field(default_factory=dict)
    """Every other queued job → why it waits, in the queue's order."""
    never: tuple[str, ...] = ()
    """Those of `waits` that will never run, because a job that they need did not succeed; in the plan's order."""
    reservation: Reservation | None = None
    wake_at: float | None = None
    """Unix seconds: decide again then though nothing has happened (end of a pause, patience used up); `None`: not needed."""
