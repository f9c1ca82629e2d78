"""What fits on one GPU together: maximal packings of profiles in its free memory slices, and the layout that spoils least.

The rules are NVML's (nvml.h) and the MIG User Guide's: an instance occupies one of its profile's possible placements,
compute slices add up to those of the GPU, a profile exists at most `max_instances` times, `+me` once per GPU whatever its
size, and beside `+me.all` only `-me` profiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from migctl.core.gpu.mig import Placement, Profile

Counts = tuple[int, ...]
"""How many of each, in an order that the context names."""

NOWHERE: Final = -1
"""Stands for a profile on a GPU where a job is not allowed."""
_BITS: Final = 6
"""Width of one count in a packed number: up to 31 of a profile and a guard bit; the widest GPU known has 12 memory slices."""
_FIELD: Final = (1 << _BITS) - 1
_GUARD: Final = 1 << (_BITS - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """The placement rules of one GPU product under one driver, in numbers that are quick to compare."""

    profiles: tuple[Profile, ...]
    """Largest first; everywhere here a profile is its position in this order."""
    compute_slices: int
    memory_slices: int
    spots: tuple[tuple[tuple[int, Placement], ...], ...]
    """Of each profile: the bits of the memory slices that a possible placement takes, and the placement; ascending."""
    plain: tuple[int, ...]
    """Profiles without an attribute."""

    def position(self, profile_id: int) -> int | None:
        """Where the profile of this id stands in `profiles`."""
        return next((n for n, profile in enumerate(self.profiles) if profile.id == profile_id), None)


@dataclass(frozen=True, slots=True)
class Used:
    """What is taken of a GPU."""

    mask: int
    """Bit n = memory slice n."""
    compute_slices: int
    counts: Counts
    """Instances of each profile of the grid."""


@lru_cache(maxsize=256)
def grid(profiles: tuple[Profile, ...]) -> Grid:
    """The rules that a GPU's profiles make."""
    usable = (profile for profile in profiles if profile.placements)
    ordered = tuple(
        sorted(usable, key=lambda p: (-p.compute_slices, -p.memory_slices, bool(p.attribute), p.id, p.name))
    )
    return Grid(
        profiles=ordered,
        compute_slices=max((profile.compute_slices for profile in ordered), default=0),
        memory_slices=max((place.end for profile in ordered for place in profile.placements), default=0),
        spots=tuple(tuple((_mask(place), place) for place in sorted(profile.placements)) for profile in ordered),
        plain=tuple(n for n, profile in enumerate(ordered) if not profile.attribute),
    )


def used(rules: Grid, instances: Iterable[tuple[Placement, int]]) -> Used:
    """Add up instances, given as placement and profile id.

    An unknown profile counts with the most compute slices that any profile of its size has: rather too many than an instance
    that the driver then refuses.
    """
    mask = compute = 0
    counts = [0] * len(rules.profiles)
    for place, profile_id in instances:
        mask |= _mask(place)
        known = rules.position(profile_id)
        if known is not None:
            counts[known] += 1
            compute += rules.profiles[known].compute_slices
        else:
            compute += max((p.compute_slices for p in rules.profiles if p.memory_slices == place.size), default=0)
    return Used(mask, compute, tuple(counts))


@lru_cache(maxsize=4096)
def packings(rules: Grid, taken: Used, wanted: Counts) -> tuple[Counts, ...]:
    """All maximal packings of some profiles beside what is taken, the fullest first.

    Args:
        rules: the GPU's.
        taken: what lies there already.
        wanted: the profiles to pack, as ascending positions in `rules.profiles`.

    Returns:
        How many of each wanted profile; nothing can be added to any of them, and everything that fits is part of one.
    """
    if not wanted:
        return ((),)
    shift = {profile: n * _BITS for n, profile in enumerate(wanted)}
    top = len(wanted) * _BITS
    moves = _moves(rules, taken, wanted, shift)
    limit = rules.compute_slices - taken.compute_slices
    reached: list[set[int]] = [set() for _ in range(rules.memory_slices + 1)]
    reached[0].add(0)
    for start in range(rules.memory_slices):
        here = reached[start]
        reached[start + 1] |= here
        for end, step, compute, low, cap, excluded in moves.get(start, ()):
            there = reached[end]
            for packing in here:
                if (packing >> low & _FIELD) < cap and not packing & excluded and (packing >> top) + compute <= limit:
                    there.add(packing + step)
    found = {tuple(packing >> shift[profile] & _FIELD for profile in wanted) for packing in reached[-1]}
    return undominated(found, [(rules.profiles[p].compute_slices, rules.profiles[p].memory_slices) for p in wanted])


def undominated(found: Iterable[Counts], sizes: Sequence[tuple[int, int]]) -> tuple[Counts, ...]:
    """Those that no other one contains, the fullest first.

    Fullest: most compute slices, then most memory slices, then most of the first profiles.

    Args:
        found: numbers of some profiles, largest profile first.
        sizes: compute slices and memory slices of these profiles.
    """
    top = len(sizes) * _BITS
    body = (1 << top) - 1
    guards = sum(_GUARD << n for n in range(0, top, _BITS))
    steps = [
        (compute << top + 2 * _BITS + 4) + (memory << top) + (1 << top - _BITS * (n + 1))
        for n, (compute, memory) in enumerate(sizes)
    ]
    # One number holds a packing: its low fields are compared at once, and a packing that contains another is the greater number.
    packed = {sum(map(int.__mul__, counts, steps)): counts for counts in found}
    kept: list[int] = []
    result: list[Counts] = []
    for number in sorted(packed, reverse=True):
        fields = number & body
        if all((other - fields) & guards != guards for other in kept):
            kept.append(fields | guards)
            result.append(packed[number])
    return tuple(result)


