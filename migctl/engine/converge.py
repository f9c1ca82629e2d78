"""`up`: bring a run to what its plan says, all or nothing, under the locks that keep two of them apart."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

from migctl.core.choices import Strategy
from migctl.core.gpu.mig import Gpu
from migctl.core.plan import Plan
from migctl.core.runs.events import Event
from migctl.core.runs.record import Record
from migctl.core.runs.run import Run
from migctl.core.views.up import UpView
from migctl.core.words import counted
from migctl.engine import recording
from migctl.engine.apply import Workshop, read_only
from migctl.engine.claiming import claim
from migctl.engine.decide import Decision, consider
from migctl.engine.failed_gpus import real_failure
from migctl.engine.gpumode.mode import to_enable, turn_on
from migctl.engine.gpumode.services import recover_services
from migctl.engine.holders.idleness import hold_machine
from migctl.engine.launch import launch_pad
from migctl.engine.mpsdaemons import mps_notices
from migctl.engine.observe import Look, boot, check_source
from migctl.engine.others import controller_notices
from migctl.engine.queueing.foresight import note_course
from migctl.engine.queueing.snapshots import Copies, copied
from migctl.engine.queueing.submitting import submitted
from migctl.engine.queueing.supervisor import ensure, turn_wait_s
from migctl.engine.readiness import images_of, ready, ready_for_mode, tells_profiles
from migctl.engine.rights import sudo_notices
from migctl.engine.ruling import refuse, refuse_mode
from migctl.engine.runnames import check_run
from migctl.engine.session import Session
from migctl.engine.surroundings import surroundings
from migctl.engine.undo import partly, taken_back, undo, without_the_old
from migctl.engine.upoptions import UpOptions
from migctl.engine.verification import unverified
from migctl.errors import HostError, Interrupted, MigctlError, Notice, PartlyApplied
from migctl.store.ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class UpResult:
    """What `up` did, or would do."""

    run: Run
    decision: Decision
    records: Mapping[str, Record]
    started: tuple[str, ...]
    notices: tuple[Notice, ...]

    @property
    def view(self) -> UpView:
        """What is told of it."""
        made = self.decision
        never = set(made.wave.never) if made.wave is not None else set[str]()
        return UpView(
            run=self.run,
            records=self.records,
            started=self.started,
            kept=made.kept,
            taken_out=made.taken_out,
            changed=made.difference.changed,
            removed=made.difference.removed,
            waits={job: why for job, why in made.waits.items() if job not in never},
            never={job: why for job, why in made.waits.items() if job in never},
            notices=self.notices,
        )


def preview(session: Session, plan: Plan, options: UpOptions) -> Decision:
    """What `up` would do now; reads only."""
    with read_only(session, plan.runtime) as shop:
        found = consider(shop, plan, options)
        refuse(found.broken)
        return found.decision


def converge(
    session: Session, plan: Plan, options: UpOptions, report: Callable[[Event], None], cancel: threading.Event
) -> UpResult:
    """Make what is missing of the plan, and nothing else.

    Raises:
        PlanError, DoesNotFit, HostError, Busy: nothing was changed, or everything that this call had made is undone.
        PartlyApplied: something could not be undone; the message lists it and the hint names the command that recovers.
        Interrupted: a signal came; what this call had made is undone, or named as above.
    """
    runtime = session.runtime(plan.runtime)
    with ExitStack() as stack:
        ledger = stack.enter_context(session.ledger(write=True))
        stack.enter_context(
            session.run_lock(plan.name, wait_s=max(options.wait_for_s, turn_wait_s(session)), cancel=cancel)
        )
        driver = stack.enter_context(session.driver())
        shop = Workshop(
            session=session,
            driver=driver,
            runtime=runtime,
            ledger=ledger,
            report=report,
            cancel=cancel,
            wait_for_s=options.wait_for_s,
        )
        recover_services(session, boot(session, driver), report)
        check_run(ledger.run(plan.name), plan)
        check_source(session, driver, ledger, ledger.run(plan.name))
        images: Mapping[str, str] = {}
        off = _off(shop, plan)
        if off:
            images = ready_for_mode(shop, plan, options, off)
            _hold(stack, shop, plan)
            _mode_on(shop, plan, options)
        first = ready(shop, plan, options)
        decision, seen = first.decision, first.seen
        images = images_of(shop, plan, decision, images)
        copies = stack.enter_context(copied(shop, plan, seen.records, decision.leaving))
        if not off:
            _hold(stack, shop, plan)
        again = shop.look(plan.name).observed
        if (
            again.ground != seen.observed.ground
            or surroundings(session, runtime, ledger, again, plan.name).ground != first.machine.ground
        ):
            # Somebody was quicker: with instances, or (where GPUs are shared) only with claims on cores.
            second = ready(shop, plan, options)
            decision, seen = second.decision, second.seen
            images = images_of(shop, plan, decision, images)
        _write_down(ledger, plan.name, seen, {chain.job for chain in (*decision.undo, *decision.chains)})
        idle = not decision.chains and not decision.undo
        if cancel.is_set() and not idle:
            raise Interrupted("interrupted", "interrupted before anything was made")
        with submitted(shop, plan, decision, images, copies) as to_supervise:
            run = ledger.run(plan.name) or _run(shop, plan, decision, seen)
            if run.boot_id != seen.observed.boot_id or (to_supervise and not run.revision):
                run = ledger.save_run(replace(run, boot_id=seen.observed.boot_id))
            result = _result(run, decision, seen.records) if idle else _act(shop, plan, decision, seen, images, copies)
        if not to_supervise and not idle:
            with suppress(MigctlError):  # a guess that nobody misses
                note_course(ledger, plan, result.records)
    if any(not record.state.ended for record in result.records.values()):
        recording.ensure(session)
    if to_supervise:
        _supervise(session, plan.name, len(result.started))
    return result


def _supervise(session: Session, run: str, started: int) -> None:
    """The jobs run by now: whatever keeps the supervisor from it undoes nothing.

    Raises:
        PartlyApplied: nobody supervises.
    """
    try:
        ensure(session)
    except MigctlError as error:
        raise PartlyApplied(
            error.id,
            f"{counted(started, 'job')} started, and {error.message}",
            where=f"run {run}",
            hint=f"migctl resume {run}",
        ) from error


def _hold(stack: ExitStack, shop: Workshop, plan: Plan) -> None:
    """Take the machine; what fails while it is held leaves neither a MIG mode nor an empty run behind."""
    shop.machine = hold_machine(stack, shop.session, shop.driver, shop.wait_for_s, shop.cancel)
    shop.destroying = shop.machine.at_it
    stack.enter_context(taken_back(shop, plan.name))


def _off(shop: Workshop, plan: Plan) -> tuple[Gpu, ...]:
    """The GPUs whose MIG mode this call has to turn on, as they are now."""
    gpus = shop.driver.gpus()
    with real_failure(shop.driver.failures, plan):
        return to_enable(plan, gpus)


def _mode_on(shop: Workshop, plan: Plan, options: UpOptions) -> None:
    """Turn MIG mode on where it still is off: with the machine held nobody else does it meanwhile."""
    off = _off(shop, plan)
    if not off:
        return
    refuse_mode(shop.session, off)
    if tells_profiles(off):
        ready(shop, plan, options)
    run = shop.ledger.run(plan.name) or Run(
        name=plan.name,
        plan_path=plan.path,
        owner_uid=shop.session.caller.uid,
        runtime=plan.runtime.value,
        strategy=Strategy.MIG.value,
        nvml=shop.session.nvml,
        created_at=shop.session.now(),
    )
    turn_on(shop, run, off)


def _act(
    shop: Workshop, plan: Plan, decision: Decision, seen: Look, images: Mapping[str, str], copies: Copies
) -> UpResult:
    session = shop.session
    run = shop.ledger.run(plan.name) or _run(shop, plan, decision, seen)
    shop.ledger.save_run(run)
    leaving = {chain.job: seen.records[chain.job] for chain in decision.undo}
    staying = {name: r for name, r in seen.records.items() if name not in leaving}
    try:
        # What is replaced has its cores until it is gone, also when this call is killed before.
        claim(session, run, (*seen.records.values(), *decision.records.values()), seen.observed.boot_id)
    except MigctlError as error:
        undo(shop, run, (), {"": error})
    if leaving:
        try:
            gone = shop.take_down(leaving, seen)
            seen = shop.look(run.name)
        except MigctlError as error:
            raise partly(run.name, [error], "replacing") from error
        if gone.errors:
            raise partly(run.name, gone.errors.values(), "replacing")
    try:
        staying |= _make_room(shop, decision, seen)
        made = _start(shop, plan, run, decision, seen, images, copies)
    except MigctlError as error:
        if not decision.replaced:
            raise
        raise without_the_old(run.name, decision.replaced, error) from error
    given = {name: replace(r, revision=r.revision + 1) for name, r in decision.handing.given.items()}
    with suppress(MigctlError):  # as after a crash here: the one that runs has the instance (`sole_owners`)
        shop.ledger.save(list(given.values()), durable=False)
    final = {**staying, **given, **made}
    try:
        claim(session, run, final.values(), seen.observed.boot_id)
    except MigctlError as error:
        raise partly(run.name, [error], "telling others what this run holds") from error
    result = _result(run, decision, final)
    simulated = mps_notices(session, plan, decision.allocation.strategy)
    told = (*simulated, *sudo_notices(session), *result.notices, *shop.runtime.notices(), *controller_notices(session))
    return replace(result, notices=told)


def _make_room(shop: Workshop, decision: Decision, seen: Look) -> Mapping[str, Record]:
    """Destroy the instances of ended jobs that are in the way of others; returns these jobs' records."""
    handing = decision.handing
    if not handing.clearing:
        return {}
    outcome = shop.clear(handing.clearing, handing.clearing_records, seen)
    if outcome.errors:
        raise next(iter(outcome.errors.values()))
    return {name: outcome.records[name] for name in handing.clearing_records}


