"""The search over GPUs in a given order: at each one a maximal packing of the jobs left is chosen, the fullest first.

Going back is rare because of three things that lose no solution: a packing that another one contains is not tried; of jobs
that a GPU treats alike, those with fewer other GPUs go first; among GPUs that are alike the next one takes the largest job left.
States that failed are remembered, from one question to the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product

from migctl.core.gpu import packing
from migctl.core.gpu.bounds import Bin, Reach, Weighting, reach
from migctl.core.gpu.packing import NOWHERE, Counts


class OutOfPatience(Exception):  # noqa: N818 -- no error: neither found nor excluded yet
    """More states failed than were allowed to; asked again, the search goes on from what it has excluded."""


@dataclass(frozen=True, slots=True)
class _Level:
    """The search at one GPU, where kinds that no later GPU distinguishes have become one group."""

    onward: tuple[int, ...]
    """Group → its group at the next GPU, or `NOWHERE`: what is not placed here cannot be placed."""
    wanted: Counts
    """Profiles that some group has here."""
    groups: tuple[tuple[int, ...], ...]
    """Of each wanted profile: its groups, those with fewer other GPUs first."""
    yields: frozenset[tuple[int, int]]
    """(a, b): whatever b can do on later GPUs, a cannot do more, so a goes first."""
    most: tuple[Counts, ...]
    """Maximal packings of `wanted`."""
    sizes: tuple[tuple[int, int], ...]
    caps: Counts
    """Of each group: the most that can be here, plus one; more makes no difference to the choice."""
    must: tuple[int, ...]
    """Groups of which one has to be here if any is left (the GPUs that can take it are alike), largest profile first."""
    chained: tuple[bool, ...]
    """Of each wanted profile: whether each of its groups yields to the next, so that there is one way to choose from them."""
    tails: tuple[Counts, ...]
    """Of each group: its profile on this GPU and all later ones."""
    gpus: tuple[int, ...]
    """This GPU and all later ones, by the caller's numbers."""
    choices: dict[Counts, tuple[Counts, ...]] = field(default_factory=dict)
    failed: set[Counts] = field(default_factory=set)


