"""Processes of one's own jobs that run although no record tells of them any more: named, and not started a second time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from migctl.core.choices import RuntimeName
from migctl.core.runs.adoption import Leftover
from migctl.core.runs.labels import LABEL
from migctl.core.runs.record import Record
from migctl.engine.session import Session
from migctl.errors import Busy, Notice
from migctl.host.claims import store_name
from migctl.host.procfs import process_start_ticks
from migctl.runtimes.strays import living
from migctl.store.ledger import Ledger

if TYPE_CHECKING:
    from migctl.core.plan import Plan

UNRECORDED = "unrecorded-process"
_DEPTH = 4
"""The log of an attempt lies in STATE/runs/RUN/JOB/ATTEMPT."""


def unrecorded(session: Session, ledger: Ledger) -> tuple[Leftover, ...]:
    """Living process jobs of the caller and of this very state directory that it does not know; reads only."""
    # The processes first: one that is started meanwhile is recorded already when the records are read.
    mine = _own_processes(session)
    if not mine:
        return ()
    known = [record for run in ledger.runs() for record in ledger.records(run.name)]
    strays = (one for one in mine if not _is_known(one, known) and _lives(one))
    return tuple(sorted(strays, key=lambda one: (one.unit.run, one.unit.job, one.unit.pid or 0)))


def _own_processes(session: Session) -> tuple[Leftover, ...]:
    if session.root != Path("/"):
        return ()  # another machine's topology is looked at: this one's processes are not meant
    store = store_name(session.paths.state)
    return tuple(one for one in living() if one.owner_uid == session.caller.uid and _store_of(one) == store)


def notices(found: Iterable[Leftover]) -> tuple[Notice, ...]:
    """What `status` and `check` say of each."""
    return tuple(
        Notice(
            UNRECORDED,
            f"a process of run {one.unit.run}, job {one.unit.job} runs without a record (pid {one.unit.pid})",
            hint=_hint(one),
        )
        for one in found
    )


def refuse_second_copies(session: Session, ledger: Ledger, plan: Plan, recorded: Collection[str]) -> None:
    """Nothing of a plan is started whose job runs already, recorded or not.

    Args:
        recorded: the jobs that have a record; what becomes of them is decided by that.

    Raises:
        Busy: `unrecorded-process`, naming them all.
    """
    names = {job.name for job in plan.jobs if job.name not in recorded}
    if plan.runtime is not RuntimeName.PROCESS or not names:
        return
    found = [one for one in unrecorded(session, ledger) if one.unit.run == plan.name and one.unit.job in names]
    if found:
        jobs = ", ".join(f"{one.unit.job} (pid {one.unit.pid})" for one in found)
        raise Busy(
            UNRECORDED,
            f"of run {plan.name} there run processes without a record, and they are not started a second time: {jobs}",
            where=f"run {plan.name}",
            hint=_hint(found[0]),
            data={"pids": [one.unit.pid for one in found]},
        )


def _hint(one: Leftover) -> str:
    ending = f"kill {one.unit.pid} ends it"
    # Without its shim nothing tells its instance and its CPUs.
    return (
        f"migctl adopt takes it over; {ending}" if one.unit.token else f"{ending}; too little is known to take it over"
    )


def _is_known(one: Leftover, records: Sequence[Record]) -> bool:
    attempt = one.labels.get(LABEL + "attempt")
    return any(
        record.token == one.unit.token
        if one.unit.token
        else (record.run, record.job, str(record.attempt)) == (one.unit.run, one.unit.job, attempt)
        for record in records
    )


def _lives(one: Leftover) -> bool:
    return one.unit.pid is not None and process_start_ticks(one.unit.pid) == one.unit.pid_start


def _store_of(one: Leftover) -> str:
    if one.folder:
        parents = Path(one.folder).parents
        return store_name(parents[_DEPTH - 1]) if len(parents) >= _DEPTH else ""
    return one.labels.get(LABEL + "store", "")
