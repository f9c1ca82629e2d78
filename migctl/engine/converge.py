"""`up`: bring a run to what its plan says, all or nothing, under the locks that keep two of them apart."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from migctl.core.allocation import Allocation
from migctl.core.choices import Strategy
from migctl.core.events import Event
from migctl.core.mig import Gpu
from migctl.core.ownership import Standing, standing
from migctl.core.plan import Plan
from migctl.core.record import JobState, Record
from migctl.core.run import Run
from migctl.engine.apply import Workshop
from migctl.engine.claiming import claim
from migctl.engine.decide import Decision, UpOptions, consider
from migctl.engine.failed_gpus import real_failure
from migctl.engine.idleness import hold_machine
from migctl.engine.launch import LaunchPad
from migctl.engine.mode import enable, restore, to_enable
from migctl.engine.observe import Look, boot, check_source
from migctl.engine.others import controller_notices
from migctl.engine.rights import require_instances, sudo_notices
from migctl.engine.ruling import refuse, refuse_mode
from migctl.engine.services import recover_services
from migctl.engine.session import Session
from migctl.engine.surroundings import surroundings
from migctl.engine.undo import partly, undo
from migctl.errors import (
    HostError,
    MigctlError,
    Notice,
    PartlyApplied,
    PlanError,
)
from migctl.host.claims import store_name
from migctl.host.procfs import memory_total_mib
from migctl.runtimes.api import Runtime
from migctl.store.ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class UpResult:
    """What `up` did, or would do."""

    run: Run
    decision: Decision
    records: Mapping[str, Record]
    started: tuple[str, ...]
    notices: tuple[Notice, ...]


def preview(session: Session, plan: Plan, options: UpOptions) -> Decision:
    """What `up` would do now; reads only."""
    with session.driver() as driver:
        shop = Workshop(
            session=session,
            driver=driver,
            runtime=session.runtime(plan.runtime),
            ledger=session.ledger(write=False),
            report=lambda _: None,
        )
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
        Interrupted: a signal came; what this call had made is undone.
    """
    runtime = session.runtime(plan.runtime)
    with ExitStack() as stack:
        ledger = stack.enter_context(session.ledger(write=True))
        stack.enter_context(session.run_lock(plan.name, wait_s=options.wait_for_s))
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
        _check_path(ledger.run(plan.name), plan)
        check_source(session, driver, ledger, ledger.run(plan.name))
        gpus = driver.gpus()
        with real_failure(driver.failures, plan):
            off = to_enable(plan, gpus)
        if off:
            refuse_mode(session, off)
            hold_machine(stack, session, driver, options.wait_for_s)
            stack.enter_context(_mode_on(shop, plan, options, off))
        first = consider(shop, plan, options)
        decision, seen = first.decision, first.seen
        refuse(first.broken)
        _refuse_waiting(decision.allocation)
        require_instances(session, decision.records)
        images = _prepare(session, runtime, decision, {})
        if not off:
            hold_machine(stack, session, driver, options.wait_for_s)
        again = shop.look(plan.name).observed
        if (
            again.ground != seen.observed.ground
            or surroundings(session, runtime, ledger, again, plan.name).ground != first.machine.ground
        ):
            # Somebody was quicker: with instances, or (where GPUs are shared) only with claims on cores.
            second = consider(shop, plan, options)
            decision, seen = second.decision, second.seen
            refuse(second.broken)
            _refuse_waiting(decision.allocation)
            images = _prepare(session, runtime, decision, images)
        _write_down(ledger, plan.name, seen, {chain.job for chain in (*decision.undo, *decision.chains)})
        if not decision.chains and not decision.undo:
            run = ledger.run(plan.name) or _run(shop, plan, decision, seen)
            return _result(run, decision, seen.records)
        return _act(shop, plan, decision, seen, images)


