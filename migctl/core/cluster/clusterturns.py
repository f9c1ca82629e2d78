"""Which arrays wait for which: the plan's needs, stages and one-after-another, as a cluster's dependencies."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from migctl.core.choices import Strategy
from migctl.core.cluster.clusterjobs import Group
from migctl.core.plan import Plan


@dataclass(frozen=True, slots=True)
class Link:
    """What a group waits for."""

    group: str
    index: int | None = None
    """A single member; `None`: all of them."""
    success: bool = True
    """They must have succeeded; else it is enough that they have ended."""
    there: bool = False
    """It is no group of these: `group` is the name of a single job that the cluster has already."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A group, and what it waits for; every group of a list of turns comes after those it waits for."""

    group: Group
    after: tuple[Link, ...] = ()
    at_once: int | None = None
    """How many members may run at the same time; `None`: all."""


def turns(plan: Plan, groups: Sequence[Group]) -> tuple[Turn, ...]:
    """All groups in an order in which they can be handed over."""
    places = {job.name: (group.name, n, len(group.members)) for group in groups for n, job in enumerate(group.members)}
    sequential = plan.strategy is Strategy.SEQUENTIAL
    at_once = 1 if sequential else plan.max_parallel
    made: list[Turn] = []
    for group in _ordered(groups):
        after = _needs(group, places)
        if group.first.stage is not None:
            before = [g for g in groups if g.first.stage is not None and g.first.stage < group.first.stage]
            latest = max((g.first.stage or 0 for g in before), default=None)
            after += [Link(g.name, success=False) for g in before if g.first.stage == latest]
        if sequential and made:
            after.append(Link(made[-1].group.name, success=False))
        whole = at_once if group.array and at_once is not None and at_once < len(group.members) else None
        made.append(Turn(group, tuple(dict.fromkeys(after)), whole))
    return tuple(made)


def behind(turns: Sequence[Turn], plan: Plan, active: Collection[str]) -> tuple[Turn, ...]:
    """The same turns, which also wait for jobs that the cluster has already.

    Args:
        turns: of jobs that are to be handed over.
        plan: all jobs.
        active: those handed over before that have not ended.
    """
    if not active:
        return tuple(turns)
    sequential = plan.strategy is Strategy.SEQUENTIAL
    stages = {job.name: job.stage for job in plan.jobs}
    found: list[Turn] = []
    for number, turn in enumerate(turns):
        first = turn.group.first
        links = [Link(name, there=True) for name in first.needs if name in active]
        if sequential and number == 0:
            links += [Link(name, success=False, there=True) for name in active]
        elif first.stage is not None:
            before = (name for name in active if (stage := stages.get(name)) is not None and stage < first.stage)
            links += [Link(name, success=False, there=True) for name in before]
        found.append(replace(turn, after=tuple(dict.fromkeys((*turn.after, *links)))))
    return tuple(found)


def _needs(group: Group, places: dict[str, tuple[str, int, int]]) -> list[Link]:
    """One link for a whole group where all of it is needed."""
    wanted: dict[str, list[int]] = {}
    for name in group.first.needs:
        if name not in places:
            continue  # the cluster has it already: see `behind`
        other, index, _ = places[name]
        wanted.setdefault(other, []).append(index)
    sizes = {name: size for name, _, size in places.values()}
    links: list[Link] = []
    for other, indexes in wanted.items():
        whole = len(indexes) == sizes[other]
        links += [Link(other)] if whole else [Link(other, index) for index in indexes]
    return links


def _ordered(groups: Sequence[Group]) -> list[Group]:
    """Stages in their order, needs before those who need them, more urgent ones first, else the plan's order."""
    left = sorted(groups, key=lambda g: (g.first.stage if g.first.stage is not None else -1, -g.first.priority))
    done: list[Group] = []
    names: set[str] = set()
    every = {job.name for group in groups for job in group.members}
    while left:
        ready = next((g for g in left if set(g.first.needs) & every <= names), left[0])
        left.remove(ready)
        done.append(ready)
        names |= {job.name for job in ready.members}
    return done
