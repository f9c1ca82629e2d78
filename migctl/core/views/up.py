"""The answer to `up`: what it started, what it left, and what waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from migctl.core.runs.record import Record
from migctl.core.runs.run import Run
from migctl.errors import Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class UpView:
    """One run after an `up`."""

    run: Run
    records: Mapping[str, Record] = field(default_factory=dict)
    started: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """Jobs of the plan that this call did not touch."""
    taken_out: tuple[str, ...] = ()
    """Jobs that it ended and removed for good."""
    changed: tuple[str, ...] = ()
    """Jobs that the plan has otherwise by now."""
    removed: tuple[str, ...] = ()
    """Jobs that the plan no longer has."""
    waits: Mapping[str, str] = field(default_factory=dict)
    """Jobs that wait in the queue, and why."""
    never: Mapping[str, str] = field(default_factory=dict)
    """Jobs of the queue that will not run unless others are run again, and why."""
    notices: tuple[Notice, ...] = ()
