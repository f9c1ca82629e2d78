"""The smallest set of jobs that cannot run at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from migctl.core.cover import Cover
from migctl.core.packing import Counts

SETS_TRIED: Final = 4000
"""Most sets of one size that are examined; a plan of seven jobs has at most 35."""


def smallest_conflict(cover: Cover, counts: Counts) -> Counts:
    """The smallest part of a demand that does not fit, given one that does not.

    Jobs are first taken away one kind after another as long as the rest still does not fit; what remains is minimal: without any of
    its jobs it fits. Then every set with one job less is tried, and so on downwards, which makes it the smallest of all. Where there
    are more than `SETS_TRIED` sets of one size (large plans of many kinds), it stays with the minimal one.

    Returns:
        How many of each kind.
    """
    best = min(
        (_reduced(cover, counts, order) for order in _orders(cover, counts)),
        key=lambda found: (sum(found), _largest(found)),
    )
    known: list[Counts] = []
    while True:
        smaller = _conflict_of_size(cover, counts, sum(best) - 1, known)
        if smaller is None:
            return best
        best = _reduced(cover, smaller, range(len(counts)))


def _orders(cover: Cover, counts: Counts) -> Iterator[tuple[int, ...]]:
    """Small kinds away first leaves few large jobs; large ones away first finds conflicts among the small."""
    kinds = [n for n, count in enumerate(counts) if count]
    large_first = tuple(sorted(kinds, key=lambda n: cover.kinds[n]))
    yield large_first[::-1]
    yield large_first
    for kind in kinds:
        yield (*(n for n in large_first[::-1] if n != kind), kind)


def _largest(counts: Counts) -> tuple[int, ...]:
    return tuple(-count for count in counts)


def _reduced(cover: Cover, counts: Counts, order: Iterator[int] | tuple[int, ...] | range) -> Counts:
    """Take away as many of each kind as the conflict survives, in this order of kinds."""
    left = list(counts)
    for kind in order:
        low, high = 0, left[kind]  # the conflict survives with `high` of this kind; fewer jobs never conflict more
        while low < high:
            middle = (low + high) // 2
            left[kind] = middle
            if cover.solve(tuple(left)) is None:
                high = middle
            else:
                low = middle + 1
        left[kind] = high
    return tuple(left)


def _conflict_of_size(cover: Cover, counts: Counts, size: int, fitting: list[Counts]) -> Counts | None:
    """A set of this size that does not fit; nothing where all fit, or where there are too many to try."""
    tried = 0
    for candidate in _parts(counts, size):
        tried += 1
        if tried > SETS_TRIED:
            return None
        if any(all(map(int.__le__, candidate, known)) for known in fitting):
            continue
        if cover.solve(candidate) is None:
            return candidate
        fitting.append(_extended(cover, candidate, counts))
    return None


def _extended(cover: Cover, fitting: Counts, counts: Counts) -> Counts:
    """A maximal part of the demand that fits and contains this one: it answers for all its own parts."""
    most = list(fitting)
    for kind, count in enumerate(counts):
        low, high = most[kind], count
        while low < high:
            middle = (low + high + 1) // 2
            most[kind] = middle
            if cover.solve(tuple(most)) is not None:
                low = middle
            else:
                high = middle - 1
        most[kind] = low
    return tuple(most)


def _parts(counts: Counts, size: int) -> Iterator[Counts]:
    """All ways to take `size` jobs, many of the first kinds first."""
    if not counts:
        if size == 0:
            yield ()
        return
    rest = sum(counts[1:])
    for number in range(min(counts[0], size), max(0, size - rest) - 1, -1):
        for tail in _parts(counts[1:], size - number):
            yield (number, *tail)
