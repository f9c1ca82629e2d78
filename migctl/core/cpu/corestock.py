"""The cores that a run has free while one decision is made, counted: which ones a job gets is `core/cpu/cpus.py`'s business."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.queueing.turn import Wish


class CoreStock:
    """Free cores by scope.

    Jobs are let in with the least that they need (`take`); when all are known, the cores are shared out among them (`share`):
    each gets its share or what is free of it, with the least left for each job behind it.

    Args:
        free: by scope; `None`: cores limit nothing.
        cpus: free logical CPUs, for jobs that name theirs.
    """

    def __init__(self, free: Mapping[int, int] | None, cpus: CpuSet) -> None:
        self._free = dict(free) if free is not None else None
        self._cpus = cpus
        self._kept: dict[int, int] = {}

    def enough(self, wish: Wish, scope: int | None, *, kept: bool = True) -> bool:
        """Whether a job can start.

        Args:
            wish: what it needs.
            scope: where; `None`: in any.
            kept: leave alone what is kept for somebody.
        """
        if wish.cpuset is not None:
            return wish.cpuset <= self._cpus
        if self._free is None:
            return True
        return any(
            free - (self._kept.get(n, 0) if kept else 0) >= wish.least_cores
            for n, free in self._free.items()
            if scope is None or n == scope
        )

    def take(self, wish: Wish, scope: int | None) -> None:
        """Let a job in; without a scope where most is free."""
        if wish.cpuset is not None:
            self._cpus -= wish.cpuset
        elif self._free:
            where = scope if scope is not None else max(self._free, key=lambda n: (self._free_in(n), -n))
            self._free[where] = self._free_in(where) - wish.least_cores

    def keep(self, scope: int, cores: int) -> None:
        """Leave so many to somebody who waits."""
        self._kept[scope] = cores

    def keep_cpus(self, cpus: CpuSet) -> None:
        """Leave these logical CPUs to somebody who waits."""
        self._cpus -= cpus

    def share(self, let_in: Sequence[tuple[Wish, int]]) -> list[int]:
        """The cores of each job that was let in, given with its scope, in the same order."""
        if self._free is None:
            return [0] * len(let_in)
        room = {n: free - self._kept.get(n, 0) for n, free in self._free.items()}
        given: list[int] = []
        for wish, scope in let_in:
            if wish.cpuset is not None:
                given.append(0)
                continue
            more = min(max(0, wish.cores - wish.least_cores), max(0, room.get(scope, 0)))
            room[scope] = room.get(scope, 0) - more
            given.append(wish.least_cores + more)
        return given

    def _free_in(self, scope: int) -> int:
        return self._free.get(scope, 0) if self._free is not None else 0
