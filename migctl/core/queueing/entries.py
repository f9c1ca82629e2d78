"""The queue of a run as it is kept: its jobs in their order, and what the user said about them since."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from migctl.core.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One job of the queue, as far as whoever only looks has to know it."""

    job: str
    origin: str
    submitted_at: float
    """Unix seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The jobs of a run in the order in which they were given, and what the user said about them since."""

    entries: tuple[Entry, ...] = ()
    held: bool = False
    """Nothing more of the run starts; what runs goes on."""
    held_jobs: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    """Taken out of the queue before they began."""
    wave: tuple[int, ...] = ()
    """Compute slices of the jobs of the first wave: cores are shared out by these for the run's whole life."""
    told: bool = False
    """Nothing is left to be done, and whoever wanted to know has been told."""
    leaving: bool = False
    """With `on_finish: down`: all is told, and the run is being taken down, by the next supervisor where this one ends."""
    reason: str = ""
    """Why nothing starts although nobody held it: a failure with `fail_fast`, a restart of the machine."""

    @property
    def names(self) -> tuple[str, ...]:
        """The jobs in their order."""
        return tuple(entry.job for entry in self.entries)


def requeued(queue: Queue | None, plan: Plan, now: float, *, again: bool = False) -> Queue:
    """The queue of a plan that is given (again): known jobs keep the time since when they wait.

    What was held by hand stays held; a restart of the machine holds it only until the plan is given again.

    Args:
        again: jobs that were taken out, by hand or because another failed, wait once more.
    """
    known = {entry.job: entry for entry in queue.entries} if queue is not None else {}
    entries = tuple(
        known.get(job.name) or Entry(job=job.name, origin=job.origin, submitted_at=now) for job in plan.jobs
    )
    if queue is None:
        return Queue(entries=entries)
    names = {job.name for job in plan.jobs}
    stopped = () if again else tuple(j for j in queue.stopped if j in names)
    return replace(
        queue,
        entries=entries,
        held=queue.held and not queue.reason,
        held_jobs=tuple(j for j in queue.held_jobs if j in names),
        stopped=stopped,
        reason=queue.reason if stopped and not queue.held else "",
        told=False,
        leaving=False,
    )
