"""What `up` hands over to a cluster: the plan against what the cluster has of the run. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from migctl.core.cluster.clusterrun import ClusterJob
from migctl.core.plan import Job
from migctl.core.runs.record import JobState
from migctl.errors import PlanError


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which jobs change; names in the plan's order."""

    handed: tuple[str, ...]
    """To be handed over: new ones, and further attempts."""
    kept: tuple[str, ...]
    """The same as before: left alone, however they ended."""
    changed: tuple[str, ...]
    """With other keys than before, and left as they are."""
    removed: tuple[str, ...]
    """No longer in the plan, and left as they are."""
    leaving: tuple[str, ...]
    """Present attempts that are to be ended first: of jobs that are replaced or taken out."""
    taken_out: tuple[str, ...]
    """Those of them that do not come again."""


def choose(
    jobs: Sequence[Job], digests: Mapping[str, str], there: Mapping[str, ClusterJob], *, replacing: bool, retry: bool
) -> Choice:
    """Compare.

    Args:
        jobs: of the plan.
        digests: job → digest of its keys now.
        there: job → how it is now.
        replacing: changed jobs are replaced, and those that are no longer in the plan are taken out.
        retry: jobs that failed, were stopped or are lost are run again.
    """
    handed: list[str] = []
    kept: list[str] = []
    changed: list[str] = []
    leaving: list[str] = []
    for job in jobs:
        old = there.get(job.name)
        if old is None or not old.unit:
            handed.append(job.name)  # also what an `up` that was cut short had only written down
        elif old.digest != digests[job.name]:
            (handed if replacing else changed).append(job.name)
            if replacing and not old.state.ended:
                leaving.append(job.name)
        elif retry and old.state.unsuccessful:
            handed.append(job.name)
        else:
            kept.append(job.name)
    names = {job.name for job in jobs}
    gone = [name for name, old in there.items() if name not in names]
    taken_out = tuple(name for name in gone if replacing or not there[name].unit)
    return Choice(
        handed=tuple(handed),
        kept=tuple(kept),
        changed=tuple(changed),
        removed=tuple(name for name in gone if name not in taken_out),
        leaving=(*leaving, *(name for name in taken_out if there[name].unit and not there[name].state.ended)),
        taken_out=taken_out,
    )


def check_needs(jobs: Sequence[Job], choice: Choice, there: Mapping[str, ClusterJob]) -> None:
    """Every job that is to be handed over can still run.

    Raises:
        PlanError: one needs a job that did not succeed and is not run again.
    """
    handed = set(choice.handed)
    for job in jobs:
        if job.name not in handed:
            continue
        for need in job.needs:
            old = there.get(need)
            if need not in handed and old is not None and old.state.unsuccessful:
                raise PlanError(
                    "need-failed",
                    f"job {job.name} needs {need}, which {_ENDS[old.state]}",
                    where=job.place("needs"),
                    hint="migctl up --retry runs that again, too",
                )


_ENDS: Mapping[JobState, str] = {
    JobState.FAILED: "failed",
    JobState.STOPPED: "was stopped",
    JobState.LOST: "is lost",
}
