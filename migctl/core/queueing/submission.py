"""The plan as `up` leaves it behind, so that jobs can start when the command is gone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from migctl.core.code import Code
from migctl.core.plan import Job, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """All that starting a job needs and the machine does not tell. It holds values of the environment: for the owner only."""

    plan: Plan
    environ: tuple[tuple[str, str], ...] = ()
    """The caller's environment at `up`, which processes get."""
    images: tuple[tuple[str, str], ...] = ()
    """Job → image id: a tag that moves in the middle of a sweep changes nothing."""
    snapshots: tuple[tuple[str, str], ...] = ()
    """Job with `snapshot: true` → the copy of the plan's folder that it runs on."""
    codes: tuple[tuple[str, Code], ...] = ()
    """Copy → what git said of the folder when it was copied."""


def without_places(plan: Plan) -> Plan:
    """The plan as it is kept: where its keys stood in a file says nothing once the file may have changed."""
    return replace(plan, jobs=tuple(_without_places(job) for job in plan.jobs), places=(), notices=())


def _without_places(job: Job) -> Job:
    return replace(job, where=None, places=())