def fits(rules: Grid, taken: Used, wanted: Counts, counts: Counts) -> bool:
    """Whether so many of the wanted profiles fit together beside what is taken."""
    return any(all(map(int.__le__, counts, most)) for most in packings(rules, taken, wanted))


def layout(rules: Grid, taken: Used, wanted: Counts, counts: Counts) -> tuple[tuple[int, Placement], ...]:
    """The placements of a packing that leave the largest future choice, ascending, each with its profile.

    The best leaves, in this order: most compute slices that can still be used, the largest free block of memory slices, most
    possible placements of single instances; then the smallest profile at the lowest start.

    Raises:
        ValueError: they do not fit together; ask `fits` first.
    """
    after = [*taken.counts]
    for profile, count in zip(wanted, counts, strict=True):
        after[profile] += count
    compute = taken.compute_slices + sum(
        rules.profiles[p].compute_slices * n for p, n in zip(wanted, counts, strict=True)
    )
    left = rules.compute_slices - compute
    open_to_more = [
        p
        for p in rules.plain
        if rules.profiles[p].compute_slices <= left and after[p] < rules.profiles[p].max_instances
    ]
    scores: dict[int, tuple[int, int, int]] = {}
    best: tuple[tuple[int, int, int], list[tuple[int, int, int]]] | None = None
    items = [profile for profile, count in zip(wanted, counts, strict=True) for _ in range(count)]
    if left < 0 or not fits(rules, taken, wanted, counts):
        raise ValueError(f"{counts} of {[rules.profiles[p].name for p in wanted]} do not fit together")
    for mask, spots in layouts(rules, items, taken.mask):
        score = scores.get(mask)
        if score is None:
            score = scores[mask] = spoilt(rules, mask, left, open_to_more)
        if best is None or score <= best[0]:
            key = sorted((start, -profile, index) for profile, index, start in spots)
            if best is None or (score, key) < best:
                best = score, key
    assert best is not None  # `fits` said so
    return tuple((-profile, rules.spots[-profile][index][1]) for _, profile, index in best[1])


def could_add(rules: Grid, taken: Used) -> tuple[Profile, ...]:
    """The profiles of which one more fits, largest first."""
    return tuple(profile for n, profile in enumerate(rules.profiles) if fits(rules, taken, (n,), (1,)))


def _mask(place: Placement) -> int:
    return ((1 << place.size) - 1) << place.start


def _moves(
    rules: Grid, taken: Used, wanted: Counts, shift: dict[int, int]
) -> dict[int, list[tuple[int, int, int, int, int, int]]]:
    """By first memory slice: end, what is added to the packed number, compute slices, field, most of it, fields that forbid it."""
    top = len(wanted) * _BITS
    kinds = [rules.profiles[p].attribute for p in wanted]
    present = {rules.profiles[n].attribute for n, count in enumerate(taken.counts) if count}
    moves: dict[int, list[tuple[int, int, int, int, int, int]]] = {}
    for profile, kind in zip(wanted, kinds, strict=True):
        if any(_exclude(kind, other) for other in present):
            continue
        excluded = sum(_FIELD << shift[p] for p, other in zip(wanted, kinds, strict=True) if _exclude(kind, other))
        compute = rules.profiles[profile].compute_slices
        cap = rules.profiles[profile].max_instances - taken.counts[profile]
        for mask, place in rules.spots[profile]:
            if not mask & taken.mask:
                step = (1 << shift[profile]) + (compute << top)
                moves.setdefault(place.start, []).append((place.end, step, compute, shift[profile], cap, excluded))
    return moves


def _exclude(one: str, other: str) -> bool:
    """Whether two instances of these attributes cannot be on one GPU (nvml.h, comments at REV1 and ALL_ME)."""
    return (
        (one == "+me" and other == "+me")
        or (one == "+me.all" and other != "-me")
        or (other == "+me.all" and one != "-me")
    )  # fmt: skip


def layouts(rules: Grid, items: list[int], mask: int) -> Iterator[tuple[int, list[tuple[int, int, int]]]]:
    """Every way to place these profiles: taken memory slices, and (profile, index of its placement, start); equal ones ascend."""
    chosen: list[tuple[int, int, int]] = []

    def extend(n: int, mask: int, first: int) -> Iterator[tuple[int, list[tuple[int, int, int]]]]:
        if n == len(items):
            yield mask, chosen
            return
        spots = rules.spots[items[n]]
        equal = n + 1 < len(items) and items[n + 1] == items[n]
        for index in range(first, len(spots)):
            bits, place = spots[index]
            if not bits & mask:
                chosen.append((items[n], index, place.start))
                yield from extend(n + 1, mask | bits, index + 1 if equal else 0)
                chosen.pop()

    return extend(0, mask, 0)


def spoilt(rules: Grid, mask: int, left: int, profiles: Sequence[int]) -> tuple[int, int, int]:
    """How little choice a layout leaves; smaller is better (see `layout`)."""
    sums = [1] + [0] * rules.memory_slices
    starts: dict[int, list[tuple[int, int]]] = {}
    places = 0
    for profile in profiles:
        for bits, place in rules.spots[profile]:
            if not bits & mask:
                places += 1
                starts.setdefault(place.start, []).append((place.end, rules.profiles[profile].compute_slices))
    block = run = 0
    for start in range(rules.memory_slices):
        sums[start + 1] |= sums[start]
        for end, compute in starts.get(start, ()):
            sums[end] |= sums[start] << compute
        run = 0 if mask >> start & 1 else run + 1
        block = max(block, run)
    usable = (sums[-1] & ((1 << left + 1) - 1)).bit_length() - 1
    return -usable, -block, -places
