"""When the jobs of a run are expected to run, as it is kept beside the queue for whoever only looks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from migctl.core.queueing.forecast import Forecast


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """When one job is expected to start and to end (Unix seconds); `None`: not known."""

    start: float | None = None
    end: float | None = None
    reason: str | None = None
    """Why a time is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The expected course of a run, if every job succeeds and takes as long as it says."""

    jobs: Mapping[str, Span] = field(default_factory=dict)
    """Those that run or wait."""
    ends_at: float | None = None
    """When the last one ends (Unix seconds)."""
    reason: str | None = None
    """Why that is not known."""


def course(forecast: Forecast) -> Course:
    """A forecast without the places, which change until a job starts."""
    spans = {name: Span(start=e.start, end=e.end, reason=e.reason) for name, e in forecast.jobs.items()}
    return Course(jobs=spans, ends_at=forecast.ends_at, reason=forecast.reason)


def course_of_running(ends: Mapping[str, tuple[float, float | None]]) -> Course:
    """The course of a run all of whose jobs have started.

    Args:
        ends: job → when it started (Unix seconds), and how long it is expected to run (seconds), where it says so.
    """
    silent = [name for name, (_, expect_s) in ends.items() if expect_s is None]
    spans = {
        name: Span(
            start=start,
            end=start + expect_s if expect_s is not None else None,
            reason=None if expect_s is not None else f"{name} gives no expect",
        )
        for name, (start, expect_s) in ends.items()
    }
    known = [span.end for span in spans.values() if span.end is not None]
    if silent:
        return Course(jobs=spans, reason=f"{silent[0]} gives no expect")
    return Course(jobs=spans, ends_at=max(known, default=None))
