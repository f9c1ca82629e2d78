"""One turn of a run's queue: look, start what may start now, leave everything else as it is; under the locks that `up` takes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from migctl.core.choices import Reboot, RuntimeName
from migctl.core.plan import Plan
from migctl.core.queueing.attempts import due_again
from migctl.core.queueing.entries import Queue
from migctl.core.queueing.handing import is_spent
from migctl.core.queueing.progress import Progress
from migctl.core.queueing.situation import Situation
from migctl.core.queueing.submission import Submission
from migctl.core.queueing.wave import Wave, next_wave
from migctl.core.runs.events import Event
from migctl.core.runs.record import JobState, Record, StoppedBy
from migctl.core.runs.run import Run
from migctl.engine.apply import Workshop
from migctl.engine.claiming import claim
from migctl.engine.holders.idleness import hold_machine
from migctl.engine.lockwaits import TURN_MACHINE_S, TURN_RUN_S
from migctl.engine.mpsdaemons import stop_daemons
from migctl.engine.observe import Look
from migctl.engine.queueing.starting import Starting, start_wave
from migctl.engine.session import Session
from migctl.engine.surroundings import surroundings
from migctl.errors import Busy, Interrupted, MigctlError
from migctl.nvml.driver import Driver
from migctl.store.ledger import Ledger

LOG = logging.getLogger("migctl.supervisor")
LOOK_AGAIN_S = 30.0
"""What others hold ends without telling: so often it is looked at while a job waits for nothing of the run's own."""
PUT_OFF_S = 30.0
"""After a refusal of the driver the same is not tried again at once."""


@dataclass(kw_only=True)
class Memory:
    """What a supervisor keeps of one run between its turns; losing it costs nothing but a repeated look."""

    submission: Submission | None = None
    revision: tuple[int, int] | None = None
    """Of the submission's file."""
    queue: Queue | None = None
    queue_revision: tuple[int, int] | None = None
    blocked: dict[tuple[str, int], float] = field(default_factory=dict)
    """Instances that could not be destroyed → when that may be tried again."""
    put_off: dict[str, tuple[float, str]] = field(default_factory=dict)
    """Jobs whose instance could not be made → not before when, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a turn came to."""

    running: Mapping[str, str] = field(default_factory=dict)
    """Job → handle of its container or process, to be waited for."""
    unclosed: tuple[Record, ...] = ()
    """Ended jobs whose log is still to be saved and whose end is still to be told, or whose container nobody needs any more."""
    ending: tuple[Record, ...] = ()
    """Running jobs that the supervisor has to end, and whose record says so already."""
    started: tuple[str, ...] = ()
    waiting: int = 0
    wake_at: float | None = None
    over: bool = False
    """Nothing of the run is left to be done."""
    plan: Plan | None = None
    queue: Queue | None = None
    """As it was: whoever acts on `over` looks first whether it still is."""
    situation: Situation | None = None
    """What was decided on, where jobs say how long they take."""


def advance(
    session: Session, name: str, memory: Memory, *, report: Callable[[Event], None], cancel: threading.Event
) -> Turn:
    """Start what may start now.

    Raises:
        Busy: somebody holds the run or the machine; nothing was done.
        MigctlError: the machine cannot be read; nothing was done.
    """
    with ExitStack() as stack:
        ledger = stack.enter_context(session.ledger(write=True))
        stack.enter_context(session.run_lock(name, wait_s=TURN_RUN_S, cancel=cancel))
        run, queue = ledger.run(name), _queue(ledger, name, memory)
        if run is None or queue is None:
            return Turn(over=True)
        plan = _submission(ledger, name, memory).plan
        if queue.leaving:
            return Turn(over=True, plan=plan, queue=queue)
        runtime = session.runtime(RuntimeName(run.runtime))
        driver = stack.enter_context(session.driver())
        shop = Workshop(session=session, driver=driver, runtime=runtime, ledger=ledger, report=report, cancel=cancel)
        seen = shop.look(name)
        records = _write_down(ledger, seen)
        now = session.now()
        if run.boot_id and run.boot_id != seen.observed.boot_id:
            queue = _after_restart(ledger, run, plan, queue, records)
            run = ledger.save_run(replace(run, boot_id=seen.observed.boot_id))
        queue, ending = _endings(ledger, run, plan, queue, records, now)
        try:
            if _held(stack, session, driver, cancel):
                seen = shop.look(name)
                records = _write_down(ledger, seen)
            wave, starting, queue = _start(shop, run, plan, queue, memory, seen, records)
        except Interrupted:
            raise
        except MigctlError as error:
            # What has to be ended and seen off does not depend on whether anything can be started.
            LOG.warning("%s: %s", name, error.message)
            names = [entry.job for entry in queue.entries if _may_start(records.get(entry.job), queue, entry.job)]
            ledger.submissions.save_waits(name, dict.fromkeys(names, error.message))
            return _stalled(plan, records, ending, session.now())
        final = dict(starting.records)
        claim(session, run, final.values(), seen.observed.boot_id)
        for unended in stop_daemons(session, ledger):
            LOG.warning("%s", unended.message)
        words = {job: reason.words for job, reason in wave.waits.items()}
        ledger.submissions.save_waits(name, {**words, **{job: why for job, (_, why) in memory.put_off.items()}})
        # What has ended since it was decided, at once or because it could not start, is the next turn's to judge.
        early = {n for n, r in final.items() if r.state.ended and (n not in records or records[n].token != r.token)}
        return _turn(plan, queue, final, wave, starting, ending, memory, early, session.now())


