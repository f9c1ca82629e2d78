"""Which of the jobs that may start do so: in their order while there is room, then those that do not delay one that waits long."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from migctl.core.choices import Strategy
from migctl.core.cpu.corestock import CoreStock
from migctl.core.queueing.decision import Reservation, Start
from migctl.core.queueing.floor import Floor
from migctl.core.queueing.queue_order import Line
from migctl.core.queueing.reservation import Impatience, soonest
from migctl.core.queueing.shared_floor import SharedFloor
from migctl.core.queueing.situation import Situation
from migctl.core.queueing.spot import Keep, Spot
from migctl.core.queueing.turn import WHOLE_GPU, Reason, Stay, Turn, Why, Wish

_NO_ROOM: Final = Reason(why=Why.NO_ROOM, words="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What was chosen."""

    starts: tuple[Start, ...]
    """In the queue's order."""
    refused: dict[tuple[Wish, bool], Reason]
    """Why jobs with a wish do not start: those that would end before the reservation (`True`), and the others."""
    full: Callable[[Wish], str]
    """The words for want of room, which cost more than a decision on paper needs."""
    limit: Reason | None
    """Why nothing at all starts any more; goes for everybody whose wish was not refused."""
    dropped: dict[str, Reason]
    """Jobs that had room, and no core near it."""
    reservation: Reservation | None
    due_at: float | None
    """When the first of the refused jobs will have waited long enough (Unix seconds)."""

    def reason(self, wish: Wish, short: bool) -> Reason | None:
        """Why jobs with this wish do not start; nothing where they all do."""
        found = self.refused.get((wish, short)) or self.limit
        return replace(found, words=self.full(wish)) if found is _NO_ROOM else found


def choose(line: Line, running: int, situation: Situation, impatience: Impatience) -> Choice:
    """Choose.

    Args:
        line: the waiting jobs.
        running: how many run.
        situation: everything else.
        impatience: tells who has waited long enough.
    """
    return _Chooser(line, running, situation, impatience).choose()


@dataclass(frozen=True, slots=True)
class _Row:
    """Jobs with one wish in their order, by their places in the line."""

    members: list[int]
    short: bool
    """They will have ended when the room that is kept is needed."""


