"""Jobs that wait for others: a Job has no words for that, so it is made suspended, with a note of what it waits for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from migctl.core.runs.record import JobState


@dataclass(frozen=True, slots=True)
class Before:
    """What a Job waits for."""

    unit: str
    """Name of another Job."""
    index: int | None = None
    """A single one of its jobs; `None`: all of them."""
    success: bool = True
    """They must have succeeded; else it is enough that they have ended."""
    told: str = ""
    """What people call it."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a Job stands that waits for others."""

    waits_for: tuple[str, ...] = ()
    """What has not ended yet."""
    missing: str = ""
    """What it needs and cannot get any more, a clause: it will not run."""

    @property
    def may_begin(self) -> bool:
        """Whether nothing is in its way."""
        return not self.waits_for and not self.missing


def encode(befores: Iterable[Before]) -> str:
    """As the value of an annotation."""
    rows = [[one.unit, one.index, one.success, one.told] for one in befores]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def decode(text: str) -> tuple[Before, ...]:
    """From the value of an annotation; what is no such value waits for nothing.

    An annotation is the cluster's users' to change: what they made of it is told by what the Job does then.
    """
    try:
        rows = json.loads(text or "[]")
    except ValueError:
        return ()
    found: list[Before] = []
    for row in rows if isinstance(rows, list) else []:
        match row:
            case [str(unit), int() | None as index, bool(success), str(told)]:
                found.append(Before(unit, index, success, told))
            case _:
                return ()
    return tuple(found)


def standing(befores: Sequence[Before], states: Callable[[str, int | None], Sequence[JobState]]) -> Standing:
    """Whether a Job's turn has come.

    Args:
        befores: what it waits for.
        states: of the jobs of a unit, or of one of them; nothing where that unit is gone, which counts as ended badly.
    """
    waiting: list[str] = []
    for one in befores:
        found = states(one.unit, one.index) or (JobState.LOST,)
        bad = next((state for state in found if state.unsuccessful), None)
        if one.success and bad is not None:
            return Standing(missing=f"{one.told or one.unit}, which it needs, {_ENDS[bad]}")
        if not all(state.ended for state in found):
            waiting.append(one.told or one.unit)
    return Standing(waits_for=tuple(dict.fromkeys(waiting)))


_ENDS = {
    JobState.FAILED: "failed",
    JobState.STOPPED: "was stopped",
    JobState.LOST: "is gone from the cluster",
}
