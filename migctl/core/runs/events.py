"""What happens while steps run, told to whoever listens (progress lines, tests)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from migctl.core.runs.record import Action


class Moment(StrEnum):
    """Where a step stands."""

    INTENT = "intent"
    """Its intent is on disk; the effect comes next."""
    ACTED = "acted"
    """The effect happened and was read back; its record comes next."""
    RECORDED = "recorded"
    """Done."""


@dataclass(frozen=True, slots=True)
class StepEvent:
    """A step of a job reached a moment."""

    job: str
    action: Action
    moment: Moment


@dataclass(frozen=True, slots=True)
class PullEvent:
    """An image is being pulled; bytes, 0 = unknown."""

    image: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class NoteEvent:
    """A sentence for the user."""

    text: str


Event = StepEvent | PullEvent | NoteEvent