class _Chooser:
    def __init__(self, line: Line, running: int, situation: Situation, impatience: Impatience) -> None:
        self.situation = situation
        self.impatience = impatience
        self.line = line
        kind = SharedFloor if situation.strategy is Strategy.SHARED else Floor
        wishes = [group.wish for group in line.groups if group.wish.instance_uuid is None]
        self.floor: Floor | SharedFloor = kind(situation.sites, wishes)
        self.stock = CoreStock(situation.free_cores, situation.free_cpus)
        self.room_for = situation.max_parallel - running if situation.max_parallel is not None else None
        self.counted: list[tuple[int, Turn]] = []
        self.placed: list[tuple[int, Turn, Spot | None]] = []
        self.lent = set(situation.lent)
        self.refused: dict[tuple[Wish, bool], Reason] = {}
        self.dropped: dict[str, Reason] = {}
        self.reservation: Reservation | None = None
        self.settled = False
        self.rows = [_Row(group.members, False) for group in line.groups]
        self.heads = [(row.members[0], n, 0) for n, row in enumerate(self.rows)]
        """Of each row the next job: its place in the line, the row, its place in the row."""
        heapq.heapify(self.heads)
        self.due_at: float | None = None

    def choose(self) -> Choice:
        wishes = len(self.line.groups)
        limit: Reason | None = None
        while self.heads:
            if self.room_for is not None and len(self.counted) + len(self.placed) >= self.room_for:
                words = f"max_parallel: {self.situation.max_parallel} is reached"
                limit = Reason(why=Why.MAX_PARALLEL, words=words)
                break
            position, n, member = heapq.heappop(self.heads)
            row = self.rows[n]
            turn = self.line.order[position]
            if (turn.wish, row.short) in self.refused:
                continue
            reason = self._try(position, turn, row.short)
            if reason is not None:
                self._refuse(turn, reason, row.short)
            elif member + 1 < len(row.members):
                heapq.heappush(self.heads, (row.members[member + 1], n, member + 1))
            if len(self.refused) >= 2 * wishes:
                break
        self._seat()
        return Choice(
            starts=self._starts(),
            refused=self.refused,
            full=self.floor.full_words,
            limit=limit,
            dropped=self.dropped,
            reservation=self.reservation,
            due_at=self.due_at,
        )

    def _divide(self, at: float) -> None:
        """From now on it matters who will have ended by then: such jobs are asked apart from the others with the same wish."""
        now = self.situation.now
        left: list[_Row] = []
        for position, n, member in self.heads:
            rest = self.rows[n].members[member:]
            assert rest[0] == position
            short = [m for m in rest if (lasts := self.line.order[m].expect_s) is not None and now + lasts <= at]
            known = set(short)
            left += [_Row(short, True), _Row([m for m in rest if m not in known], False)]
        self.rows = [row for row in left if row.members]
        self.heads = [(row.members[0], n, 0) for n, row in enumerate(self.rows)]
        heapq.heapify(self.heads)

    def _try(self, position: int, turn: Turn, short: bool) -> Reason | None:
        wish = turn.wish
        if wish.instance_uuid is not None:
            return self._try_instance(position, turn)
        if not self.stock.enough(wish, None, kept=not short):
            return self._no_core(wish, short)
        if not self.settled:
            if not self.floor.add(wish):
                return _NO_ROOM
            self.stock.take(wish, None)
            self.counted.append((position, turn))
            return None
        spot = self.floor.fits(wish, short=short)
        if spot is None:
            if not short and self.floor.fits(wish, short=True) is not None:
                return self._kept_for()
            return _NO_ROOM
        scope = self.floor.sites[spot.site].scope
        if not self.stock.enough(wish, scope, kept=not short):
            return self._no_core(wish, short)
        self._put(position, turn, spot, short=short)
        return None

    def _try_instance(self, position: int, turn: Turn) -> Reason | None:
        uuid = turn.wish.instance_uuid or ""
        if uuid in self.lent:
            return Reason(why=Why.NO_ROOM, words=f"{uuid} is in use")
        if not self.stock.enough(turn.wish, None):
            return self._no_core(turn.wish, short=False)
        self.stock.take(turn.wish, None)
        self.lent.add(uuid)
        self.placed.append((position, turn, None))
        return None

    def _no_core(self, wish: Wish, short: bool) -> Reason:
        if self.reservation is not None and not short and self.stock.enough(wish, None, kept=False):
            return self._kept_for()
        if wish.cpuset is not None:
            return Reason(why=Why.NO_CORE, words=f"no free core: logical CPUs {wish.cpuset} are in use")
        needs = f": needs {wish.least_cores}" if wish.least_cores > 1 else ""
        return Reason(why=Why.NO_CORE, words=f"no free core{needs}")

    def _kept_for(self) -> Reason:
        assert self.reservation is not None
        job, at = self.reservation.job, self.reservation.expected_at
        return Reason(why=Why.RESERVED, words=f"room is kept for {job}, which has waited long", jobs=(job,), until=at)

    def _refuse(self, turn: Turn, reason: Reason, short: bool) -> None:
        self.refused[turn.wish, short] = reason
        if reason.why is not Why.RESERVED:
            self.refused.setdefault((turn.wish, not short), reason)
        if self.reservation is not None or turn.wish.instance_uuid is not None:
            return
        if self.impatience.due(turn):
            self._reserve(turn, reason)
        else:
            at = self.impatience.due_at(turn)
            self.due_at = at if self.due_at is None else min(self.due_at, at)

    def _reserve(self, turn: Turn, reason: Reason) -> None:
        """Keep room for a job from now on, if that can help it; those counted in before it get their places."""
        self._seat()
        wish, now = turn.wish, self.situation.now
        found = soonest(self.floor, wish, now) if isinstance(self.floor, Floor) else self.floor.soonest(wish, now)
        if found is None:
            return  # only others are in its way, and nobody knows for how long
        keep, at = found
        self.floor.keep(keep, wish)
        self._keep_cores(wish, keep)
        self.reservation = Reservation(
            job=turn.name,
            gpu_uuid=self.floor.sites[keep.site].gpu.uuid,
            placement=keep.placement if keep.profile.id != WHOLE_GPU else None,
            waits_for=tuple(stay.job for stay in keep.leaving if stay.job is not None),
            expected_at=at if reason.why is Why.NO_ROOM else None,
        )
        if self.reservation.expected_at is not None:
            self._divide(self.reservation.expected_at)

    def _keep_cores(self, wish: Wish, keep: Keep) -> None:
        if wish.cpuset is not None:
            self.stock.keep_cpus(wish.cpuset)
            return
        coming = sum(stay.cores for stay in keep.leaving)
        self.stock.keep(self.floor.sites[keep.site].scope, max(0, wish.least_cores - coming))

    def _seat(self) -> None:
        """Give the jobs that were counted in their places; from now on each one gets its place at once."""
        if self.settled:
            return
        self.settled = True
        self.stock = CoreStock(self.situation.free_cores, self.situation.free_cpus)
        for _, turn, _ in self.placed:
            self.stock.take(turn.wish, None)
        spots = self.floor.seat([turn.wish for _, turn in self.counted])
        for (position, turn), spot in zip(self.counted, spots, strict=True):
            if self.stock.enough(turn.wish, self.floor.sites[spot.site].scope):
                self._put(position, turn, spot, short=False)
            else:
                self.dropped[turn.name] = self._no_core(turn.wish, short=False)
        self.counted = []

    def _put(self, position: int, turn: Turn, spot: Spot, *, short: bool) -> None:
        self.stock.take(turn.wish, self.floor.sites[spot.site].scope)
        stay = Stay(
            placement=spot.placement,
            profile_id=spot.profile.id,
            owner="",
            job=turn.name,
            cores=turn.wish.least_cores,
            memory_mib=turn.wish.memory_mib,
            ends_at=self.situation.now + turn.expect_s if turn.expect_s is not None else None,
            company=turn.wish.company,
        )
        self.floor.put(spot, stay, short=short)
        self.placed.append((position, turn, spot))

    def _starts(self) -> tuple[Start, ...]:
        placed = sorted(self.placed, key=lambda one: one[0])
        scopes = [self.floor.sites[spot.site].scope if spot is not None else 0 for _, _, spot in placed]
        cores = self.stock.share([(turn.wish, scope) for (_, turn, _), scope in zip(placed, scopes, strict=True)])
        return tuple(
            _start(turn, spot, self.floor.sites[spot.site].gpu.uuid if spot is not None else "", share)
            for (_, turn, spot), share in zip(placed, cores, strict=True)
        )


def _start(turn: Turn, spot: Spot | None, gpu_uuid: str, cores: int) -> Start:
    wish = turn.wish
    if spot is None:
        gpu_uuid, profile = next(iter(wish.options.items()), ("", None))
        return Start(
            job=turn.name,
            gpu_uuid=gpu_uuid,
            profile=None,
            placement=None,
            memory_mib=profile.memory_mib if profile is not None else 0,
            cores=cores,
            instance_uuid=wish.instance_uuid,
        )
    whole = spot.profile.id == WHOLE_GPU
    return Start(
        job=turn.name,
        gpu_uuid=gpu_uuid,
        profile=None if whole else spot.profile,
        placement=None if whole else spot.placement,
        memory_mib=wish.memory_mib or spot.profile.memory_mib,
        cores=cores,
        takes_over=spot.takes_over,
        destroys=spot.destroys,
    )