def _held(stack: ExitStack, session: Session, driver: Driver, cancel: threading.Event) -> bool:
    """Take the machine; returns whether that took time, in which anything may have changed."""
    try:
        hold_machine(stack, session, driver, 0.0, cancel)
    except Busy:
        hold_machine(stack, session, driver, TURN_MACHINE_S, cancel)
        return True
    return False


def _start(
    shop: Workshop,
    run: Run,
    plan: Plan,
    queue: Queue,
    memory: Memory,
    seen: Look,
    records: Mapping[str, Record],
) -> tuple[Wave, Starting, Queue]:
    """Decide, with the machine held, and start what starts now."""
    session, ledger, now = shop.session, shop.ledger, shop.session.now()
    progress = Progress(
        records=records, queue=queue, again=_again(plan, records, memory, now), blocked=_blocked(memory, now)
    )
    there = surroundings(session, shop.runtime, ledger, seen.observed, run.name)
    there = replace(there, held={n: r for n, r in records.items() if not r.state.ended})
    wave = next_wave(plan, there, progress, now=now)
    if not queue.wave and wave.weights:
        queue = replace(queue, wave=wave.weights)
        ledger.submissions.save_queue(run.name, queue)
    starting = start_wave(shop, run, _submission(ledger, run.name, memory), wave, seen, records)
    _remember(memory, starting, session.now())
    return wave, starting, queue


def _may_start(record: Record | None, queue: Queue, job: str) -> bool:
    return (record is None or record.state is JobState.QUEUED) and job not in queue.stopped


def _stalled(plan: Plan, records: Mapping[str, Record], ending: tuple[Record, ...], now: float) -> Turn:
    """Nothing can be started now; everything else goes on, and it is looked again in a while."""
    alive = _alive(records)
    return Turn(
        running=alive,
        unclosed=tuple(r for r in records.values() if r.state.ended and not r.closed),
        ending=ending,
        waiting=1,
        wake_at=min([now + PUT_OFF_S, *_deadlines(plan, records, alive).values()]),
        plan=plan,
    )


def _alive(records: Mapping[str, Record]) -> dict[str, str]:
    """Job → handle, of what has not ended."""
    return {n: r.container_id for n, r in records.items() if not r.state.ended and r.container_id is not None}


def _deadlines(plan: Plan, records: Mapping[str, Record], alive: Collection[str]) -> dict[str, float]:
    """Running jobs with a `timeout` → when it is over (Unix seconds)."""
    limits = {job.name: job.timeout_s for job in plan.jobs if job.timeout_s is not None}
    return {
        name: started + limits[name]
        for name in alive
        if name in limits and (started := records[name].started_at) is not None and records[name].stopped_by is None
    }


def _submission(ledger: Ledger, name: str, memory: Memory) -> Submission:
    """The plan as it was last submitted; read again only where `up` has replaced it."""
    revision = ledger.submissions.revision(name)
    if memory.submission is None or memory.revision != revision:
        found = ledger.submissions.submission(name)
        if found is None:
            raise Busy("no-submission", f"the plan of {name} is being replaced", where=f"run {name}")
        memory.submission, memory.revision = found, revision
    return memory.submission


def _queue(ledger: Ledger, name: str, memory: Memory) -> Queue | None:
    """The queue as it is; read again only where somebody has changed it."""
    revision = ledger.submissions.queue_revision(name)
    if revision is None or memory.queue_revision != revision:
        memory.queue, memory.queue_revision = ledger.submissions.queue(name), revision
    return memory.queue


def _write_down(ledger: Ledger, seen: Look) -> dict[str, Record]:
    """How jobs ended is recorded when it is seen: their container may be gone the next time."""
    records: dict[str, Record] = {}
    changed: list[Record] = []
    for name, record in seen.records.items():
        known = seen.written.get(name)
        fresh = record if record.intent is None or not record.state.ended else replace(record, intent=None)
        if known is not None and fresh != known and fresh.state is not JobState.STARTING:
            fresh = replace(fresh, revision=known.revision + 1)
            changed.append(fresh)
        records[name] = fresh
    ledger.save(changed, durable=False)
    return records


def _after_restart(ledger: Ledger, run: Run, plan: Plan, queue: Queue, records: Mapping[str, Record]) -> Queue:
    """The machine was restarted: the queue goes on where the plan says so, or where every job that was lost can go on by itself."""
    resumable = {job.name for job in plan.jobs if job.resumable}
    lost = [name for name, record in records.items() if record.state is JobState.LOST and record.restarted]
    if plan.on_reboot is Reboot.RESUME or (lost and all(name in resumable for name in lost)) or queue.held:
        return queue
    held = replace(queue, held=True, reason="the machine was restarted (on_reboot: hold)")
    ledger.submissions.save_queue(run.name, held)
    return held


