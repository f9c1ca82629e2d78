"""What makes Kubernetes objects those of one run of migctl: labels to find them by, and notes of what is in them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from migctl.core.cluster.clusterrun import ClusterRun
from migctl.core.cluster.clusterturns import Link, Turn
from migctl.core.cluster.kubernetes_objects import AFTER, CLAIMS, JOBS, QUEUE, RUN, TOKEN, UNIT
from migctl.core.cluster.kubernetes_turns import Before, encode
from migctl.core.plan import Plan
from migctl.render.kubernetes_values import label_value, too_many

_MOST_CHARACTERS = 250_000
"""Of an object's annotations together an API server takes 256 KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What an export has nothing of, as that is nobody's."""

    labels: Mapping[str, str]
    """Of everything that is made, pods included."""
    names: Mapping[str, str]
    """Group → the name of its Job."""
    annotations: Mapping[str, Mapping[str, str]]
    """Group → of its Job."""
    held: Collection[str] = field(default_factory=frozenset)
    """Groups whose Job waits for others: made suspended, and no queue's concern yet."""


def marks(plan: Plan, turns: Sequence[Turn], run: ClusterRun, names: Mapping[str, str]) -> Marks:
    """The marks of what is handed over now.

    Args:
        plan: for its settings.
        turns: the groups, with what each waits for.
        run: whose they are.
        names: group → name of its Job.

    Raises:
        PlanError: a group has too many jobs for the annotations of one object.
    """
    noted: dict[str, Mapping[str, str]] = {}
    for turn in turns:
        group = turn.group
        after = [_before(link, run, names) for link in turn.after]
        own = {UNIT: names[group.name], JOBS: json.dumps([job.name for job in group.members], separators=(",", ":"))}
        if after:
            own[AFTER] = encode(after)
        if after and plan.kubernetes.queue:
            own[QUEUE] = plan.kubernetes.queue
        if plan.kubernetes.dra:
            own[CLAIMS] = "true"
        if sum(map(len, own.values())) > _MOST_CHARACTERS:
            raise too_many(group)
        noted[group.name] = own
    return Marks(
        labels={RUN: label_value(run.run), TOKEN: run.token},
        names=names,
        annotations=noted,
        held=frozenset(turn.group.name for turn in turns if turn.after),
    )


def _before(link: Link, run: ClusterRun, names: Mapping[str, str]) -> Before:
    if link.there:
        job = run.job(link.group)
        if job is not None:
            return Before(job.unit, job.index, link.success, job.name)
    return Before(names.get(link.group, link.group), link.index, link.success, link.group)
