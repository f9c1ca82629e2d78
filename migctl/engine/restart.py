"""`restart`: end jobs and put each back to its beginning, so that `up` goes on with it as with a job that was not started yet."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack

from migctl.core.choices import RuntimeName
from migctl.core.plan import Plan
from migctl.core.queueing.again import begun_anew, keeps_place
from migctl.core.runs.events import Event
from migctl.core.runs.record import Action, JobState, Record
from migctl.core.runs.sameness import digest, spec
from migctl.core.runs.steps import chain
from migctl.engine.apply import Workshop
from migctl.engine.claiming import claim
from migctl.engine.holders.idleness import hold_machine
from migctl.engine.lockwaits import MACHINE_S
from migctl.engine.observe import Look, check_source
from migctl.engine.queueing.queued import waiting
from migctl.engine.session import Session
from migctl.engine.surroundings import surroundings
from migctl.engine.targets import unknown_run
from migctl.errors import MigctlError, PartlyApplied, PlanError


def put_back(
    session: Session,
    plan: Plan,
    jobs: Sequence[str],
    *,
    grace_s: float | None,
    report: Callable[[Event], None],
    cancel: threading.Event,
) -> frozenset[str]:
    """End these jobs and make each ready to begin again.

    One whose instance and cores are still its own is recorded as about to start there; the returned ones have no place of
    their own any more, and `up` is to be told to run them once more.

    Args:
        plan: of the run, with these jobs as they were started.
        grace_s: seconds between SIGTERM and SIGKILL; `None` = each job's own.
        cancel: set by a signal: skip the rest of the grace.

    Raises:
        PlanError: a job cannot be restarted; nothing was done.
        PartlyApplied: jobs were ended that are not ready to begin again; the hint goes on there.
    """
    with ExitStack() as stack:
        ledger = stack.enter_context(session.ledger(write=True))
        stack.enter_context(session.run_lock(plan.name, cancel=cancel))
        run = ledger.run(plan.name)
        if run is None:
            raise unknown_run(plan.name, [r.name for r in ledger.runs()])
        driver = stack.enter_context(session.driver())
        check_source(session, driver, ledger, run)
        shop = Workshop(
            session=session,
            driver=driver,
            runtime=session.runtime(RuntimeName(run.runtime)),
            ledger=ledger,
            report=report,
            cancel=cancel,
        )
        seen = shop.look(plan.name)
        _refuse(shop, plan, jobs, seen)
        alive = {name: seen.records[name] for name in jobs if seen.records[name].state is JobState.RUNNING}
        outcome = shop.stop(alive, seen, grace_s=grace_s)
        try:
            for error in outcome.errors.values():
                raise error
            hold_machine(stack, session, driver, MACHINE_S, cancel)
            seen = shop.look(plan.name)
            fresh = _anew(shop, plan, jobs, seen)
            claim(session, run, {**seen.records, **fresh}.values(), seen.observed.boot_id)
        except MigctlError as error:
            if not alive:
                raise
            raise _halfway(plan.name, jobs, alive, error) from error
    return frozenset(jobs) - fresh.keys() - {n for n in jobs if seen.records[n].state is JobState.STARTING}


def _refuse(shop: Workshop, plan: Plan, jobs: Sequence[str], seen: Look) -> None:
    """Every reason is known before the first job is ended."""
    key = shop.ledger.key()
    waits = waiting(shop.ledger, plan.name, seen.records.values())
    planned = {job.name: job for job in plan.jobs}
    for name in jobs:
        record, job = seen.records.get(name), planned.get(name)
        if record is None or record.state is JobState.QUEUED:
            out = name in waits and waits[name].state is JobState.STOPPED
            hint = (
                f"migctl up --retry puts it back into the queue of {plan.name}" if out else "migctl wait waits for it"
            )
            raise PlanError("not-begun", f"{name} has not begun yet", where=f"run {plan.name}", hint=hint)
        same = job is not None and (record.digest == digest(job, key) if record.digest else record.spec == spec(job))
        if not same:
            what = "is no longer in the plan" if job is None else "has changed in the plan since it was started"
            raise PlanError(
                "job-changed",
                f"{name} {what}: a restart would not run the same again",
                where=f"run {plan.name}",
                hint="migctl up --replace makes it what the plan says",
            )


def _anew(shop: Workshop, plan: Plan, jobs: Sequence[str], seen: Look) -> Mapping[str, Record]:
    """The records of those that begin again where they were, written down after their containers are gone."""
    taken = _taken(shop, plan.name, jobs, seen)
    staying = {
        name: record
        for name in jobs
        if (record := seen.records[name]).state.ended and keeps_place(record, seen.observed, taken)
    }
    removing = [chain(n, Action.REMOVE_CONTAINER) for n, r in staying.items() if r.container_id is not None]
    outcome = shop.clear(removing, staying, seen)
    for error in outcome.errors.values():
        raise error
    fresh = {
        name: begun_anew(
            record,
            attempt=shop.ledger.last_attempt(plan.name, name) + 1,
            token=secrets.token_hex(8),
            boot_id=seen.observed.boot_id,
            now=shop.session.now(),
        )
        for name, record in outcome.records.items()
    }
    shop.ledger.save(list(fresh.values()), durable=True)
    return fresh


def _taken(shop: Workshop, run: str, jobs: Collection[str], seen: Look) -> frozenset[int]:
    """Logical CPUs of everybody but these jobs."""
    there = surroundings(shop.session, shop.runtime, shop.ledger, seen.observed, run)
    others = [cpu for cpus in there.claimed.values() for cpu in cpus]
    own = [cpu for name, r in seen.records.items() if name not in jobs and not r.state.ended for cpu in r.cpus]
    return frozenset((*others, *own))


def _halfway(run: str, jobs: Sequence[str], ended: Collection[str], error: MigctlError) -> PartlyApplied:
    return PartlyApplied(
        "not-restarted",
        f"{', '.join(ended)} {'was' if len(ended) == 1 else 'were'} ended, and not started again: {error.message}",
        where=f"run {run}",
        hint=f"migctl restart {' '.join(f'{run}/{name}' for name in jobs)}",
        data={"jobs": list(ended)},
    )
