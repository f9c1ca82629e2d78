"""Times of a report: in the machine's own zone, and a time axis with round steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Final

from migctl.core.views.report import ReportView

_STEPS: Final = (
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    10800,
    21600,
    43200,
    86400,
    172800,
    604800,
)
"""Seconds between two marks."""
_MARKS: Final = 9
"""At most so many of them."""


@dataclass(frozen=True, slots=True)
class Clock:
    """How times are written: in one zone, that of the machine when the report was made."""

    offset_s: int = 0
    zone: str = "UTC"

    @classmethod
    def of(cls, view: ReportView) -> Clock:
        """The clock of a report."""
        return cls(view.utc_offset_s, view.zone)

    def local(self, at_s: float) -> datetime:
        """The moment in the zone."""
        return datetime.fromtimestamp(at_s, timezone(timedelta(seconds=self.offset_s)))

    def full(self, at_s: float | None) -> str:
        """`2026-11-30 15:34:18`; unknown is `n/a`."""
        return "n/a" if at_s is None else f"{self.local(at_s):%Y-%m-%d %H:%M:%S}"

    def brief(self, at_s: float | None) -> str:
        """Without the year, for tables of one run: `11-30 15:34:18`."""
        return "n/a" if at_s is None else f"{self.local(at_s):%m-%d %H:%M:%S}"

    def short(self, at_s: float, step_s: float) -> str:
        """As a mark of an axis needs it."""
        moment = self.local(at_s)
        if step_s >= 86400:
            return f"{moment:%b} {moment.day}"
        if step_s >= 60:
            return f"{moment:%H:%M}"
        return f"{moment:%H:%M:%S}"


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time that a picture shows, from its left to its right edge."""

    begin_s: float
    end_s: float

    @classmethod
    def of(cls, view: ReportView) -> Span:
        """From the first thing of a run to the last; never empty."""
        return cls(view.begin, max(view.end, view.begin + 1.0))

    @property
    def length_s(self) -> float:
        """Its length."""
        return self.end_s - self.begin_s

    def share(self, at_s: float) -> float:
        """Where a moment lies, 0 to 1; outside counts as the edge."""
        return min(1.0, max(0.0, (at_s - self.begin_s) / self.length_s))

    def marks(self, clock: Clock) -> tuple[tuple[float, str], ...]:
        """Moments for an axis with their words, at round times of the zone."""
        step = next((s for s in _STEPS if self.length_s / s <= _MARKS), _STEPS[-1] * max(1, int(self.length_s / 4e6)))
        return tuple((at_s, clock.short(at_s, step)) for at_s in self._round(step, clock.offset_s))

    def _round(self, step_s: int, offset_s: int) -> Iterator[float]:
        number = int((self.begin_s + offset_s) // step_s)
        while (at_s := number * step_s - offset_s) <= self.end_s:
            if at_s >= self.begin_s:
                yield float(at_s)
            number += 1