@contextmanager
def _mode_on(shop: Workshop, plan: Plan, options: UpOptions, off: Sequence[Gpu]) -> Iterator[None]:
    """Turn MIG mode on for what follows, and off again where that fails before anything of the run is there.

    Drivers that tell the profiles with the mode off let the plan be checked first, so that a plan that cannot fit changes nothing.
    """
    if all(gpu.profiles for gpu in off):
        found = consider(shop, plan, options)
        refuse(found.broken)
        _refuse_waiting(found.decision.allocation)
    run = shop.ledger.run(plan.name) or Run(
        name=plan.name,
        plan_path=plan.path,
        owner_uid=shop.session.caller.uid,
        runtime=plan.runtime.value,
        strategy=Strategy.MIG.value,
        nvml=shop.session.nvml,
        created_at=shop.session.now(),
    )
    run = enable(shop, run, off)
    try:
        yield
    except MigctlError:
        if not shop.ledger.records(plan.name):
            restore(shop, run, ())
            shop.ledger.forget_run(plan.name)
        raise


def _act(shop: Workshop, plan: Plan, decision: Decision, seen: Look, images: Mapping[str, str]) -> UpResult:
    session = shop.session
    run = shop.ledger.run(plan.name) or _run(shop, plan, decision, seen)
    shop.ledger.save_run(run)
    leaving = {chain.job: seen.records[chain.job] for chain in decision.undo}
    staying = {name: r for name, r in seen.records.items() if name not in leaving}
    try:
        claim(session, run, {**seen.records, **decision.records}.values(), seen.observed.boot_id)
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
    pad = LaunchPad(
        plan=plan,
        caller=session.caller,
        environ=session.environ,
        images=images,
        batch_sizes={a.job.name: a.batch_size for a in decision.allocation.assignments},
        threads={a.job.name: a.cpu.threads for a in decision.allocation.assignments},
        simulated=session.simulated,
        memory_total_mib=memory_total_mib(session.root),
        minors={gpu.uuid: gpu.minor for gpu in seen.observed.gpus},
        store=store_name(session.paths.state),
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
            problems = _unverified(shop, run.name, decision)
        except MigctlError as error:
            problems = {"": error}  # what cannot be looked at is not verified
    if problems or shop.cancel.is_set():
        undo(shop, run, [c.job for c in decision.chains], problems)
    final = {**staying, **made}
    try:
        claim(session, run, final.values(), seen.observed.boot_id)
    except MigctlError as error:
        raise partly(run.name, [error], "telling others what this run holds") from error
    result = _result(run, decision, final)
    return replace(result, notices=(*sudo_notices(session), *result.notices, *controller_notices(session)))


def _prepare(session: Session, runtime: Runtime, decision: Decision, images: Mapping[str, str]) -> Mapping[str, str]:
    """The images of all jobs that will be started, those included that are there already."""
    jobs = [
        a.job for a in decision.allocation.assignments if a.job.name in decision.starting and a.job.name not in images
    ]
    return {**images, **runtime.prepare(jobs, simulated=session.simulated, on_progress=None)} if jobs else images


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


def _refuse_waiting(allocation: Allocation) -> None:
    """Without a queue a plan runs at once or not at all."""
    if allocation.blocked is not None:
        raise allocation.blocked


def _check_path(run: Run | None, plan: Plan) -> None:
    if run is not None and run.plan_path != plan.path:
        raise PlanError(
            "run-name-taken",
            f"the run {plan.name} was made from {run.plan_path or 'the command line'}",
            where=plan.path or None,
            hint=f"give this plan another name:, or end the other run: migctl down {plan.name}",
        )


def _unverified(shop: Workshop, run: str, decision: Decision) -> dict[str, MigctlError]:
    """List again and compare: what NVML called a success must be there, and be ours (NVIDIA/mig-parted#9, #18)."""
    now = shop.look(run)
    wrong: dict[str, MigctlError] = {}
    for chain in decision.chains:
        record = now.records.get(chain.job)
        if record is None:
            continue
        if record.profile is not None and standing(record.instance, now.observed) is not Standing.OURS:
            wrong[chain.job] = HostError(
                "instance-missing",
                f"the driver reported success, but the GPU instance of {chain.job} ({record.profile}) is not there as recorded",
                where=f"job {chain.job}",
                hint="migctl check",
            )
        elif record.state is JobState.LOST:
            wrong[chain.job] = HostError(
                "unit-missing", f"{chain.job} was started and is gone", where=f"job {chain.job}", hint="migctl check"
            )
    return wrong
