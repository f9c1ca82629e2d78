"""Which GPU takes how many jobs of each kind, or the certainty that no division exists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from migctl.core.gpu.bounds import Bin, Weighting, classes, reach, smallest_too_heavy, tightest, weightings
from migctl.core.gpu.packing import NOWHERE, Counts, fits
from migctl.core.gpu.search import OutOfPatience, Search

_FIRST_PATIENCE: Final = 8
"""States that may fail before weights are computed: most questions are answered by then."""
_PATIENCE: Final = 100
"""States that may fail in one order of the GPUs before another order is tried; it doubles with each round."""


class Cover:
    """A set of GPUs and of kinds of jobs, ready for questions.

    A search that goes wrong early can take very long, and which order of the GPUs avoids that is not known beforehand. So several
    orders take turns with growing patience; each alone would come to the end. The order given is tried first.

    Args:
        bins: the GPUs in the order in which they are to be filled.
        kinds: of each kind, its profile on each GPU (position in that GPU's rules, or `NOWHERE`).
    """

    __slots__ = ("_bins", "_class_of", "_reaches", "_searches", "_weightings", "kinds")

    def __init__(self, bins: Sequence[Bin], kinds: Sequence[Counts]) -> None:
        self.kinds = tuple(kinds)
        self._bins = tuple(bins)
        self._class_of = classes(self._bins)
        self._reaches = tuple(reach(kind, range(len(self._bins)), self._class_of) for kind in self.kinds)
        self._searches: dict[tuple[int, ...], Search] = {}
        self._weightings: tuple[Weighting, ...] | None = None

    def solve(self, counts: Counts, patience: int | None = None) -> tuple[Counts, ...] | None:
        """Divide so many jobs of each kind among the GPUs.

        Args:
            counts: how many of each kind.
            patience: how many states may fail in each order of the GPUs; `None`: as many as it takes.

        Returns:
            Of each GPU, how many jobs of each kind; nothing if there is no way.

        Raises:
            OutOfPatience: neither is known yet; never where `patience` is `None`.
        """
        if len(self._bins) == 1:
            return self._solve_alone(counts)
        given = tuple(range(len(self._bins)))
        try:
            return self._search(given).solve(counts, _FIRST_PATIENCE)
        except OutOfPatience:
            pass
        pool = tightest(self._all_weightings(), self._reaches, given, counts)
        if pool is None:
            return None
        allowed = _PATIENCE
        while patience is None or allowed <= patience:
            for order in dict.fromkeys([given, self._narrow_first(), given[::-1]]):
                try:
                    found = self._search(order).solve(counts, allowed, pool)
                except OutOfPatience:
                    continue
                return tuple(found[order.index(n)] for n in given) if found is not None else None
            allowed *= 2
        raise OutOfPatience

    def _solve_alone(self, counts: Counts) -> tuple[Counts, ...] | None:
        """On one GPU there is nothing to divide: its maximal packings tell at once."""
        (one,) = self._bins
        wanted = tuple(sorted({kind[0] for kind in self.kinds} - {NOWHERE}))
        each = dict.fromkeys(wanted, 0)
        for (profile,), count in zip(self.kinds, counts, strict=True):
            if profile != NOWHERE:
                each[profile] += count
            elif count:
                return None
        return (counts,) if fits(one.rules, one.taken, wanted, tuple(each.values())) else None

    def too_heavy(self, counts: Counts) -> Counts | None:
        """The fewest jobs of these that can be proved not to fit by what they weigh; nothing where no such proof is known."""
        return smallest_too_heavy(self._all_weightings(), self._reaches, range(len(self._bins)), counts)

    def _all_weightings(self) -> tuple[Weighting, ...]:
        if self._weightings is None:
            self._weightings = tuple(weightings(self._bins, self.kinds))
        return self._weightings

    def _narrow_first(self) -> tuple[int, ...]:
        """GPUs that few kinds can use come first: there is least to go wrong."""
        return tuple(sorted(range(len(self._bins)), key=lambda n: sum(kind[n] != NOWHERE for kind in self.kinds)))

    def _search(self, order: tuple[int, ...]) -> Search:
        search = self._searches.get(order)
        if search is None:
            bins = [self._bins[n] for n in order]
            search = self._searches[order] = Search(
                bins, [tuple(kind[n] for n in order) for kind in self.kinds], order, self._class_of
            )
        return search
