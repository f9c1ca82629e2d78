"""The queue's decision: which waiting jobs start now and where, and why each of the others waits. Pure and deterministic.

Higher priority first, then the plan's order; a job that does not fit is passed by those behind it, until it has waited long
enough: then room is kept free for it, and only jobs that do not delay it start.
"""

from __future__ import annotations

from migctl.core.choice import Choice, choose
from migctl.core.decision import Decision
from migctl.core.queue_order import Line, line_up
from migctl.core.record import JobState
from migctl.core.reservation import Impatience
from migctl.core.situation import Situation
from migctl.core.turn import Reason

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
    latest = at - now if at is not None else -1.0
    long = {group: choice.reason(group.wish, False) for group in line.groups}
    short = {group: choice.reason(group.wish, True) for group in line.groups} if at is not None else long
    starting = {start.job for start in choice.starts}
    waits: dict[str, Reason] = {}
    for turn, standing in zip(line.order, line.standings, strict=True):
        if turn.name in starting:
            continue
        if isinstance(standing, Reason):
            waits[turn.name] = standing
            continue
        in_time = turn.expect_s is not None and turn.expect_s <= latest
        reason = choice.dropped.get(turn.name) or (short if in_time else long)[standing]
        assert reason is not None  # neither started nor refused: only the limit ends the choice
        waits[turn.name] = reason
    return waits
