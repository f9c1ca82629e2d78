"""The waiting jobs of a run as `status` shows them, in their places among the others, and what is wrong with who starts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from migctl.core.runs.record import JobState
from migctl.core.runs.run import Run
from migctl.core.views.status import JobView, RunView
from migctl.core.words import counted
from migctl.engine.queueing.queued import Waiting, waiting
from migctl.engine.queueing.supervisor import is_supervised
from migctl.engine.session import Session
from migctl.errors import MigctlError, Notice
from migctl.store.ledger import Ledger


def with_waiting(ledger: Ledger, run: Run, jobs: Sequence[JobView]) -> tuple[JobView, ...]:
    """All jobs of the run: in the queue's order, then those that the queue does not know."""
    try:
        queue, waits = ledger.submissions.queue(run.name), waiting(ledger, run.name, ledger.records(run.name))
    except MigctlError:
        return tuple(jobs)
    if queue is None:
        return tuple(jobs)
    there = {job.name: job for job in jobs}
    there |= {name: _view(one) for name, one in waits.items()}
    order = {name: number for number, name in enumerate(queue.names)}
    return tuple(sorted(there.values(), key=lambda job: order.get(job.name, len(order))))


def with_course(ledger: Ledger, view: RunView) -> RunView:
    """The run with when its jobs are expected to start and to end, as far as that was foreseen."""
    if all(job.state.ended for job in view.jobs):
        return view
    found = ledger.submissions.course(view.name)
    if found is None:
        return replace(view, ends_reason="no job says how long it takes (expect), or its queue was not looked at yet")
    jobs = tuple(job if job.state.ended else replace(job, expected=found.jobs.get(job.name)) for job in view.jobs)
    return replace(view, jobs=jobs, ends_at=found.ends_at, ends_reason=found.reason)


def queue_notices(session: Session, ledger: Ledger, runs: Sequence[Run]) -> list[Notice]:
    """Runs whose waiting jobs nobody starts: held, or without a supervisor."""
    found: list[Notice] = []
    alone: list[str] = []
    going: list[str] = []
    for run in runs:
        try:
            queue = ledger.submissions.queue(run.name)
        except MigctlError as error:
            found.append(Notice(error.id, error.message, hint=error.hint, where=f"run {run.name}"))
            continue
        if queue is not None and queue.leaving and run.ended_at is None:
            going.append(run.name)
        if queue is None or queue.told or run.ended_at is not None:
            continue
        alone.append(run.name)
        if queue.held:
            why = f": {queue.reason}" if queue.reason else ""
            found.append(
                Notice("run-held", f"{run.name} is held{why}; nothing more starts", hint=f"migctl release {run.name}")
            )
    supervised = not (alone or going) or is_supervised(session)
    if going and not supervised:
        found.append(
            Notice(
                "not-supervised",
                f"nobody supervises {going[0]}, which was being taken down (on_finish: down)",
                hint=f"migctl down {going[0]}",
            )
        )
    if alone and not supervised:
        names = ", ".join(alone[:4]) + (f" and {counted(len(alone) - 4, 'more')}" if len(alone) > 4 else "")
        found.append(
            Notice(
                "not-supervised",
                f"nobody supervises {names}: jobs that run go on, and nothing more starts",
                hint=f"migctl resume {alone[0]}",
            )
        )
    return found


def _view(one: Waiting) -> JobView:
    return JobView(
        name=one.entry.job,
        origin=one.entry.origin,
        state=one.state,
        reason=one.reason,
        attempt=one.attempt,
        unknown=() if one.state is JobState.STOPPED else (("gpu_uuid", "it waits"),),
    )
