"""The queue's decision: which waiting jobs start now and where, and why each of the others waits. Pure and deterministic.

Higher priority first, then the plan's order; a job that does not fit is passed by those behind it, until it has waited long
enough: then room is kept free for it, and only jobs that do not delay it start.
"""

from __future__ import annotations

from typing import Final

from migctl.core.queueing.choice import Choice, choose
from migctl.core.queueing.decision import Decision
from migctl.core.queueing.queue_order import Line, Standing, line_up
from migctl.core.queueing.reservation import Impatience
from migctl.core.queueing.situation import Situation
from migctl.core.queueing.turn import Reason, Why
from migctl.core.runs.record import JobState

_RUNNING = (JobState.STARTING, JobState.RUNNING)


def decide(situation: Situation) -> Decision:
    """Decide what starts now. Asked again after that has happened, it starts nothing more."""
    line = line_up(
        situation.turns,
        situation.states,
        held=situation.held_words if situation.held else None,
        held_jobs=situation.held_jobs,
        not_before=situation.not_before,
        now=situation.now,
    )
    running = sum(state in _RUNNING for state in situation.states.values())
    impatience = Impatience(situation.turns, situation.history, situation.patience, situation.now)
    choice = choose(line, running, situation, impatience)
    times = [at for at in situation.not_before.values() if at > situation.now]
    if choice.due_at is not None and choice.due_at > situation.now:
        times.append(choice.due_at)
    return Decision(
        starts=choice.starts,
        waits=_waits(line, choice, situation.now),
        never=line.never,
        reservation=choice.reservation,
        wake_at=min(times, default=None),
    )


def _waits(line: Line, choice: Choice, now: float) -> dict[str, Reason]:
    """Every job that does not start → why, in the queue's order."""
    at = choice.reservation.expected_at if choice.reservation is not None else None
    starting = {start.job for start in choice.starts}
    long = [_reason(standing, choice, short=False) for standing in line.standings]
    if at is None:
        waits = {t.name: long[n] for t, n in zip(line.order, line.places, strict=True) if t.name not in starting}
    else:
        short = [_reason(standing, choice, short=True) for standing in line.standings]
        waits = {
            t.name: (short if t.expect_s is not None and now + t.expect_s <= at else long)[n]
            for t, n in zip(line.order, line.places, strict=True)
            if t.name not in starting
        }
    return waits | choice.dropped


def _reason(standing: Standing, choice: Choice, *, short: bool) -> Reason:
    if isinstance(standing, Reason):
        return standing
    return choice.reason(standing.wish, short) or _ALL_START


_ALL_START: Final = Reason(why=Why.NO_CORE, words="no free core")
"""Stands where no job of a group waits but those that found no core near their GPU, which have a reason of their own."""
