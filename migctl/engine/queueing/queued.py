"""What a run's queue holds beside its records: jobs that wait, and why; and what the user changes about them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from migctl.core.queueing.entries import Entry, Queue
from migctl.core.runs.record import JobState, Record
from migctl.engine.lockwaits import TURN_S
from migctl.engine.queueing.supervisor import ensure, wake
from migctl.engine.session import Session
from migctl.engine.targets import unknown_run
from migctl.errors import PlanError
from migctl.store.ledger import Ledger

HELD = "held"
TAKEN_OUT = "taken out of the queue"
NOT_LOOKED_AT = "not looked at yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One job that is to start later, or was taken out before it began."""

    entry: Entry
    state: JobState
    """Queued or stopped."""
    reason: str
    attempt: int = 1
    """The number of the attempt that it waits for."""


def waiting(ledger: Ledger, run: str, records: Iterable[Record]) -> dict[str, Waiting]:
    """The jobs of the queue that are not on the machine, by name, in the queue's order."""
    queue = ledger.submissions.queue(run)
    if queue is None or queue.leaving:
        return {}
    known = {record.job: record for record in records}
    waits = ledger.submissions.waits(run)
    found: dict[str, Waiting] = {}
    stopped, held = set(queue.stopped), set(queue.held_jobs)
    for entry in queue.entries:
        record = known.get(entry.job)
        if record is not None and (queue.told or not record.state.ended or entry.job not in waits):
            continue
        if record is None and (queue.told or entry.job in stopped):
            why = waits.get(entry.job) or (queue.reason if entry.job in stopped else "") or TAKEN_OUT
            found[entry.job] = Waiting(entry=entry, state=JobState.STOPPED, reason=why)
            continue
        reason = waits.get(entry.job, NOT_LOOKED_AT)
        if queue.held:
            reason = f"held: {queue.reason}" if queue.reason else HELD
        elif entry.job in held:
            reason = HELD
        attempt = record.attempt + 1 if record is not None else 1
        found[entry.job] = Waiting(entry=entry, state=JobState.QUEUED, reason=reason, attempt=attempt)
    return found


def is_open(ledger: Ledger, run: str) -> bool:
    """Whether something of the run's queue is left to be done."""
    queue = ledger.submissions.queue(run)
    return queue is not None and not queue.told


def hold(session: Session, run: str, jobs: Collection[str]) -> tuple[str, ...]:
    """Let nothing more of the run (or none of these jobs) start; what runs goes on. Returns the jobs that this holds back.

    Raises:
        PlanError: the run has no queue, or a job that is named does not wait.
    """

    def held(queue: Queue, waits: Mapping[str, Waiting]) -> Queue:
        if not jobs:
            return replace(queue, held=True, reason="")
        _refuse_others(jobs, waits, run)
        return replace(queue, held_jobs=tuple(dict.fromkeys((*queue.held_jobs, *jobs))))

    waits = _changed(session, run, held)
    return tuple(name for name in waits if not jobs or name in jobs)


def release(session: Session, run: str, jobs: Collection[str]) -> tuple[str, ...]:
    """Undo `hold`, and go on after a failure or a restart that held the run. Raises as `hold`."""

    def released(queue: Queue, waits: Mapping[str, Waiting]) -> Queue:
        if not jobs:
            return replace(queue, held=False, reason="", held_jobs=())
        _refuse_others(jobs, waits, run)
        return replace(queue, held_jobs=tuple(name for name in queue.held_jobs if name not in jobs))

    waits = _changed(session, run, released)
    ensure(session)
    return tuple(name for name in waits if not jobs or name in jobs)


def take_out(session: Session, ledger: Ledger, run: str, jobs: Sequence[str]) -> tuple[str, ...]:
    """Take waiting jobs out of the queue, for `stop`, which holds the run's lock; returns those that waited."""
    queue = ledger.submissions.queue(run)
    if queue is None or queue.leaving:
        return ()
    waits = waiting(ledger, run, ledger.records(run))
    out = tuple(name for name in jobs if name in waits and waits[name].state is JobState.QUEUED)
    if out:
        ledger.submissions.save_queue(run, replace(queue, stopped=tuple(dict.fromkeys((*queue.stopped, *out)))))
        wake(session)
    return out


def _changed(
    session: Session, run: str, change: Callable[[Queue, Mapping[str, Waiting]], Queue]
) -> Mapping[str, Waiting]:
    with session.ledger(write=True) as ledger, session.run_lock(run, wait_s=TURN_S):
        if ledger.run(run) is None:
            raise unknown_run(run, [r.name for r in ledger.runs()])
        queue = ledger.submissions.queue(run)
        if queue is None or queue.told:
            raise PlanError(
                "no-queue",
                f"nothing of {run} waits: all its jobs have been started",
                where=f"run {run}",
                hint="migctl stop ends running jobs",
            )
        waits = waiting(ledger, run, ledger.records(run))
        fresh = change(queue, waits)
        if fresh != queue:
            ledger.submissions.save_queue(run, fresh)
        return waits


def _refuse_others(jobs: Collection[str], waits: Mapping[str, Waiting], run: str) -> None:
    others = [name for name in jobs if name not in waits]
    if others:
        raise PlanError(
            "not-waiting",
            f"{', '.join(others)} {'does' if len(others) == 1 else 'do'} not wait in the queue of {run}",
            where=f"run {run}",
            hint="migctl status lists what waits; migctl stop ends what runs",
        )
