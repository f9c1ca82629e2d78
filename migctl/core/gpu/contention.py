"""The smallest set of jobs that cannot run at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from migctl.core.gpu.cover import Cover
from migctl.core.gpu.packing import Counts
from migctl.core.gpu.search import OutOfPatience

SETS_TRIED: Final = 35
"""Most sets of one size that are examined; seven jobs have no more than that."""
PATIENCE: Final = 100
"""Failed states after which a question is left open; one GPU never needs as many."""


def smallest_conflict(cover: Cover, counts: Counts) -> Counts:
    """The smallest part of a demand that does not fit, given one that does not.

    It begins with the fewest jobs whose slices or numbers alone prove that they do not fit. From these, kind after kind,
    jobs are taken away as long as the rest still does not fit: without any one of those that remain it fits. Then every set
    with one job less is tried, and so on downwards, which makes it the smallest of all. Large plans of many kinds, with more
    than `SETS_TRIED` sets of one size, keep the minimal one; and where a part would need a long search (`PATIENCE`), its
    jobs stay in.

    Returns:
        How many of each kind.
    """
    large_first = [n for n, count in enumerate(counts) if count]
    best = _reduced(cover, cover.too_heavy(counts) or counts, large_first[::-1])
    known: list[Counts] = []
    while _number_of_parts(counts, sum(best) - 1) <= SETS_TRIED:
        smaller = _conflict_of_size(cover, counts, sum(best) - 1, known)
        if smaller is None:
            break
        best = _reduced(cover, smaller, large_first[::-1])
    return best


def _conflicts(cover: Cover, counts: Counts) -> bool:
    """Whether these are known not to fit."""
    try:
        return cover.solve(counts, PATIENCE) is None
    except OutOfPatience:
        return False


def _reduced(cover: Cover, counts: Counts, order: Sequence[int]) -> Counts:
    """Take away as many of each kind as the conflict survives, in this order of kinds."""
    left = list(counts)
    for kind in order:
        low, high = 0, left[kind]  # the conflict survives with `high` of this kind; fewer jobs never conflict more
        if high and not _conflicts(cover, (*left[:kind], high - 1, *left[kind + 1 :])):
            continue
        while low < high:
            middle = (low + high) // 2
            if _conflicts(cover, (*left[:kind], middle, *left[kind + 1 :])):
                high = middle
            else:
                low = middle + 1
        left[kind] = high
    return tuple(left)


def _conflict_of_size(cover: Cover, counts: Counts, size: int, fitting: list[Counts]) -> Counts | None:
    """A set of this size that does not fit, if there is one."""
    for candidate in _parts(counts, size):
        if any(all(map(int.__le__, candidate, known)) for known in fitting):
            continue
        if _conflicts(cover, candidate):
            return candidate
        fitting.append(candidate)
    return None


def _number_of_parts(counts: Counts, size: int) -> int:
    """How many ways there are to take `size` jobs."""
    ways = [1] + [0] * size
    for count in counts:
        ways = [sum(ways[max(0, n - count) : n + 1]) for n in range(size + 1)]
    return ways[size]


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
