"""The answer to `tune`: the curve over worker counts and what to make of it."""

from __future__ import annotations

from dataclasses import dataclass

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.seeing.tuning import Point, Verdict
from migctl.errors import Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneView:
    """One tuned job."""

    run: str
    """The plan's name."""
    job: str
    origin: str
    """Its key under `jobs:`."""
    cpus: CpuSet
    cores: int
    profile: str | None
    runtime: str
    probe: bool
    """The stand-in was measured, not the job's own command."""
    planned: int
    """Workers that the plan gives it now."""
    points: tuple[Point, ...]
    """Ascending by workers."""
    best: int
    """Workers with the highest throughput."""
    recommended: int
    verdict: Verdict
    written: str | None = None
    """File into which the recommendation was written."""
    notices: tuple[Notice, ...] = ()
    simulated: str = ""
