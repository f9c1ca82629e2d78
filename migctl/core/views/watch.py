"""What `status --watch` shows: the status, the figures of the present moment, and what whoever watches has asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from migctl.core.seeing.readings import Reading
from migctl.core.seeing.verdicts import Diagnosis
from migctl.core.views.status import StatusView


class Sort(StrEnum):
    """In which order jobs stand; the words are shown."""

    PLAN = "plan"
    """What runs first, then what went wrong, what waits and what has succeeded, each in the plan's order."""
    URGENCY = "urgency"
    """Alarms first, then advice."""
    CPU = "cpu"
    WAIT = "wait"
    GPU = "gpu"
    MEMORY = "memory"
    NAME = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What whoever watches has chosen."""

    sort: Sort = Sort.PLAN
    pattern: str = ""
    """Only jobs whose name, run, state or verdict holds this text, in whatever case."""
    selected: str = ""
    """`run/job`; nothing: none."""
    keys: str = ""
    """The last line: what keys do, or an answer; nothing where there are no keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchView:
    """One moment."""

    status: StatusView
    clock: str = ""
    """The time of day, as it is shown."""
    reading: Reading | None = None
    """`None`: nothing is measured yet."""
    diagnosis: Diagnosis = Diagnosis()
    past: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    """`run/job` → the part of its cores that it used, oldest first; `None` where that was not known."""
    wishes: Wishes = Wishes()
