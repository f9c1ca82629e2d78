"""What an ended job of a queue still needs: its log saved, whoever asked for it told, its container removed."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

from migctl.core.choices import RuntimeName
from migctl.core.plan import Notify, Plan
from migctl.core.queueing.entries import Queue
from migctl.core.queueing.handing import is_spent
from migctl.core.runs.record import JobState, Record
from migctl.engine.lockwaits import CLOSING_RUN_S
from migctl.engine.session import Session
from migctl.errors import Busy, MigctlError
from migctl.host.messenger import tell
from migctl.runtimes.api import Runtime
from migctl.store.failure import is_unwritable
from migctl.store.ledger import Ledger

LOG = logging.getLogger("migctl.supervisor")


def close(session: Session, run: str, plan: Plan, ended: Sequence[Record]) -> tuple[MigctlError, ...]:
    """See these ended jobs off. What fails is told, and done again at the next turn.

    The container goes where the job's instance is another's by now: log and exit are kept in the run's folder.
    """
    problems: list[MigctlError] = []
    with session.ledger(write=True) as ledger:
        for record in ended:
            try:
                runtime = session.runtime(RuntimeName(record.runtime))
                _save_log(ledger, runtime, record)
                with session.run_lock(run, wait_s=CLOSING_RUN_S):
                    told = not _write(ledger, runtime, record)
            except MigctlError as error:
                problems.append(error)
                continue
            if not told:
                _tell(session, plan, record)
    return tuple(problems)


def conclude(session: Session, run: str, queue: Queue | None) -> bool:
    """Note that nothing of the run is left to do; false where somebody has changed its queue since it looked like that.

    Raises:
        MigctlError: it could not be noted.
    """
    with session.ledger(write=True) as ledger, session.run_lock(run, wait_s=CLOSING_RUN_S):
        found = ledger.submissions.queue(run)
        if found != queue:
            return False
        if found is not None:
            ledger.submissions.save_queue(run, replace(found, told=True))
        return True


def begin_to_leave(session: Session, run: str, queue: Queue) -> Queue:
    """Note that all is told and the run is being taken down; returns the queue as it stands now.

    Raises:
        Busy: `run-changed`, somebody has changed it since it looked like that.
    """
    with session.ledger(write=True) as ledger, session.run_lock(run, wait_s=CLOSING_RUN_S):
        if ledger.submissions.queue(run) != queue:
            raise Busy("run-changed", f"{run} was submitted anew", where=f"run {run}")
        leaving = replace(queue, told=True, leaving=True)
        try:
            ledger.submissions.save_queue(run, leaving)
        except MigctlError as error:
            if not is_unwritable(error):
                raise
            LOG.warning("%s", error.message)  # a full disk keeps nobody from going
            return queue
        return leaving


def run_over(session: Session, plan: Plan, records: Mapping[str, Record]) -> None:
    """Tell whoever wanted to know that nothing of the run is left to do."""
    states = [record.state.value for record in records.values()]
    told = {
        "version": 1,
        "event": "run",
        "run": plan.name,
        "jobs": {state: states.count(state) for state in dict.fromkeys(states)},
    }
    _send(session, plan, "run", told)


def _save_log(ledger: Ledger, runtime: Runtime, record: Record) -> None:
    if record.container_id is not None:
        runtime.save_log(record.container_id, str(ledger.folder(record.run, record.job, record.attempt) / "log"))


def _write(ledger: Ledger, runtime: Runtime, ended: Record) -> bool:
    """Note it in the record as it is by now, and remove the container that nobody needs; false where that has been done.

    It is written before anybody is told: after a kill in between nobody is, rather than everybody twice.
    """
    now = ledger.record(ended.run, ended.job)
    if now is None or now.token != ended.token:
        return False
    fresh = replace(now, closed=True)
    if is_spent(fresh) and fresh.container_id is not None:
        runtime.remove(fresh.container_id)
        fresh = replace(fresh, container_id=None)
    if fresh != now:
        ledger.save([replace(fresh, revision=now.revision + 1)], durable=False)
    return not now.closed


def _tell(session: Session, plan: Plan, record: Record) -> None:
    told = {
        "version": 1,
        "event": "job",
        "run": record.run,
        "job": record.job,
        "state": record.state.value,
        "exit_code": record.exit_code,
        "reason": record.reason,
        "attempt": record.attempt,
        "started_at": record.started_at,
        "finished_at": record.finished_at,
    }
    _send(session, plan, "job", told, failure=record.state is not JobState.SUCCEEDED)


def _send(session: Session, plan: Plan, event: str, told: Mapping[str, object], *, failure: bool = False) -> None:
    """In threads of their own: a webhook that does not answer keeps no job waiting. The process ends when they have."""
    text = json.dumps(told)
    for whom in plan.notify:
        if event in whom.on or (failure and "failure" in whom.on):
            threading.Thread(target=_try, args=(session.environ, whom, text, plan.folder), daemon=False).start()


def _try(environ: Mapping[str, str], whom: Notify, text: str, folder: str) -> None:
    try:
        tell(whom.command, whom.url, text, environ=environ, folder=folder)
    except MigctlError as error:
        LOG.warning("%s", error.message)
