"""Which room is kept free for a job that has waited long enough: where it can start soonest, and what has to end before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import chain
from typing import Final

from migctl.core.gpu.mig import Placement, Profile
from migctl.core.queueing.floor import Floor
from migctl.core.queueing.spot import Keep
from migctl.core.queueing.turn import History, Patience, Stay, Turn, Wish


def soonest(floor: Floor, wish: Wish, now: float) -> tuple[Keep, float | None] | None:
    """The place where a job can start first, and when (Unix seconds; `None`: not known).

    Where the ends of running jobs are not known, it is the place with the fewest slices to wait for: that number can only fall,
    as nothing new starts there, so the choice does not wander and the wait ends with jobs that run now.

    Returns:
        Nothing where only others, whose end nobody knows, are in the way.
    """
    best: tuple[tuple[bool, float, int, int, int], Keep, float | None] | None = None
    for site in range(len(floor.sites)):
        profile = floor.option(wish, site)
        if profile is None:
            continue
        for placement in profile.placements:
            leaving = _leaving(floor, site, profile, placement, now)
            if leaving is None:
                continue
            ends = [_end(stay, now) for stay in leaving]
            latest = max((end for end in ends if end is not None), default=now)
            at = None if None in ends else latest
            slices = sum(stay.placement.size for stay in leaving)
            key = (at is None, latest if at is not None else 0.0, slices, site, placement.start)
            if best is None or key < best[0]:
                best = key, Keep(site=site, profile=profile, placement=placement, leaving=leaving), at
    return best[1:] if best is not None else None


def _leaving(floor: Floor, site: int, profile: Profile, placement: Placement, now: float) -> tuple[Stay, ...] | None:
    """The fewest running jobs that have to end for an instance to lie there, or nothing where that is not enough."""
    stays = floor.stays(site)
    leaving = [stay for stay in stays if stay.placement.overlaps(placement)]
    others = [stay for stay in stays if not stay.placement.overlaps(placement)]
    # Beside it there can be too many slices or instances of its kind: those that end first make room.
    order = sorted((stay for stay in others if _ends(stay)), key=lambda s: (_end(s, now) is None, _end(s, now) or 0.0))
    for more in chain([None], order):
        if more is not None:
            leaving.append(more)
            others.remove(more)
        if floor.together(site, others, profile, placement):
            break
    else:
        return None
    return tuple(leaving) if all(_ends(stay) for stay in leaving) else None


def _ends(stay: Stay) -> bool:
    """Whether its place will be free without anybody else's doing."""
    return stay.job is not None and not stay.lasting


def _end(stay: Stay, now: float) -> float | None:
    """When a job is expected to end; one that is overdue can end at any time."""
    return stay.ends_at if stay.ends_at is not None and stay.ends_at > now else None


class Impatience:
    """Who has waited long enough.

    Args:
        turns: all jobs of the plan, in its order.
        history: what happened.
        patience: the limits.
        now: Unix seconds.
        numbers: `numbered(turns)`, where that is known already.
        recent: the latest starts (Unix seconds, job), the last one first, where that is known already.
    """

    def __init__(
        self,
        turns: Sequence[Turn],
        history: History,
        patience: Patience,
        now: float,
        numbers: Mapping[str, int] | None = None,
        recent: Sequence[tuple[float, str]] | None = None,
    ) -> None:
        self._turns, self._history, self._patience, self._now = turns, history, patience, now
        self._numbers = numbers
        self._recent = recent
        self._stages: dict[int, float] = {}

    def since(self, turn: Turn) -> float:
        """Since when nothing but room has been missing for a job, as far as known (Unix seconds)."""
        times = self._history
        since = times.submitted.get(turn.name, self._now)
        return max(chain([since], self._known(turn)))

    def due(self, turn: Turn) -> bool:
        """Whether room is to be kept for it."""
        since = self.since(turn)
        if self._now - since >= self._patience.age_s:
            return True
        return self._passed(turn, since) >= self._patience.passed

    def due_at(self, turn: Turn) -> float:
        """When it will be due if nothing happens (Unix seconds)."""
        return self.since(turn) + self._patience.age_s

    def _known(self, turn: Turn) -> Iterator[float]:
        finished = self._history.finished
        if turn.name in finished:
            yield finished[turn.name]  # its last attempt
        yield from (finished[need] for need in turn.needs if need in finished)
        if turn.stage is not None:
            if turn.stage not in self._stages:
                lower = (t for t in self._turns if t.stage is not None and t.stage < turn.stage)
                self._stages[turn.stage] = max((finished.get(t.name, 0.0) for t in lower), default=0.0)
            yield self._stages[turn.stage]

    def _passed(self, turn: Turn, since: float) -> int:
        """Jobs behind it that were started since then; counted up to the limit."""
        if self._recent is None:
            self._recent = nlargest(LOOK_BACK, ((at, name) for name, at in self._history.started.items()))
        if len(self._recent) < self._patience.passed:
            return 0
        if self._numbers is None:
            self._numbers = numbered(self._turns)
        mine = self._rank(self._numbers[turn.name])
        passed = 0
        for at, name in self._recent:
            if at <= since or passed >= self._patience.passed:
                break
            number = self._numbers.get(name)
            passed += number is not None and self._rank(number) > mine
        return passed

    def _rank(self, number: int) -> tuple[int, int]:
        """Where a job stands in the queue: the smaller, the earlier."""
        return -self._turns[number].priority, number


def numbered(turns: Sequence[Turn]) -> dict[str, int]:
    """The jobs' places in the plan."""
    return {turn.name: n for n, turn in enumerate(turns)}


LOOK_BACK: Final = 512
"""Starts looked at: enough to see that somebody has been passed often, and never slow."""