class Search:
    """GPUs and kinds of jobs, ready for questions.

    Args:
        bins: the GPUs in the order in which they are filled.
        kinds: of each kind, its profile on each GPU (position in that GPU's rules, or `NOWHERE`).
        gpus: the number of each GPU in the weightings.
        class_of: the class of each GPU in the weightings, by that number.
    """

    __slots__ = ("_bounds", "_class_of", "_first", "_left_to_fail", "_levels", "_reaches", "_weightings")

    def __init__(self, bins: Sequence[Bin], kinds: Sequence[Counts], gpus: Counts, class_of: Counts) -> None:
        tails = [
            tuple(dict.fromkeys(kind[n:] for kind in kinds if any(p != NOWHERE for p in kind[n:])))
            for n in range(len(bins))
        ]
        self._first = tuple(tails[0].index(kind) if tails and kind in tails[0] else NOWHERE for kind in kinds)
        self._levels = tuple(
            _level(bins[n:], tail, tails[n + 1] if n + 1 < len(bins) else (), gpus[n:]) for n, tail in enumerate(tails)
        )
        self._class_of = class_of
        self._reaches: dict[int, tuple[Reach, ...]] = {}
        self._weightings: Sequence[Weighting] = ()
        self._bounds: dict[int, tuple[tuple[Counts, int], ...]] = {}
        self._left_to_fail = 0

    def solve(self, counts: Counts, patience: int, weightings: Sequence[Weighting] = ()) -> tuple[Counts, ...] | None:
        """Divide so many jobs of each kind among the GPUs.

        Args:
            counts: how many of each kind.
            patience: how many states may fail.
            weightings: bounds that shorten the search; its answer does not depend on them.

        Returns:
            Of each GPU, how many jobs of each kind; nothing if there is no way.

        Raises:
            OutOfPatience: neither is known yet.
        """
        self._weightings, self._bounds, self._left_to_fail = weightings, {}, patience
        start = self._start(counts)
        chosen = self._search(0, start) if start is not None else None
        return self._undo_groups(counts, chosen) if chosen is not None else None

    def _start(self, counts: Counts) -> Counts | None:
        groups = [0] * len(self._levels[0].onward) if self._levels else []
        for group, count in zip(self._first, counts, strict=True):
            if group != NOWHERE:
                groups[group] += count
            elif count:
                return None
        return tuple(groups)

    def _search(self, depth: int, left: Counts) -> list[Counts] | None:
        """Of each GPU from `depth` on, how many of each of its groups."""
        if not any(left):
            return []
        if depth == len(self._levels):
            return None
        level = self._levels[depth]
        if left in level.failed:
            return None
        if not self._too_heavy(depth, left):
            for choice in _choices(level, left):
                rest = _rest(
                    level, left, choice, len(self._levels[depth + 1].onward) if depth + 1 < len(self._levels) else 0
                )
                if rest is not None:
                    found = self._search(depth + 1, rest)
                    if found is not None:
                        return [choice, *found]
        level.failed.add(left)
        self._left_to_fail -= 1
        if self._left_to_fail < 0 and depth:
            raise OutOfPatience
        return None

    def _too_heavy(self, depth: int, left: Counts) -> bool:
        if not self._weightings:
            return False
        bounds = self._bounds.get(depth)
        if bounds is None:
            level = self._levels[depth]
            reaches = self._reaches.get(depth)
            if reaches is None:
                reaches = tuple([reach(tail, level.gpus, self._class_of) for tail in level.tails])
                self._reaches[depth] = reaches
            found = dict.fromkeys(one.bound(reaches, level.gpus) for one in self._weightings)
            bounds = self._bounds[depth] = tuple(found)
        return any(sum(map(int.__mul__, weights, left)) > most for weights, most in bounds)

    def _undo_groups(self, counts: Counts, chosen: list[Counts]) -> tuple[tuple[int, ...], ...]:
        """Numbers of each kind from numbers of each group: within a group the first kinds come first."""
        open_counts, group_of = list(counts), list(self._first)
        result: list[tuple[int, ...]] = []
        for level, choice in zip(self._levels, chosen, strict=False):
            to_place = list(choice)
            row = [0] * len(open_counts)
            for kind, group in enumerate(group_of):
                if group != NOWHERE and to_place[group]:
                    row[kind] = min(to_place[group], open_counts[kind])
                    to_place[group] -= row[kind]
                    open_counts[kind] -= row[kind]
            result.append(tuple(row))
            group_of = [level.onward[group] if group != NOWHERE else NOWHERE for group in group_of]
        result += [(0,) * len(counts)] * (len(self._levels) - len(result))
        return tuple(result)


def _level(bins: Sequence[Bin], tails: Sequence[Counts], next_tails: Sequence[Counts], gpus: Counts) -> _Level:
    here = bins[0]
    wanted = tuple(sorted({tail[0] for tail in tails} - {NOWHERE}))
    yields = frozenset(
        (a, b)
        for a, one in enumerate(tails)
        for b, other in enumerate(tails)
        if a != b and one[0] == other[0] != NOWHERE and _narrower(one[1:], other[1:])
    )
    freedom = [sum(p != NOWHERE for p in tail) for tail in tails]
    groups = tuple(
        tuple(sorted((g for g, tail in enumerate(tails) if tail[0] == profile), key=lambda g: (freedom[g], tails[g])))
        for profile in wanted
    )
    most = packing.packings(here.rules, here.taken, wanted)
    cap = dict.fromkeys(wanted, 0)
    for counts in most:
        for profile, count in zip(wanted, counts, strict=True):
            cap[profile] = max(cap[profile], count)
    alike = _alike(bins, tails)
    must = [g for g, tail in enumerate(tails) if tail[0] != NOWHERE and all(p == NOWHERE for p in tail[alike:])]
    onward = {tail: n for n, tail in enumerate(next_tails)}
    return _Level(
        onward=tuple(onward.get(tail[1:], NOWHERE) for tail in tails),
        wanted=wanted,
        groups=groups,
        yields=yields,
        most=most,
        sizes=tuple((here.rules.profiles[p].compute_slices, here.rules.profiles[p].memory_slices) for p in wanted),
        caps=tuple(cap[tail[0]] + 1 if tail[0] != NOWHERE else 0 for tail in tails),
        must=tuple(sorted(must, key=lambda g: tails[g][0])),
        chained=tuple(all(pair in yields for pair in pairwise(some)) for some in groups),
        tails=tuple(tails),
        gpus=gpus,
    )