def _start(
    shop: Workshop,
    plan: Plan,
    run: Run,
    decision: Decision,
    seen: Look,
    images: Mapping[str, str],
    copies: Copies,
) -> Mapping[str, Record]:
    """Make what is missing, and look that it is there; all of it or nothing. Returns the records of what was made."""
    pad = launch_pad(
        shop.session, plan, images, decision.allocation, seen.observed.gpus, copies=copies.of, codes=copies.codes
    )
    problems: dict[str, MigctlError]
    made: Mapping[str, Record] = {}
    try:
        outcome = shop.bring_up(decision.chains, decision.records, seen, pad)
        problems, made = dict(outcome.errors), outcome.records
    except MigctlError as error:
        problems = {"": error}
    except Exception as bug:
        try:
            undo(shop, run, [c.job for c in decision.chains], {"": HostError("bug", str(bug))})
        except PartlyApplied as left:
            bug.add_note(f"{left.message}; {left.hint} removes it")
        except MigctlError:
            bug.add_note("everything that this command had made is undone")
        raise
    if not problems and not shop.cancel.is_set():
        try:
            problems = unverified(shop, run.name, [chain.job for chain in decision.chains], unseen=True)
        except MigctlError as error:
            problems = {"": error}  # what cannot be looked at is not verified
    if problems or shop.cancel.is_set():
        undo(shop, run, [c.job for c in decision.chains], problems)
    return made


