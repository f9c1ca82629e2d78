"""A place on one of the run's GPUs, for a job that starts or for one that it is kept for."""

from __future__ import annotations

from dataclasses import dataclass

from migctl.core.gpu.mig import Placement, Profile
from migctl.core.queueing.turn import Spare, Stay


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """Where one job goes."""

    site: int
    profile: Profile
    placement: Placement
    takes_over: Spare | None = None
    destroys: tuple[Spare, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Room that is kept for a job on one GPU."""

    site: int
    profile: Profile
    placement: Placement
    leaving: tuple[Stay, ...]
    """What has to end before."""