def _narrower(one: Counts, other: Counts) -> bool:
    """Whether the other kind can go, with the same profile, wherever the one can."""
    return all(p in (NOWHERE, q) for p, q in zip(one, other, strict=True))


def _alike(bins: Sequence[Bin], tails: Sequence[Counts]) -> int:
    """How many GPUs from the first on cannot be told apart by any kind."""
    count = 1
    while (
        count < len(bins)
        and bins[count].rules is bins[0].rules
        and bins[count].taken == bins[0].taken
        and all(tail[count] == tail[0] for tail in tails)
    ):
        count += 1
    return count


def _choices(level: _Level, left: Counts) -> tuple[Counts, ...]:
    """How many of each group to place here: every way that can be part of a solution, the fullest first."""
    seen = tuple(map(min, left, level.caps))
    known = level.choices.get(seen)
    if known is None:
        known = level.choices[seen] = tuple(_new_choices(level, seen))
    return known


def _new_choices(level: _Level, left: Counts) -> Iterator[Counts]:
    available = tuple(sum(left[g] for g in groups) for groups in level.groups)
    clipped = {tuple(map(min, counts, available)) for counts in level.most}
    kept = packing.undominated(clipped, level.sizes)
    must = next((g for g in level.must if left[g]), None)
    for counts in kept:
        parts = [
            [_in_turn(groups, left, count)] if chained else _divisions(level, groups, left, count)
            for groups, chained, count in zip(level.groups, level.chained, counts, strict=True)
        ]
        for division in product(*parts):
            choice = [0] * len(left)
            for part in division:
                for group, count in part:
                    choice[group] = count
            if must is None or choice[must]:
                yield tuple(choice)


def _in_turn(groups: Sequence[int], left: Counts, count: int) -> tuple[tuple[int, int], ...]:
    """Take `count` jobs from the groups, each when the ones before it are used up."""
    taken: list[tuple[int, int]] = []
    for group in groups:
        taken.append((group, min(left[group], count)))
        count -= taken[-1][1]
    return tuple(taken)


def _divisions(level: _Level, groups: Sequence[int], left: Counts, count: int) -> list[tuple[tuple[int, int], ...]]:
    """The ways to take `count` jobs of one profile from several groups, where a group that yields to none goes first."""
    found: list[tuple[tuple[int, int], ...]] = []

    def extend(n: int, count: int, taken: tuple[tuple[int, int], ...]) -> None:
        if n == len(groups):
            if count == 0:
                found.append(taken)
            return
        group = groups[n]
        blocked = any(left[a] > number and (a, group) in level.yields for a, number in taken)
        for number in range(0 if blocked else min(left[group], count), -1, -1):
            extend(n + 1, count - number, (*taken, (group, number)))

    extend(0, count, ())
    return found


def _rest(level: _Level, left: Counts, choice: Counts, size: int) -> Counts | None:
    """What is left for the next GPU, or nothing where some of it can go to no other."""
    rest = [0] * size
    for group, have, placed in zip(level.onward, left, choice, strict=True):
        if group != NOWHERE:
            rest[group] += have - placed
        elif have > placed:
            return None
    return tuple(rest)
