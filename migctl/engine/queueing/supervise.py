"""Goes on with the runs of one user when the commands that submitted them are gone: a turn for each event, asleep between them."""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

from migctl.core.choices import Finish, RuntimeName
from migctl.core.plan import Plan
from migctl.core.runs.events import Event
from migctl.core.runs.record import Record
from migctl.core.runs.run import Run
from migctl.engine import recording
from migctl.engine.down import take_down
from migctl.engine.lockwaits import EARLIER_SUPERVISOR_S
from migctl.engine.queueing.advance import Memory, Turn, advance
from migctl.engine.queueing.closing import begin_to_leave, close, conclude, run_over
from migctl.engine.queueing.foresight import Foresight
from migctl.engine.queueing.supervisor import bell_path, lock_name, places
from migctl.engine.session import Session
from migctl.errors import Busy, MigctlError
from migctl.host.doorbell import Doorbell
from migctl.store.ledger import Ledger

LOG = logging.getLogger("migctl.supervisor")
BUSY_AGAIN_S = 5.0
FAILED_AGAIN_S = 30.0
LONGEST_SLEEP_S = 3600.0
"""A clock that was set back delays what is due by no more."""
_ALL = ""
"""The event after which every run is looked at."""


@dataclass(kw_only=True)
class _Watched:
    """One run under supervision."""

    session: Session
    runtime: str
    environ: Mapping[str, str]
    """In which it was submitted."""
    memory: Memory = field(default_factory=Memory)
    foresight: Foresight = field(default_factory=Foresight)
    wake_at: float | None = None
    waiting: bool = False
    """Jobs of it wait: any job's end may be theirs."""
    leaving: Turn | None = None
    """Nothing of it is left to be done but to take it down."""
    handles: set[str] = field(default_factory=set)
    """Units whose end a thread waits for."""
    ending: set[str] = field(default_factory=set)
    """Units that a thread ends."""


def supervise(
    session: Session,
    *,
    ready: threading.Event | None = None,
    stop: threading.Event,
    report: Callable[[Event], None] = lambda _: None,
) -> None:
    """Until nothing is left to supervise, or `stop` is set and somebody rings.

    Args:
        session: of the user whose runs these are.
        ready: set once the bell can be rung.
        stop: set by a signal; running jobs go on.
        report: told every step.

    Raises:
        Busy: another supervisor of this user is at work.
    """
    while True:
        with ExitStack() as stack:
            stack.enter_context(session.lock(lock_name(session), wait_s=EARLIER_SUPERVISOR_S))
            supervisor = _Supervisor(session, stop, report)
            bell = Doorbell(bell_path(session), session.caller.uid, session.caller.gid, supervisor.ring)
            stack.callback(bell.close)
            if ready is not None:
                ready.set()
            supervisor.run()
        # Whoever submitted something after the last look and before the bell was gone relies on this one.
        if stop.is_set() or not {run.name for run in unfinished(session)} - supervisor.unusable:
            return
        LOG.info("something new came just now")


def unfinished(session: Session) -> list[Run]:
    """The runs that have something left to be done."""
    with session.ledger(write=False) as ledger:
        return [run for run in ledger.runs() if _is_open(ledger, run.name)]


def _is_open(ledger: Ledger, name: str) -> bool:
    try:
        found = ledger.submissions.queue(name)
    except MigctlError as error:
        LOG.warning("%s", error.message)
        return False
    return found is not None and (not found.told or found.leaving)


