"""What holds running jobs back, without watching them: what one look tells, and what a watcher has kept lately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from migctl.core.runs.record import JobState
from migctl.core.runs.run import Run
from migctl.core.seeing.verdicts import Kind
from migctl.core.views.status import JobView
from migctl.engine.session import Session

_AFFINITY = "affinity lost"


def with_said(session: Session, run: Run, jobs: Sequence[JobView]) -> tuple[JobView, ...]:
    """The same; running jobs about which nothing else is to be said with their first verdict and what to change."""
    if not any(job.state is JobState.RUNNING and job.reason is None for job in jobs):
        return tuple(jobs)
    from migctl.store.samples import said_now

    present: dict[str, str] = {}
    for one in said_now(session.paths.state, run.name, session.now()):
        if one.job and one.kind != Kind.UNKNOWN:
            present.setdefault(one.job, f"{one.title}: {one.hint}" if one.hint else one.title)
    return tuple(
        replace(job, reason=_AFFINITY if _lost(job) else present.get(job.name))
        if job.state is JobState.RUNNING and job.reason is None
        else job
        for job in jobs
    )


def _lost(job: JobView) -> bool:
    return job.pinning is not None and any(finding.drift for finding in job.pinning.findings)
