"""How jobs of Kubernetes Jobs are ended before their time: a Job as a whole, or single ones of an Indexed Job."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from migctl.core.cluster.kubernetes_objects import KubernetesJob
from migctl.core.cluster.kubernetes_states import Seen, Sight, names_of
from migctl.errors import PlanError


@dataclass(frozen=True, slots=True)
class Single:
    """One job of an Indexed Job whose others go on."""

    job: KubernetesJob
    index: int
    name: str
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stops:
    """What is to be ended."""

    whole: tuple[KubernetesJob, ...] = ()
    single: tuple[Single, ...] = ()


def stops(seen: Seen, found: Mapping[str, Sequence[Sight]], wanted: Collection[str]) -> Stops:
    """A Job of which nothing is to go on is suspended; of one that goes on single pods are deleted.

    Raises:
        PlanError: Kubernetes would start a single one nevertheless: it has not begun yet, or may try again.
    """
    whole: list[KubernetesJob] = []
    single: list[Single] = []
    for job in seen.jobs:
        names = names_of(job)
        alive = [n for n, sight in enumerate(found[job.name]) if n < len(names) and not sight.state.ended]
        asked = [n for n in alive if names[n] in wanted]
        if asked and len(asked) == len(alive):
            whole.append(job)
        else:
            single += [Single(job, n, names[n], found[job.name][n].pods) for n in asked]
    stubborn = [one for one in single if one.job.retries or not one.pods]
    if stubborn:
        one = stubborn[0]
        why = (
            "has not begun, and an Indexed Job leaves out none"
            if not one.pods
            else f"would be tried again by Kubernetes (retries: {one.job.retries})"
        )
        rest = ", ".join(names_of(one.job)[:3]) + (" …" if len(names_of(one.job)) > 3 else "")
        raise PlanError(
            "cannot-stop-one",
            f"{one.name} alone cannot be stopped: it {why}; nothing was stopped",
            where=f"Job {one.job.name}",
            hint=f"stop all jobs of it ({rest}), or wait until it runs"
            if not one.pods
            else f"stop all jobs of it ({rest})",
        )
    return Stops(tuple(whole), tuple(single))
