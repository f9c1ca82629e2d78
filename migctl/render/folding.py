"""Many equal rows shown as one, so that a sweep of a hundred jobs still fits a screen."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")

FOLD_ABOVE = 24
"""Up to this number every row is shown."""
FOLDED_ROWS = 20
"""Rows that remain where even folding leaves too many."""


@dataclass(frozen=True, slots=True)
class Group(Generic[Item]):
    """Rows that are shown as one."""

    members: tuple[Item, ...]

    @property
    def first(self) -> Item:
        """What stands for them."""
        return self.members[0]

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.members)


def fold(
    rows: Sequence[Item], key: Callable[[Item], Hashable], *, everything: bool, above: int = FOLD_ABOVE
) -> list[Group[Item]]:
    """One group a row, or where there are too many, rows of equal keys together, in the order of their first member."""
    if everything or len(rows) <= above:
        return [Group((row,)) for row in rows]
    groups: dict[Hashable, list[Item]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return [Group(tuple(members)) for members in groups.values()]


def limited(
    groups: Sequence[Group[Item]], *, everything: bool, above: int = FOLD_ABOVE, most: int = FOLDED_ROWS
) -> tuple[list[Group[Item]], int]:
    """The groups that are shown, and how many rows the others stand for."""
    if everything or sum(group.size for group in groups) <= above or len(groups) <= most:
        return list(groups), 0
    return list(groups[:most]), sum(group.size for group in groups[most:])


def names(members: Sequence[str], most: int = 4) -> str:
    """`a, b, c and 5 more`."""
    if len(members) <= most:
        return ", ".join(members)
    return f"{', '.join(members[: most - 1])} and {len(members) - most + 1} more"


def span(values: Sequence[int]) -> str:
    """`4`, or `3–7` where they differ; nothing for none."""
    if not values:
        return ""
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low}–{high}"
