"""Jobs that may be one Kubernetes Job although they have several keys in the plan, so that their order needs no keeper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from migctl.core.choices import Strategy
from migctl.core.cluster.clusterjobs import Group
from migctl.core.plan import Plan

ALL_NAME = "jobs"


def in_one(plan: Plan, groups: Sequence[Group]) -> tuple[Group, ...]:
    """All groups as one, in their order, where only so many may run at once and all ask for the same; else as they are.

    An Indexed Job keeps to its `parallelism` and goes by index; several Jobs know nothing of each other.
    """
    limited = plan.strategy is Strategy.SEQUENTIAL or plan.max_parallel is not None
    if not limited or len(groups) < 2 or len({_asked(group) for group in groups}) > 1:
        return tuple(groups)
    members = tuple(job for group in groups for job in group.members)
    return (replace(groups[0], name=ALL_NAME, members=members),)


def _asked(group: Group) -> Group:
    """Without what may differ inside an Indexed Job: its script knows each index's command and variables."""
    first = group.first
    bare = replace(
        first,
        name="",
        origin="",
        where=None,
        command=None,
        entrypoint=() if first.entrypoint is not None else None,
        environment=(),
    )
    return replace(group, name="", members=(bare,))
