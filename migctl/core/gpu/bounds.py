"""Proofs that jobs cannot be divided among GPUs: what they weigh together is more than the GPUs can hold.

Any weighting of the profiles gives a valid proof, since what one GPU holds of it is known exactly (the heaviest maximal packing).
Which weightings succeed is a matter of experience: slices of both kinds, each alone the reason of most conflicts, and counts of
the large profiles; each on all GPUs, and on those to which some jobs are confined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import combinations
from operator import or_
from typing import Final

from migctl.core.gpu.mig import Profile
from migctl.core.gpu.packing import NOWHERE, Counts, Grid, Used, packings

_MOST_AREAS: Final = 24
_TIGHTEST: Final = 16
"""Weightings that the search carries along: those that come nearest to a proof at its start."""


@dataclass(frozen=True, slots=True)
class Bin:
    """One GPU and what is taken of it."""

    rules: Grid
    taken: Used


@dataclass(frozen=True, slots=True)
class Reach:
    """Where jobs of one kind can go."""

    gpus: int
    """Bit n = GPU n."""
    sites: tuple[tuple[int, int], ...]
    """The different pairs of the GPU's class (GPUs with equal rules and equal free room) and the profile there."""


@dataclass(frozen=True, slots=True)
class Weighting:
    """What jobs weigh that are confined to an area, against what the area's GPUs hold."""

    area: int
    """Bit n = GPU n."""
    weights: tuple[Counts, ...]
    """Of each class of GPUs: of each profile of its rules."""
    holds: Counts
    """Of each GPU: the most weight it can have, 0 outside the area."""
    lightest: dict[tuple[tuple[int, int], ...], int] = field(compare=False)
    """Sites → the least weight on any of them, as far as asked for; one for all areas with these weights."""

    def bound(self, reaches: Sequence[Reach], gpus: Iterable[int]) -> tuple[Counts, int]:
        """The weight of jobs with these reaches, each on the lightest of its sites, and the most that some GPUs hold."""
        outside = ~self.area
        return (
            tuple([0 if one.gpus & outside else self._lightest(one.sites) for one in reaches]),
            sum(map(self.holds.__getitem__, gpus)),
        )

    def _lightest(self, sites: tuple[tuple[int, int], ...]) -> int:
        known = self.lightest.get(sites)
        if known is None:
            weights = self.weights
            known = self.lightest[sites] = min([weights[c][p] for c, p in sites], default=0)
        return known


def classes(bins: Sequence[Bin]) -> Counts:
    """Of each GPU the number of its class: GPUs with equal rules and equal free room."""
    number: dict[tuple[Grid, Used], int] = {}
    return tuple(number.setdefault((one.rules, one.taken), len(number)) for one in bins)


def reach(kind: Counts, gpus: Sequence[int], class_of: Counts) -> Reach:
    """Where a kind can go, given its profile on each of some GPUs."""
    allowed = [(n, profile) for n, profile in zip(gpus, kind, strict=True) if profile != NOWHERE]
    return Reach(
        sum(1 << n for n, _ in allowed), tuple(dict.fromkeys((class_of[n], profile) for n, profile in allowed))
    )


def weightings(bins: Sequence[Bin], kinds: Sequence[Counts]) -> Iterator[Weighting]:
    """All that are worth a try, given the profile of each kind on each GPU."""
    class_of = classes(bins)
    wanted = [tuple(sorted({kind[n] for kind in kinds} - {NOWHERE})) for n in range(len(bins))]
    profiles = {b.rules.profiles[p]: None for b, want in zip(bins, wanted, strict=True) for p in want}
    of_class = dict(zip(class_of, bins, strict=True))
    regions = _areas([reach(kind, range(len(bins)), class_of).gpus for kind in kinds])
    for rule in _rules(profiles):
        weights = tuple(tuple(map(rule, of_class[number].rules.profiles)) for number in range(len(of_class)))
        known: dict[tuple[int, Counts], int] = {}
        for n, want in zip(class_of, wanted, strict=True):
            if (n, want) not in known:
                mine = [weights[n][p] for p in want]
                most = packings(of_class[n].rules, of_class[n].taken, want)
                known[n, want] = max(sum(map(int.__mul__, mine, packing)) for packing in most)
        holds = [known[n, want] for n, want in zip(class_of, wanted, strict=True)]
        lightest: dict[tuple[tuple[int, int], ...], int] = {}
        for area in regions:
            inside = tuple([most if area >> n & 1 else 0 for n, most in enumerate(holds)])
            yield Weighting(area, weights, inside, lightest)


def tightest(
    candidates: Iterable[Weighting], reaches: Sequence[Reach], gpus: Sequence[int], counts: Counts
) -> tuple[Weighting, ...] | None:
    """The weightings that come nearest to a proof for so many of each kind; nothing if one of them is a proof."""
    found: list[tuple[float, int, Weighting]] = []
    seen: set[tuple[Counts, int]] = set()
    for number, candidate in enumerate(candidates):
        weights, most = bound = candidate.bound(reaches, gpus)
        weight = sum(map(int.__mul__, weights, counts))
        if weight > most:
            return None
        if weight and bound not in seen:
            seen.add(bound)
            found.append((-weight / most, number, candidate))
    return tuple(candidate for _, _, candidate in sorted(found, key=lambda one: one[:2])[:_TIGHTEST])


def smallest_too_heavy(
    candidates: Iterable[Weighting], reaches: Sequence[Reach], gpus: Sequence[int], counts: Counts
) -> Counts | None:
    """The fewest jobs that one of the weightings proves too heavy together, as how many of each kind; nothing if none does."""
    best: Counts | None = None
    for candidate in candidates:
        weights, most = candidate.bound(reaches, gpus)
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


def _areas(reaches: Sequence[int]) -> tuple[int, ...]:
    """Sets of GPUs to which some kinds are confined: those of all kinds together, of each kind, and of two kinds."""
    single = sorted(set(reaches), key=lambda area: (area.bit_count(), area))
    unions = dict.fromkeys([*single, *(a | b for a, b in combinations(single, 2))])
    return tuple(dict.fromkeys([reduce(or_, reaches, 0), *list(unions)[:_MOST_AREAS]]))


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