def _endings(
    ledger: Ledger, run: Run, plan: Plan, queue: Queue, records: dict[str, Record], now: float
) -> tuple[Queue, tuple[Record, ...]]:
    """Jobs that are to be ended now (`timeout`, `fail_fast`), after their records say so; and the queue, empty where one failed."""
    limits = {job.name: job.timeout_s for job in plan.jobs if job.timeout_s is not None}
    ending: dict[str, Record] = {}
    for name, record in records.items():
        if record.state is not JobState.RUNNING or record.started_at is None:
            continue
        limit = limits.get(name)
        if record.stopped_by is not None:
            ending[name] = record  # an earlier supervisor did not come to it
        elif limit is not None and now >= record.started_at + limit:
            reason = f"timeout: it ran for more than {limit:g} s"
            ending[name] = replace(record, stopped_by=StoppedBy.TIMEOUT, reason=reason)
    failed = next((r for r in records.values() if _failed_for_good(r, plan)), None) if plan.fail_fast else None
    if failed is not None:
        again = due_again(plan.jobs, records)
        unborn = tuple(n for n in queue.names if (n not in records or n in again) and n not in queue.stopped)
        if unborn:
            reason = f"not started: {failed.job} {failed.state.value} (fail_fast)"
            queue = replace(queue, stopped=(*queue.stopped, *unborn), reason=reason)
            ledger.submissions.save_queue(run.name, queue)
        for name, record in records.items():
            if record.state is JobState.RUNNING and name not in ending:
                reason = f"ended because {failed.job} {failed.state.value} (fail_fast)"
                ending[name] = replace(record, stopped_by=StoppedBy.FAIL_FAST, reason=reason)
    fresh = [replace(r, revision=r.revision + 1) for n, r in ending.items() if r != records[n]]
    ledger.save(fresh, durable=True)
    records.update({record.job: record for record in fresh})
    return queue, tuple(records[name] for name in ending)


def _failed_for_good(record: Record, plan: Plan) -> bool:
    if record.state not in (JobState.FAILED, JobState.LOST) or record.restarted:
        return False
    return not due_again((job for job in plan.jobs if job.name == record.job), {record.job: record})


def _again(plan: Plan, records: Mapping[str, Record], memory: Memory, now: float) -> dict[str, float]:
    """Jobs that are to be run once more, and those that the driver refused a moment ago."""
    ended = [job for job in plan.jobs if job.name in records]
    found = due_again(ended, records)
    names = {job.name for job in plan.jobs}
    memory.put_off = {
        # An `up` may have started it meanwhile.
        name: (until, why)
        for name, (until, why) in memory.put_off.items()
        if until > now and name in names and (name not in records or records[name].state.ended)
    }
    return {**{name: until for name, (until, _) in memory.put_off.items()}, **found}


def _blocked(memory: Memory, now: float) -> frozenset[tuple[str, int]]:
    memory.blocked = {key: until for key, until in memory.blocked.items() if until > now}
    return frozenset(memory.blocked)


def _remember(memory: Memory, starting: Starting, now: float) -> None:
    for name, error in starting.refused.items():
        LOG.warning("%s waits on: %s%s", name, error.message, f"; try: {error.hint}" if error.hint else "")
    memory.blocked |= dict.fromkeys(starting.blocked, now + PUT_OFF_S)
    memory.put_off |= {job: (now + PUT_OFF_S, error.message) for job, error in starting.refused.items()}


def _to_close(record: Record) -> bool:
    return record.state.ended and (not record.closed or is_spent(record))


def _turn(
    plan: Plan,
    queue: Queue,
    records: Mapping[str, Record],
    wave: Wave,
    starting: Starting,
    ending: tuple[Record, ...],
    memory: Memory,
    early: Collection[str],
    now: float,
) -> Turn:
    alive = _alive(records)
    deadlines = _deadlines(plan, records, alive)
    never = set(wave.never)
    waiting = [name for name in wave.waits if name not in never]
    waits = [*((wave.wake_at,) if wave.wake_at is not None else ()), *deadlines.values()]
    waits += [*(until for until, _ in memory.put_off.values()), *(memory.blocked.values() if waiting else ())]
    if waiting and not queue.held and (not alive or wave.beside_others):
        waits.append(now + LOOK_AGAIN_S)
    if early:
        waits.append(now)
    return Turn(
        running=alive,
        unclosed=tuple(r for n, r in records.items() if _to_close(r) and n not in early),
        ending=ending,
        started=starting.started,
        waiting=len(waiting),
        wake_at=min(waits, default=None),
        over=not alive and not waiting and not memory.put_off and not early,
        plan=plan,
        queue=queue,
        situation=wave.situation if any(job.expect_s is not None for job in plan.jobs) else None,
    )