def _write_down(ledger: Ledger, run: str, seen: Look, changing: Collection[str]) -> None:
    """What became of the jobs that stay as they are: how they ended is still known when their container is gone."""
    known = {record.job: record for record in ledger.records(run)}
    ledger.save(
        [
            replace(record, intent=None, revision=record.revision + 1)
            for name, record in seen.records.items()
            if name not in changing and record != known.get(name)
        ],
        durable=False,
    )


def _run(shop: Workshop, plan: Plan, decision: Decision, seen: Look) -> Run:
    return Run(
        name=plan.name,
        plan_path=plan.path,
        owner_uid=shop.session.caller.uid,
        runtime=plan.runtime.value,
        strategy=decision.allocation.strategy.value,
        nvml=shop.session.nvml,
        boot_id=seen.observed.boot_id,
        created_at=shop.session.now(),
    )


def _result(run: Run, decision: Decision, records: Mapping[str, Record]) -> UpResult:
    diff = decision.difference
    undone = {chain.job for chain in decision.undo}
    # What `plan` warns of is news only where something was started.
    notices = list(decision.allocation.notices) if decision.chains else []
    for names, what in ((diff.changed, "changed in the plan"), (diff.removed, "no longer in the plan")):
        stay = [name for name in names if name not in undone]
        if stay:
            notices.append(
                Notice("kept-as-it-was", f"{what}, and left as it is: {', '.join(stay)}", hint="migctl up --replace")
            )
    again = [r for name in decision.kept if (r := records.get(name)) is not None and r.state.unsuccessful]
    if again:
        ends = ", ".join(f"{r.job} {r.state.value}" + (f" ({r.reason})" if r.reason else "") for r in again)
        which = "it" if len(again) == 1 else "them"
        notices.append(Notice("not-run-again", f"not run again: {ends}", hint=f"migctl up --retry runs {which} again"))
    return UpResult(
        run=run,
        decision=decision,
        records=records,
        started=tuple(chain.job for chain in decision.chains),
        notices=tuple(notices),
    )
