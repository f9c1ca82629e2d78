"""Goes on with the runs of one user when the commands that submitted them are gone: a turn for each event, asleep between them."""

from __future__ import annotations

import logging
import queue
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field

from migctl.core.choices import Finish, RuntimeName
from migctl.core.record import Record
from migctl.core.run import Run
from migctl.engine.advance import Memory, Turn, advance
from migctl.engine.closing import close, run_over
from migctl.engine.down import take_down
from migctl.engine.session import Session
from migctl.engine.supervisor import bell_path, lock_name
from migctl.errors import Busy, MigctlError
from migctl.host.doorbell import Doorbell
from migctl.store.ledger import Ledger

LOG = logging.getLogger("migctl.supervisor")
BUSY_AGAIN_S = 5.0
FAILED_AGAIN_S = 30.0
_ALL = ""
"""The event after which every run is looked at."""


@dataclass(kw_only=True)
class _Watched:
    """One run under supervision."""

    session: Session
    runtime: str
    memory: Memory = field(default_factory=Memory)
    wake_at: float | None = None
    handles: set[str] = field(default_factory=set)
    """Units whose end a thread waits for."""
    ending: set[str] = field(default_factory=set)
    """Units that a thread ends."""


def supervise(session: Session, *, ready: threading.Event | None = None, stop: threading.Event) -> None:
    """Until nothing is left to supervise, or `stop` is set and somebody rings.

    Args:
        session: of the user whose runs these are.
        ready: set once the bell can be rung.
        stop: set by a signal; running jobs go on.

    Raises:
        Busy: another supervisor of this user is at work.
    """
    while True:
        with ExitStack() as stack:
            stack.enter_context(session.lock(lock_name(session)))
            bell = Doorbell(bell_path(session), session.caller.uid, session.caller.gid)
            stack.callback(bell.close)
            if ready is not None:
                ready.set()
            _Supervisor(session, bell, stop).run()
        # Whoever submitted something after the last look and before the bell was gone relies on this one.
        if stop.is_set() or not unfinished(session):
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
    return found is not None and not found.told


