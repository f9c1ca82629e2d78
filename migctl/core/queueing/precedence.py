"""The order that `needs` and `stage` ask for, and where it contradicts itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Needs = Mapping[str, Sequence[str]]
"""For each job the jobs that must have succeeded before; names that are no key have no needs."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """The jobs with those that each needs before it, as far as there is such an order."""

    names: tuple[str, ...]
    cycles: tuple[tuple[str, ...], ...]
    """Each begins and ends with the same job; those that share a job with an earlier one may be left out."""


@dataclass(frozen=True, slots=True)
class Late:
    """A job that waits for a later stage than its own, which does not begin before it has ended."""

    name: str
    stage: int
    needs: str
    """The job of the later stage."""
    needs_stage: int
    through: str
    """The need of its own that leads there; `needs` itself where it is named directly."""


def ordered(needs: Needs) -> Ordered:
    """Jobs after what they need, otherwise in the given order; without recursion, since a chain may have 10,000 links."""
    done: set[str] = set()
    names: list[str] = []
    cycles: list[tuple[str, ...]] = []
    for first in needs:
        if first in done:
            continue
        path = {first: iter(needs[first])}
        while path:
            name, rest = next(reversed(path.items()))
            for other in rest:
                if other in path:
                    links = list(path)
                    cycles.append((*links[links.index(other) :], other))
                elif other not in done and other in needs:
                    path[other] = iter(needs[other])
                    break
            else:
                del path[name]
                done.add(name)
                names.append(name)
    return Ordered(tuple(names), tuple(cycles))


def late(needs: Needs, order: Sequence[str], stages: Mapping[str, int]) -> tuple[Late, ...]:
    """Jobs that need, directly or through others without a stage, a job of a later stage.

    Args:
        needs: as for `ordered`.
        order: its names, without a cycle.
        stages: of the jobs that have one.
    """
    latest: dict[str, tuple[int, str]] = {}
    """For each job the latest stage among itself and what it needs, and whose that is."""
    found: list[Late] = []
    for name in order:
        before = max(
            ((*latest[other], other) for other in needs[name] if other in latest), default=None, key=lambda of: of[0]
        )
        own = stages.get(name)
        if own is not None:
            if before is not None and before[0] > own:
                found.append(Late(name, own, before[1], before[0], before[2]))
            latest[name] = own, name
        elif before is not None:
            latest[name] = before[:2]
    return tuple(found)
