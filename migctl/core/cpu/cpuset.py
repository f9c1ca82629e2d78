"""An immutable set of logical CPUs, read and written in Linux' list format (`0-3,8`)."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet


class CpuSet(frozenset[int]):
    """Logical CPU ids. Set algebra is `frozenset`'s; `str()` is the Linux list format (cpuset(7), "List format")."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> CpuSet:
        """Read `"0-3,8"`; the empty string is the empty set.

        Raises:
            ValueError: not a list of CPU ids or ascending ranges.
        """
        cpus: set[int] = set()
        if not text.strip():
            return cls()
        for part in text.strip().split(","):
            low, dash, high = part.strip().partition("-")
            if not low.isascii() or not low.isdigit() or (dash and not (high.isascii() and high.isdigit())):
                raise ValueError(f"{part.strip()!r} is not a CPU id or a range like 0-3")
            first, last = int(low), int(high) if dash else int(low)
            if last < first:
                raise ValueError(f"the CPU range {part.strip()!r} runs backwards")
            if last >= 65536:
                raise ValueError(f"CPU {last} is beyond any machine")
            cpus.update(range(first, last + 1))
        return cls(cpus)

    def __str__(self) -> str:
        ranges: list[str] = []
        run: list[int] = []
        for cpu in [*sorted(self), -1]:
            if run and cpu != run[-1] + 1:
                ranges.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
                run = []
            run.append(cpu)
        return ",".join(ranges)

    def __repr__(self) -> str:
        return f"CpuSet({str(self)!r})"

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(frozenset.__iter__(self)))

    def __and__(self, other: AbstractSet[object]) -> CpuSet:
        return CpuSet(frozenset.__and__(self, other))

    def __or__(self, other: AbstractSet[int]) -> CpuSet:  # type: ignore[override]  # only CPUs go into a set of CPUs
        return CpuSet(frozenset.__or__(self, other))

    def __sub__(self, other: AbstractSet[object]) -> CpuSet:
        return CpuSet(frozenset.__sub__(self, other))
