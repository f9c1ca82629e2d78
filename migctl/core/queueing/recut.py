"""Where new instances go on one GPU on which ended jobs left theirs: as few of those as possible are destroyed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from migctl.core.gpu.mig import Placement
from migctl.core.gpu.packing import Counts, Grid, Used, fits, layouts, spoilt


@dataclass(frozen=True, slots=True)
class Seat:
    """One new instance, or one taken over."""

    profile: int
    """Position in the rules."""
    placement: Placement
    spare: int | None = None
    """Number of the spare instance that it takes over."""


@dataclass(frozen=True, slots=True)
class Recut:
    """What becomes of one GPU."""

    seats: tuple[Seat, ...]
    """Ascending by start."""
    destroyed: tuple[int, ...]
    """Numbers of the spare instances that have to go first; ascending."""


@lru_cache(maxsize=4096)
def recut(rules: Grid, taken: Used, spares: tuple[tuple[int, Placement, bool], ...], items: Counts) -> Recut | None:
    """The best places for some profiles beside what is taken; nothing if they do not fit.

    The best destroys the fewest spare instances, then takes over the most, then leaves the largest future choice
    (`packing.layout`), then lies lowest.

    Args:
        rules: of the GPU.
        taken: what stays.
        spares: instances that may be taken over or destroyed: profile, placement, and whether it can be taken over.
        items: the profiles to place, ascending, one entry each.
    """
    wanted = tuple(dict.fromkeys(items))
    if not fits(rules, taken, wanted, tuple(items.count(profile) for profile in wanted)):
        return None
    counts = [*taken.counts]
    for profile in items:
        counts[profile] += 1
    compute = taken.compute_slices + sum(rules.profiles[profile].compute_slices for profile in items)
    left = rules.compute_slices - compute
    open_to_more = [
        p
        for p in rules.plain
        if rules.profiles[p].compute_slices <= left and counts[p] < rules.profiles[p].max_instances
    ]
    whole = {(profile, place): n for n, (profile, place, usable) in enumerate(spares) if usable}
    masks = [((1 << place.size) - 1) << place.start for _, place, _ in spares]
    scores: dict[int, tuple[int, int, int]] = {}
    best: tuple[tuple[int, ...], list[tuple[int, int]], Recut] | None = None
    for mask, spots in layouts(rules, list(items), taken.mask):
        seats = [(profile, rules.spots[profile][index][1]) for profile, index, _ in spots]
        over = {whole[seat] for seat in seats if seat in whole}
        gone = _destroyed(rules, Used(mask, compute, tuple(counts)), spares, masks, over)
        score = scores.get(mask)
        if score is None:
            score = scores[mask] = spoilt(rules, mask, left, open_to_more)
        key = (len(gone), -len(over), *score)
        if best is not None and key > best[0]:
            continue
        lowest = sorted((place.start, -profile) for profile, place in seats)
        if best is None or (key, lowest) < best[:2]:
            ordered = sorted(seats, key=lambda seat: (seat[1], seat[0]))
            best = key, lowest, Recut(tuple(Seat(p, at, whole.get((p, at))) for p, at in ordered), tuple(gone))
    return best[2] if best is not None else None


def _destroyed(
    rules: Grid, after: Used, spares: Sequence[tuple[int, Placement, bool]], masks: Sequence[int], over: set[int]
) -> list[int]:
    """The spare instances that cannot stay beside the new layout: in the way, or too many of their slices or their profile."""
    gone: list[int] = []
    left = [n for n in range(len(spares)) if n not in over]
    # Those with the fewest slices stay first: of equal damage the fewest are destroyed.
    for n in sorted(left, key=lambda n: (rules.profiles[spares[n][0]].compute_slices, n)):
        profile = spares[n][0]
        if masks[n] & after.mask or not fits(rules, after, (profile,), (1,)):
            gone.append(n)
            continue
        counts = list(after.counts)
        counts[profile] += 1
        slices = after.compute_slices + rules.profiles[profile].compute_slices
        after = Used(after.mask | masks[n], slices, tuple(counts))
    return sorted(gone)
