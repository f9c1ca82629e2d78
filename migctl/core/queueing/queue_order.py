"""Whose turn it is: the waiting jobs that could start if there were room, in their order, and why the others cannot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from migctl.core.queueing.turn import Reason, Turn, Why, Wish
from migctl.core.runs.record import JobState

_NAMED = 3
"""Jobs named in a reason before "and N more"."""


_FREE: Final = -1
"""Nothing keeps a job from starting, as far as has been looked."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Jobs that need the same: where one of them has no room, none has."""

    wish: Wish
    members: list[int] = field(default_factory=list)
    """Their places in the line, ascending."""


Standing = Reason | Group
"""Where a waiting job stands: it may not start, and why, or it may, with others like it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The waiting jobs."""

    order: Sequence[Turn]
    """All of them: higher priority first, then the plan's order."""
    standings: Sequence[Standing]
    """What there is; each once, for any number of jobs."""
    places: Sequence[int]
    """Of each waiting job: which of the standings is its."""
    groups: Sequence[Group]
    """Those that may start, the first one's group first."""
    never: tuple[str, ...]
    """Jobs that will not run; in the plan's order."""


def line_up(
    turns: Sequence[Turn],
    states: Mapping[str, JobState],
    *,
    held: str | None,
    held_jobs: frozenset[str],
    not_before: Mapping[str, float],
    now: float,
) -> Line:
    """Sort out who may start.

    Args:
        turns: all jobs of the plan, in its order.
        states: missing = queued.
        held: why nothing at all starts.
        held_jobs: the jobs that are held one by one.
        not_before: Unix seconds.
        now: Unix seconds.
    """
    queued = JobState.QUEUED
    waiting = [turn for turn in turns if states.get(turn.name, queued) is queued]
    dead = _dead(turns, waiting, states) if any(turn.needs for turn in waiting) else {}
    stage = _stage(turns, states, dead)
    order = sorted(waiting, key=_rank) if any(turn.priority for turn in waiting) else waiting
    standings: list[Standing] = []

    def new(standing: Standing) -> int:
        standings.append(standing)
        return len(standings) - 1

    needing: dict[tuple[str, ...], int] = {}
    groups: dict[Wish, tuple[int, Group]] = {}
    behind = new(stage.reason) if stage is not None else _FREE
    everybody = new(Reason(why=Why.HELD, words=held)) if held is not None else _FREE
    single = new(Reason(why=Why.HELD, words="the job is held")) if held_jobs else _FREE
    places: list[int] = []
    for position, turn in enumerate(order):
        place = _FREE
        if turn.needs:
            if dead and turn.name in dead:
                place = new(dead[turn.name])
            else:
                known = needing.get(turn.needs)
                if known is None:
                    reason = _missing(turn.needs, states)
                    known = needing[turn.needs] = new(reason) if reason is not None else _FREE
                place = known
        if place == _FREE and stage is not None and turn.stage is not None and turn.stage > stage.number:
            place = behind
        if place == _FREE:
            place = everybody
        if place == _FREE and turn.name in held_jobs:
            place = single
        if place == _FREE and not_before and not_before.get(turn.name, now) > now:
            place = new(Reason(why=Why.LATER, words="a pause before the next attempt", until=not_before[turn.name]))
        if place == _FREE:
            found = groups.get(turn.wish)
            if found is None:
                group = Group(turn.wish)
                found = groups[turn.wish] = new(group), group
            place = found[0]
            found[1].members.append(position)
        places.append(place)
    never = tuple(turn.name for turn in waiting if turn.name in dead) if dead else ()
    return Line(
        order=order,
        standings=standings,
        places=places,
        groups=tuple(group for _, group in groups.values()),
        never=never,
    )


def _missing(needs: tuple[str, ...], states: Mapping[str, JobState]) -> Reason | None:
    missing: tuple[str, ...]
    if len(needs) == 1:
        missing = needs if states.get(needs[0]) is not JobState.SUCCEEDED else ()  # by far the most common
    else:
        missing = tuple([need for need in needs if states.get(need) is not JobState.SUCCEEDED])
    return Reason(why=Why.NEEDS, words=f"waits for {listed(missing)}", jobs=missing) if missing else None


def listed(names: Sequence[str]) -> str:
    """`a, b, c and 4 more`."""
    if len(names) == 1:
        return names[0]
    more = len(names) - _NAMED
    if more <= 0:
        return f"{', '.join(names[:-1])} and {names[-1]}" if names else ""
    return f"{', '.join(names[:_NAMED])} and {more} more"


def _rank(turn: Turn) -> int:
    return -turn.priority


def _dead(turns: Sequence[Turn], waiting: Sequence[Turn], states: Mapping[str, JobState]) -> dict[str, Reason]:
    """Waiting jobs that need one which did not succeed and will not be tried again, directly or through others."""
    needed = {need for turn in waiting for need in turn.needs}
    spreading = [(need, _END[state]) for need in needed if (state := states.get(need)) in _END]
    gone = needed - {turn.name for turn in turns} - states.keys()
    spreading += [(need, "is not in the plan") for need in gone]
    if not spreading:
        return {}
    dependants: dict[str, list[str]] = {}
    for turn in waiting:
        for need in turn.needs:
            dependants.setdefault(need, []).append(turn.name)
    spreading.sort()
    found: dict[str, Reason] = {}
    while spreading:
        need, end = spreading.pop()
        for name in dependants.get(need, ()):
            if name not in found:
                found[name] = Reason(why=Why.NEVER, words=f"will not run: {need}, which it needs, {end}", jobs=(need,))
                spreading.append((name, "will not run"))
    return found


_END: Final[Mapping[JobState | None, str]] = {
    JobState.FAILED: "failed",
    JobState.STOPPED: "was stopped",
    JobState.LOST: "was lost",
}
"""How a needed job ended that did not succeed."""


@dataclass(frozen=True, slots=True)
class _Stage:
    number: int
    reason: Reason


def _stage(turns: Iterable[Turn], states: Mapping[str, JobState], dead: Mapping[str, Reason]) -> _Stage | None:
    """The lowest stage of which a job has not ended; jobs that will never run have."""
    unfinished = [
        turn
        for turn in turns
        if turn.stage is not None and turn.name not in dead and not states.get(turn.name, JobState.QUEUED).ended
    ]
    if not unfinished:
        return None
    number = min(turn.stage for turn in unfinished if turn.stage is not None)
    names = tuple(turn.name for turn in unfinished if turn.stage == number)
    words = f"stage {number} has not ended: {listed(names)}"
    return _Stage(number, Reason(why=Why.STAGE, words=words, jobs=names))