class _Supervisor:
    def __init__(self, session: Session, bell: Doorbell, stop: threading.Event) -> None:
        self._session = session
        self._stop = stop
        self._events: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._runs: dict[str, _Watched] = {}
        threading.Thread(target=self._listen, args=(bell,), daemon=True).start()

    def run(self) -> None:
        """Turns until nothing is left."""
        due = {_ALL}
        while True:
            if _ALL in due:
                due |= self._find()
            for name in sorted(due - {_ALL}):
                if name in self._runs and not self._stop.is_set():
                    self._turn(name)
            if not self._runs or self._stop.is_set():
                return
            due = self._wait()

    def _listen(self, bell: Doorbell) -> None:
        while True:
            try:
                bell.wait()
            except OSError:
                return
            self._events.put(_ALL)

    def _find(self) -> set[str]:
        """Runs that are new; returns all that are to be looked at."""
        there = {run.name: run for run in unfinished(self._session)}
        for name in self._runs.keys() - there.keys():
            del self._runs[name]
        for name in there.keys() - self._runs.keys():
            try:
                self._runs[name] = self._watched(there[name])
            except MigctlError as error:
                LOG.warning("%s: %s", name, error.message)
        return set(self._runs)

    def _watched(self, run: Run) -> _Watched:
        """With the environment in which the run was submitted: which engine is its, and who its owner."""
        with self._session.ledger(write=False) as ledger:
            submission = ledger.submissions.submission(run.name)
        environ = dict(submission.environ) if submission is not None else dict(self._session.environ)
        kept = {name: self._session.environ[name] for name in _PLACES if name in self._session.environ}
        session = Session(environ={**environ, **kept}, nvml=run.nvml)
        return _Watched(session=session, runtime=run.runtime, memory=Memory())

    def _wait(self) -> set[str]:
        """Sleep until something happens; returns the runs it concerns."""
        wakes = [one.wake_at for one in self._runs.values() if one.wake_at is not None]
        timeout = max(0.0, min(wakes) - time.time()) if wakes else None
        due: set[str] = set()
        try:
            due.add(self._events.get(timeout=timeout))
            while True:
                due.add(self._events.get_nowait())
        except queue.Empty:
            pass
        now = time.time()
        return due | {name for name, one in self._runs.items() if one.wake_at is not None and one.wake_at <= now}

    def _turn(self, name: str) -> None:
        one = self._runs[name]
        try:
            turn = advance(one.session, name, one.memory, report=lambda _: None, cancel=self._stop)
        except Busy as error:
            LOG.info("%s: %s", name, error.message)
            one.wake_at = time.time() + BUSY_AGAIN_S
            return
        except MigctlError as error:
            LOG.warning("%s: %s", name, error.message)
            one.wake_at = time.time() + FAILED_AGAIN_S
            return
        for job in turn.started:
            LOG.info("%s: %s started", name, job)
        one.wake_at = turn.wake_at
        for handle in set(turn.running.values()) - one.handles:
            self._in_thread(self._until_ended, name, one, handle)
        for record in turn.ending:
            if record.container_id is not None and record.container_id not in one.ending:
                self._in_thread(self._end, name, one, record)
        if turn.unclosed or turn.over:
            self._see_off(name, one, turn)

    def _in_thread(self, work: object, *values: object) -> None:
        assert callable(work)
        threading.Thread(target=work, args=values, daemon=True).start()

    def _until_ended(self, name: str, one: _Watched, handle: str) -> None:
        one.handles.add(handle)
        try:
            one.session.runtime(RuntimeName(one.runtime)).wait(handle)
        except MigctlError as error:
            LOG.warning("%s: waiting for %s: %s", name, handle, error.message)
            time.sleep(BUSY_AGAIN_S)
        finally:
            one.handles.discard(handle)
            self._events.put(name)

    def _end(self, name: str, one: _Watched, record: Record) -> None:
        handle = record.container_id
        assert handle is not None
        one.ending.add(handle)
        LOG.info("%s: ending %s: %s", name, record.job, record.reason)
        try:
            one.session.runtime(RuntimeName(one.runtime)).stop(handle, record.grace_s)
        except MigctlError as error:
            LOG.warning("%s: %s", name, error.message)
        finally:
            one.ending.discard(handle)
            self._events.put(name)

    def _see_off(self, name: str, one: _Watched, turn: Turn) -> None:
        """Save what ended jobs leave, then see whether that was all."""
        assert turn.plan is not None or not turn.unclosed
        if turn.plan is not None:
            for record in turn.unclosed:
                LOG.info(
                    "%s: %s %s%s", name, record.job, record.state.value, f" ({record.reason})" if record.reason else ""
                )
            for error in close(one.session, name, turn.plan, turn.unclosed):
                LOG.warning("%s: %s", name, error.message)
                one.wake_at = time.time() + FAILED_AGAIN_S
                return
            if turn.unclosed and not turn.over:
                return
            if any(job.retries for job in turn.plan.jobs) and turn.unclosed:
                self._events.put(name)  # what was found out about an end can mean another attempt
                return
        self._finish(name, one, turn)

    def _finish(self, name: str, one: _Watched, turn: Turn) -> None:
        del self._runs[name]
        if turn.plan is None:
            return
        LOG.info("%s: nothing is left to be done", name)
        with one.session.ledger(write=True) as ledger:
            found = ledger.submissions.queue(name)
            if found is not None:
                from dataclasses import replace

                ledger.submissions.save_queue(name, replace(found, told=True))
            records = {record.job: record for record in ledger.records(name)}
        run_over(one.session, turn.plan, records)
        if turn.plan.on_finish is Finish.DOWN:
            take_down(one.session, name, grace_s=None, report=lambda _: None, cancel=threading.Event())


_PLACES = ("MIGCTL_STATE_DIR", "MIGCTL_RUN_DIR", "MIGCTL_SIM_STATE")
"""Where this supervisor's user keeps everything, whatever the run's own environment said."""
