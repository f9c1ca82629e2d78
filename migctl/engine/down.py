"""`down` and `stop`: end jobs and undo exactly what `up` made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from migctl.core.choices import RuntimeName
from migctl.core.queueing.entries import Queue
from migctl.core.runs.events import Event
from migctl.core.runs.record import JobState, Record
from migctl.engine import recording
from migctl.engine.apply import Workshop
from migctl.engine.drift import taken_over
from migctl.engine.gpumode.mode import restore
from migctl.engine.gpumode.services import recover_services
from migctl.engine.holders.machinehold import MachineHold
from migctl.engine.lockwaits import MACHINE_S
from migctl.engine.observe import boot, check_source
from migctl.engine.queueing.queued import take_out
from migctl.engine.queueing.supervisor import turn_wait_s, wake
from migctl.engine.session import Session
from migctl.engine.targets import unknown_run
from migctl.errors import Busy, Interrupted, MigctlError, Notice, PartlyApplied
from migctl.host.claims import drop_claim, store_name
from migctl.nvml.refusals import is_in_use
from migctl.store.failure import failure_alone, is_unwritable
from migctl.store.ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class DownResult:
    """What `down` did."""

    run: str
    removed: tuple[str, ...]
    """Jobs of which nothing is left on the machine."""
    notices: tuple[Notice, ...] = ()


def take_down(
    session: Session,
    run: str,
    *,
    grace_s: float | None,
    report: Callable[[Event], None],
    cancel: threading.Event,
    wait_for_s: float = 0.0,
    unless: Callable[[Queue | None], bool] | None = None,
) -> DownResult:
    """End and remove everything of one run; what is gone already is fine.

    Args:
        grace_s: seconds between SIGTERM and SIGKILL; `None` = each job's own.
        cancel: set by a signal: skip the rest of the grace; where another migctl or a holder is waited for, end that.
        wait_for_s: how long to wait for another migctl at this run, and for those who hold its instances.
        unless: for a supervisor, beside which nobody starts anything: asked, with the run held, about its queue as it is; that
            stays until the run has ended, for the next supervisor to go on from.

    Raises:
        Busy: `run-changed`, `unless` says so; nothing was done.
        PartlyApplied: something could not be removed; it stays recorded, and `down` again goes on there.
        Interrupted: the same, since a signal ended the waiting for somebody; or nothing was begun.
    """
    with ExitStack() as stack:
        ledger = stack.enter_context(session.ledger(write=True, removing=True))
        stack.enter_context(
            session.run_lock(run, wait_s=max(wait_for_s, turn_wait_s(session)), cancel=_still_to_come(cancel))
        )
        known = ledger.run(run, ended=True)
        if unless is not None and unless(ledger.submissions.queue(run)):
            raise Busy("run-changed", f"{run} was submitted anew", where=f"run {run}")
        if known is None:
            ledger.submissions.withdraw(run)  # an `up` that was killed before it began
            drop_claim(session.paths.run, session.caller, run, store_name(session.paths.state))
            return DownResult(run=run, removed=())
        runtime = session.runtime(RuntimeName(known.runtime))
        driver = stack.enter_context(session.driver())
        recover_services(session, boot(session, driver), report)
        check_source(session, driver, ledger, known)
        shop = Workshop(
            session=session,
            driver=driver,
            runtime=runtime,
            ledger=ledger,
            report=report,
            cancel=cancel,
            wait_for_s=wait_for_s,
            # Others may be about to make instances where these lie, or to rely on the mode.
            destroying=MachineHold(
                lambda: session.lock("machine", wait_s=MACHINE_S + wait_for_s, cancel=_still_to_come(cancel))
            ).held,
        )
        if unless is None:
            ledger.submissions.withdraw(run)  # whatever becomes of this command, nothing more starts
            wake(session)
        written = ledger.records(run)
        seen = shop.look(run)
        outcome = shop.take_down(dict(seen.records), seen, grace_s=grace_s, hurry=cancel)
        left = ledger.records(run)
        if left or outcome.errors:
            raise _left_over(run, left, outcome.errors)
        notices = _unrecorded(shop)
        drop_claim(session.paths.run, session.caller, run, store_name(session.paths.state))
        notices += taken_over(written, seen.observed)
        if known.ended_at is None:
            # A run that ended before has put its mode back: who turned it on since then is somebody else.
            try:
                with shop.destroying():
                    notices += restore(shop, known, {r.gpu_uuid for r in seen.records.values()})
                ledger.end_run(run)
                ledger.submissions.withdraw(run)
            except MigctlError as error:
                raise _not_ended(run, error) from error
        recording.wake(session)
        return DownResult(run=run, removed=tuple(seen.records), notices=notices)


def stop_jobs(
    session: Session,
    run: str,
    jobs: Collection[str],
    *,
    grace_s: float | None,
    report: Callable[[Event], None],
    cancel: threading.Event,
) -> tuple[str, ...]:
    """End running jobs; their containers and instances stay until `down`. Returns those that were running."""
    with ExitStack() as stack:
        ledger = stack.enter_context(session.ledger(write=True, removing=True))
        stack.enter_context(session.run_lock(run, wait_s=turn_wait_s(session), cancel=cancel))
        known = ledger.run(run)
        if known is None:
            raise unknown_run(run, [r.name for r in ledger.runs()])
        runtime = session.runtime(RuntimeName(known.runtime))
        driver = stack.enter_context(session.driver())
        check_source(session, driver, ledger, known)
        shop = Workshop(session=session, driver=driver, runtime=runtime, ledger=ledger, report=report, cancel=cancel)
        out, problems = _taken_out(session, ledger, run, tuple(jobs))
        seen = shop.look(run)
        # A job that a killed `up` had only written down has nothing to stop.
        running = {n: r for n in jobs if (r := seen.records.get(n)) is not None and _can_run(r)}
        outcome = shop.stop(running, seen, grace_s=grace_s)
        if problems or outcome.errors:
            raise _not_stopped(run, {**outcome.errors, **problems})
        return (*running, *out)


def _taken_out(
    session: Session, ledger: Ledger, run: str, jobs: tuple[str, ...]
) -> tuple[tuple[str, ...], dict[str, MigctlError]]:
    """Take what waits out of the queue; a disk that takes nothing more keeps no running job from being stopped."""
    try:
        return take_out(session, ledger, run, jobs), {}
    except MigctlError as error:
        return (), {"the queue": error}


def _not_stopped(run: str, errors: Mapping[str, MigctlError]) -> PartlyApplied:
    lines = "; ".join(f"{name}: {error.message}" for name, error in errors.items())
    return PartlyApplied(
        "not-all-stopped",
        f"not everything could be stopped; what is not named here has been. {lines}",
        where=f"run {run}",
        hint=f"migctl stop again, or migctl down {run}",
        data={"jobs": list(errors)},
    )


def _still_to_come(cancel: threading.Event) -> threading.Event | None:
    """What ends a waiting: a signal that comes during it. One that came before asked for haste, not for leaving things behind."""
    return None if cancel.is_set() else cancel


def _unrecorded(shop: Workshop) -> tuple[Notice, ...]:
    """What could not be written meanwhile, said once."""
    return tuple(
        Notice(
            "not-recorded",
            f"not all of it could be recorded: {failure_alone(error)}",
            hint="make room there",
        )
        for error in {error.id: error for error in shop.unrecorded}.values()
    )


def _not_ended(run: str, error: MigctlError) -> PartlyApplied:
    """Of the machine nothing is left to undo but the mode, and of the records that the run has ended."""
    return PartlyApplied(
        "not-ended",
        f"the jobs and their instances are gone, but the end of the run could not be finished: {failure_alone(error)}",
        where=f"run {run}",
        hint=f"make room, then migctl down {run}" if is_unwritable(error) else f"migctl down {run}",
    )


def _can_run(record: Record) -> bool:
    return record.state in (JobState.STARTING, JobState.RUNNING) and record.container_id is not None


def _left_over(run: str, left: Sequence[Record], errors: Mapping[str, MigctlError]) -> MigctlError:
    lines = [f"{name}: {error.message}" for name, error in errors.items()]
    lines += [f"{record.job}: not finished" for record in left if record.job not in errors]
    again = f"migctl down {run}"
    interrupted = any(isinstance(error, Interrupted) for error in errors.values())
    held = [error for error in errors.values() if is_in_use(error) or isinstance(error, Interrupted)]
    first = "; ".join(dict.fromkeys(error.hint for error in held if error.hint))
    return (Interrupted if interrupted else PartlyApplied)(
        "not-all-removed",
        f"{len(lines)} of the run's jobs could not be removed; everything else is gone. " + "; ".join(lines),
        where=f"run {run}",
        hint=f"{first}; then {again}" if first else again,
        data={"jobs": [record.job for record in left]},
    )
