"""Proofs that jobs cannot be divided among GPUs: what they weigh together is more than the GPUs can hold.

Any weighting of the profiles gives a valid proof, since what one GPU holds of it is known exactly (the heaviest maximal packing).
Which weightings succeed is a matter of experience: slices of both kinds, each alone the reason of most conflicts, and counts of
the large profiles; each on all GPUs, and on those to which some jobs are confined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from migctl.core.mig import Profile
from migctl.core.packing import NOWHERE, Counts, Grid, Used, packings

_MOST_AREAS: Final = 24
_TIGHTEST: Final = 16
"""Weightings that the search carries along: those that come nearest to a proof at its start."""


@dataclass(frozen=True, slots=True)
class Bin:
    """One GPU and what is taken of it."""

    rules: Grid
    taken: Used


@dataclass(frozen=True, slots=True)
class Weighting:
    """What jobs weigh that are confined to an area, against what the area's GPUs hold."""

    area: frozenset[int]
    """GPUs, as positions in the whole search."""
    weights: tuple[Counts, ...]
    """Of each GPU: of each profile of its rules."""
    holds: Counts
    """Of each GPU: the most weight it can have, 0 outside the area."""

    def bound(self, first: int, tails: Sequence[Counts]) -> tuple[Counts, int]:
        """From GPU `first` on: the weight of each group (given by its profiles there), and the most weight that fits."""
        return tuple(self._weight(first, tail) for tail in tails), sum(self.holds[first:])

    def reordered(self, order: Sequence[int]) -> Weighting:
        """The same for a search that visits the GPUs in another order."""
        where = {n: position for position, n in enumerate(order)}
        return Weighting(
            frozenset(where[n] for n in self.area),
            tuple(self.weights[n] for n in order),
            tuple(self.holds[n] for n in order),
        )

    def _weight(self, first: int, tail: Counts) -> int:
        lightest = -1
        for n, profile in enumerate(tail, first):
            if profile != NOWHERE:
                if n not in self.area:
                    return 0
                weight = self.weights[n][profile]
                lightest = weight if lightest < 0 else min(lightest, weight)
        return max(lightest, 0)


def weightings(bins: Sequence[Bin], kinds: Sequence[Counts]) -> Iterator[Weighting]:
    """All that are worth a try, given the profile of each kind on each GPU."""
    wanted = [tuple(sorted({kind[n] for kind in kinds} - {NOWHERE})) for n in range(len(bins))]
    profiles = {b.rules.profiles[p]: None for b, want in zip(bins, wanted, strict=True) for p in want}
    regions = areas(kinds)
    for rule in _rules(profiles):
        known: dict[tuple[Grid, Used, Counts], tuple[Counts, int]] = {}
        rows = []
        for one, want in zip(bins, wanted, strict=True):
            key = one.rules, one.taken, want
            if key not in known:
                weight = tuple(rule(profile) for profile in one.rules.profiles)
                most = max(sum(weight[p] * n for p, n in zip(want, packing, strict=True)) for packing in packings(*key))
                known[key] = weight, most
            rows.append(known[key])
        weights = tuple(weight for weight, _ in rows)
        for area in regions:
            yield Weighting(area, weights, tuple(most if n in area else 0 for n, (_, most) in enumerate(rows)))


def tightest(candidates: Iterable[Weighting], kinds: Sequence[Counts], counts: Counts) -> tuple[Weighting, ...] | None:
    """The weightings that come nearest to a proof for so many of each kind; nothing if one of them is a proof."""
    found: list[tuple[float, int, Weighting]] = []
    seen: set[tuple[Counts, int]] = set()
    for number, candidate in enumerate(candidates):
        weights, most = bound = candidate.bound(0, kinds)
        weight = sum(map(int.__mul__, weights, counts))
        if weight > most:
            return None
        if weight and bound not in seen:
            seen.add(bound)
            found.append((-weight / most, number, candidate))
    return tuple(candidate for _, _, candidate in sorted(found, key=lambda one: one[:2])[:_TIGHTEST])


def smallest_too_heavy(candidates: Iterable[Weighting], kinds: Sequence[Counts], counts: Counts) -> Counts | None:
    """The fewest jobs that one of the weightings proves too heavy together, as how many of each kind; nothing if none does."""
    best: Counts | None = None
    for candidate in candidates:
        weights, most = candidate.bound(0, kinds)
        part = [0] * len(counts)
        left = most + 1
        for kind in sorted(range(len(counts)), key=lambda k: (-weights[k], k)):
            if left <= 0 or not weights[kind]:
                break
            part[kind] = min(counts[kind], -(-left // weights[kind]))
            left -= part[kind] * weights[kind]
        if left <= 0 and (best is None or sum(part) < sum(best)):
            best = tuple(part)
    return best


def areas(kinds: Sequence[Counts]) -> tuple[frozenset[int], ...]:
    """Sets of GPUs to which some kinds are confined: those of all kinds together, of each kind, and of two kinds."""
    reach = [frozenset(n for n, p in enumerate(kind) if p != NOWHERE) for kind in kinds]
    single = sorted(set(reach), key=lambda area: (len(area), sorted(area)))
    unions = dict.fromkeys([*single, *(a | b for a, b in combinations(single, 2))])
    return tuple(dict.fromkeys([frozenset().union(*reach), *list(unions)[:_MOST_AREAS]]))


def _rules(profiles: Iterable[Profile]) -> Iterator[Callable[[Profile], int]]:
    """What profiles can weigh: their slices, and 1 for only the larger ones or those of one attribute."""
    profiles = tuple(profiles)
    yield lambda profile: profile.compute_slices
    yield lambda profile: profile.memory_slices
    yield lambda profile: profile.compute_slices + profile.memory_slices
    for compute in sorted({profile.compute_slices for profile in profiles}):
        yield _counted(p for p in profiles if p.compute_slices >= compute)
    for memory in sorted({profile.memory_slices for profile in profiles}):
        yield _counted(p for p in profiles if p.memory_slices >= memory)
    for attribute in sorted({profile.attribute for profile in profiles} - {""}):
        yield _counted(p for p in profiles if p.attribute == attribute)


def _counted(profiles: Iterable[Profile]) -> Callable[[Profile], int]:
    """1 for each of these, 0 for all others."""
    counted = frozenset(profiles)
    return lambda profile: int(profile in counted)