class _Supervisor:
    def __init__(self, session: Session, stop: threading.Event, report: Callable[[Event], None]) -> None:
        self._session = session
        self._stop = stop
        self._report = report
        self._events: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._runs: dict[str, _Watched] = {}
        self.unusable: frozenset[str] = frozenset()
        """Runs whose plan could not be read at the last look: they keep nobody awake."""

    def ring(self) -> None:
        """Something is new; which run it concerns is not known."""
        self._events.put(_ALL)

    def run(self) -> None:
        """Turns until nothing is left."""
        due = {_ALL}
        while True:
            if _ALL in due:
                due |= self._find()
            for name in sorted(due - {_ALL}):
                if name in self._runs and not self._stop.is_set():
                    self._look_after(name, self._runs[name])
            if not self._runs or self._stop.is_set():
                return
            due = self._wait()

    def _find(self) -> set[str]:
        """Runs that are new, and new environments of known ones; returns all that are to be looked at."""
        there = {run.name: run for run in unfinished(self._session)}
        for name in self._runs.keys() - there.keys():
            if self._runs[name].leaving is None:
                del self._runs[name]
        unusable: set[str] = set()
        for name, run in there.items():
            try:
                environ = self._environ(run)
                known = self._runs.get(name)
                if known is None:
                    session = Session(environ=environ, nvml=run.nvml)
                    self._runs[name] = _Watched(session=session, runtime=run.runtime, environ=environ)
                elif known.environ != environ:
                    known.session, known.environ = Session(environ=environ, nvml=run.nvml), environ
            except MigctlError as error:
                LOG.warning("%s: %s", name, error.message)
                unusable.add(name)
        self.unusable = frozenset(unusable)
        return set(self._runs)

    def _environ(self, run: Run) -> Mapping[str, str]:
        """The environment in which the run was submitted: which engine is its, and who its owner."""
        with self._session.ledger(write=False) as ledger:
            submission = ledger.submissions.submission(run.name)
        environ = dict(submission.environ) if submission is not None else dict(self._session.environ)
        return {**environ, **places(self._session)}

    def _wait(self) -> set[str]:
        """Sleep until something happens; returns the runs it concerns."""
        wakes = [one.wake_at for one in self._runs.values() if one.wake_at is not None]
        timeout_s = min(LONGEST_SLEEP_S, max(0.0, min(wakes) - time.time())) if wakes else None
        due: set[str] = set()
        try:
            due.add(self._events.get(timeout=timeout_s))
            while True:
                due.add(self._events.get_nowait())
        except queue.Empty:
            pass
        if due:
            due |= {name for name, one in self._runs.items() if one.waiting}
        now = time.time()
        return due | {name for name, one in self._runs.items() if one.wake_at is not None and one.wake_at <= now}

    def _look_after(self, name: str, one: _Watched) -> None:
        """A turn of this run, whose trouble is no other run's."""
        try:
            if one.leaving is not None:
                self._finish(name, one, one.leaving)
            else:
                self._turn(name, one)
        except Busy as error:
            LOG.info("%s: %s", name, error.message)
            one.wake_at = time.time() + BUSY_AGAIN_S
        except MigctlError as error:
            LOG.warning("%s: %s", name, error.message)
            one.wake_at = time.time() + FAILED_AGAIN_S
        except Exception:
            LOG.exception("%s: this is a bug in migctl", name)
            one.wake_at = time.time() + FAILED_AGAIN_S

    def _turn(self, name: str, one: _Watched) -> None:
        turn = advance(one.session, name, one.memory, report=self._report, cancel=self._stop)
        for job in turn.started:
            LOG.info("%s: %s started", name, job)
        if turn.started:
            recording.ensure(self._session)
        one.wake_at, one.waiting = turn.wake_at, turn.waiting > 0
        for handle in set(turn.running.values()) - one.handles:
            one.handles.add(handle)
            self._in_thread(partial(self._until_ended, name, one, handle))
        for record in turn.ending:
            if record.container_id is not None and record.container_id not in one.ending:
                one.ending.add(record.container_id)
                self._in_thread(partial(self._end, name, one, record))
        if turn.unclosed:
            self._see_off(name, one, turn)
        elif turn.over:
            self._finish(name, one, turn)
        if turn.situation is not None and name in self._runs and not turn.over:
            later = one.foresight.look_ahead(one.session, name, turn.situation)
            one.wake_at = min((at for at in (one.wake_at, later) if at is not None), default=None)

    @staticmethod
    def _in_thread(work: Callable[[], None]) -> None:
        threading.Thread(target=work, daemon=True).start()

    def _until_ended(self, name: str, one: _Watched, handle: str) -> None:
        try:
            one.session.runtime(RuntimeName(one.runtime)).wait(handle)
        except MigctlError as error:
            if not self._stop.is_set():
                LOG.warning("%s: waiting for %s: %s", name, handle, error.message)
            time.sleep(BUSY_AGAIN_S)
        finally:
            one.handles.discard(handle)
            self._events.put(name)

    def _end(self, name: str, one: _Watched, record: Record) -> None:
        handle = record.container_id
        assert handle is not None
        LOG.info("%s: ending %s: %s", name, record.job, record.reason)
        try:
            one.session.runtime(RuntimeName(one.runtime)).stop(handle, record.grace_s)
        except MigctlError as error:
            LOG.warning("%s: %s", name, error.message)
            time.sleep(BUSY_AGAIN_S)
        finally:
            one.ending.discard(handle)
            self._events.put(name)

    def _see_off(self, name: str, one: _Watched, turn: Turn) -> None:
        """Save what ended jobs leave; then there may be nothing left to do."""
        assert turn.plan is not None
        for record in turn.unclosed:
            if not record.closed:
                why = f" ({record.reason})" if record.reason else ""
                LOG.info("%s: %s %s%s", name, record.job, record.state.value, why)
        problems = close(one.session, name, turn.plan, turn.unclosed)
        for error in problems:
            LOG.warning("%s: %s", name, error.message)
        if problems:
            one.wake_at = min(one.wake_at or math.inf, time.time() + FAILED_AGAIN_S)
        elif turn.over:
            self._events.put(name)

    def _finish(self, name: str, one: _Watched, turn: Turn) -> None:
        """Nothing of the run is left to be done: tell so, and take it down where the plan says so."""
        if turn.plan is not None and turn.plan.on_finish is Finish.DOWN:
            self._leave(name, one, turn, turn.plan)
        elif turn.plan is not None:
            if not conclude(one.session, name, turn.queue):
                self._events.put(name)
                return
            self._tell(name, one, turn.plan, self._records(name, one))
        del self._runs[name]

    def _leave(self, name: str, one: _Watched, turn: Turn, plan: Plan) -> None:
        """Take it down, unless somebody has submitted it anew; what cannot be removed yet is tried again, also by the next one."""
        queue = turn.queue
        assert queue is not None, "a plan comes with its queue"
        if one.leaving is None and not queue.leaving:
            queue = begin_to_leave(one.session, name, queue)
            self._tell(name, one, plan, self._records(name, one))
        one.leaving = replace(turn, queue=queue)
        try:
            take_down(
                one.session,
                name,
                grace_s=None,
                report=self._report,
                cancel=threading.Event(),
                unless=lambda found: found != queue,
            )
        except Busy as error:
            if error.id == "run-changed":
                one.leaving = None
            raise

    @staticmethod
    def _records(name: str, one: _Watched) -> Mapping[str, Record]:
        with one.session.ledger(write=False) as ledger:
            return {record.job: record for record in ledger.records(name)}

    @staticmethod
    def _tell(name: str, one: _Watched, plan: Plan, records: Mapping[str, Record]) -> None:
        LOG.info("%s: nothing is left to be done", name)
        run_over(one.session, plan, records)
