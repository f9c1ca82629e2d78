"""The recorder's process: watches whatever of one user's jobs runs, keeps what it sees, and ends when nothing runs any more."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from logging.handlers import RotatingFileHandler
from typing import Final

from migctl.engine.recording import LOG_FILE, bell_path, lock_name
from migctl.engine.session import Session
from migctl.errors import Busy, MigctlError
from migctl.host.doorbell import Doorbell
from migctl.watch.recorder import Recorder
from migctl.watch.roster import Watched, running
from migctl.watch.sampler import Sampler
from migctl.watch.watcher import Watcher

LOG = logging.getLogger("migctl.recorder")
EVERY_S: Final = 2.0
"""Between two readings: what is kept are averages over ten seconds, and verdicts stand on twenty."""
GPU_EVERY_S: Final = 10.0
"""Between two readings of the GPUs, one for each sample that is kept: nobody waits for a figure."""
_ROSTER_EVERY_S: Final = 5.0
_MANY: Final = 16
"""Jobs from which the records are read in proportion less often; a job that ends, and the bell, have them read at once."""
LINGER_S: Final = 20.0
"""After the last job another may follow: of a queue, or of a user who tries."""
_AGAIN_S: Final = 30.0
"""After records that could not be read."""
_LOCK_WAIT_S: Final = 5.0
_LOG_BYTES: Final = 1 << 20


def main() -> None:
    """Record the jobs of the environment's user until none runs, or a signal comes."""
    session = Session(environ=dict(os.environ))
    os.umask(0o077)
    if not session.paths.state.is_dir():
        return  # all of it has been removed meanwhile
    handler = RotatingFileHandler(session.paths.state / LOG_FILE, maxBytes=_LOG_BYTES, backupCount=1)
    logging.basicConfig(level=logging.INFO, handlers=[handler], format="%(asctime)s %(message)s")
    stop, rung = threading.Event(), threading.Event()

    def leave(_number: int, _frame: object) -> None:
        stop.set()
        rung.set()

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        keep_recording(session, stop=stop, rung=rung)
    except Busy:
        LOG.info("another recorder is at work")
    except MigctlError as error:
        LOG.error("%s", error.message)
        raise SystemExit(error.exit_code) from None
    except Exception:
        LOG.exception("this is a bug in migctl")
        raise SystemExit(1) from None


def keep_recording(
    session: Session,
    *,
    stop: threading.Event,
    rung: threading.Event,
    every_s: float = EVERY_S,
    linger_s: float = LINGER_S,
) -> None:
    """Record as long as something runs, as the only recorder of this state directory.

    Args:
        session: of the user whose jobs run.
        stop: set to leave; `rung` is to be set behind it.
        rung: set by whoever has started something.
        every_s: between two readings.
        linger_s: how long nothing may run.

    Raises:
        Busy: another recorder is at work.
        HostError: it cannot listen.
    """
    with session.lock(lock_name(session), wait_s=_LOCK_WAIT_S):
        while True:
            bell = Doorbell(bell_path(session), session.caller.uid, session.caller.gid, rung.set)
            LOG.info("recording, pid %d", os.getpid())
            try:
                _Recording(session, stop, rung, every_s).run(linger_s)
            finally:
                bell.close()
            # Whoever started something after the last look and before the bell was gone relies on this one.
            if stop.is_set() or not running(session):
                LOG.info("done")
                return


class _Recording:
    def __init__(self, session: Session, stop: threading.Event, rung: threading.Event, every_s: float) -> None:
        self._session = session
        self._stop, self._rung = stop, rung
        self._every_s = every_s
        self._recorder = Recorder(session.paths.state)
        self._watchers: dict[str, Watcher] = {}
        """By the NVML that the runs were started with: real GPUs and simulated ones are read apart."""
        self._there: Mapping[str, tuple[Watched, ...]] = {}
        self._roster_due_s = 0.0
        self._troubled = False

    def run(self, linger_s: float) -> None:
        """Until nothing has run for so long, or `stop` is set."""
        last_s = time.monotonic()
        try:
            while not self._stop.is_set():
                rest_s = self._every_s - time.monotonic() % self._every_s
                if self._rung.wait(rest_s):
                    self._rung.clear()
                    self._roster_due_s = 0.0
                try:
                    self._turn()
                except MigctlError as error:
                    LOG.warning("%s", error.message)
                    self._stop.wait(_AGAIN_S)
                if self._there:
                    last_s = time.monotonic()
                elif time.monotonic() - last_s >= linger_s or not self._runs():
                    return
        finally:
            self._forget(set(self._watchers))
            self._recorder.close()

    def _turn(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._roster_due_s:
            self._look_around()
            number = sum(len(jobs) for jobs in self._there.values())
            self._roster_due_s = now_s + _ROSTER_EVERY_S * max(1.0, number / _MANY)
        for nvml, watcher in self._watchers.items():
            seen = watcher.look()
            if seen is not None and len(seen.reading.jobs) < len(self._there[nvml]):
                self._roster_due_s = min(self._roster_due_s, now_s + _ROSTER_EVERY_S)  # one has ended, or just begun
        if (self._recorder.trouble is not None) != self._troubled:
            self._troubled = not self._troubled
            LOG.warning("%s", self._recorder.trouble.message if self._recorder.trouble is not None else "written again")

    def _look_around(self) -> None:
        """What runs now; a watcher for each kind of GPUs, and none for those on which nothing runs."""
        found: dict[str, list[Watched]] = {}
        for one in running(self._session):
            found.setdefault(one.nvml, []).append(one)
        self._there = {nvml: tuple(jobs) for nvml, jobs in found.items()}
        self._forget(self._watchers.keys() - found.keys())
        for nvml in found.keys() - self._watchers.keys():
            session = Session(environ=self._session.environ, nvml=nvml)
            sampler = Sampler(session, gpu_every_s=GPU_EVERY_S, roster=partial(self._on, nvml))
            self._watchers[nvml] = Watcher(sampler, keep=(self._recorder.add,))

    def _on(self, nvml: str) -> tuple[Watched, ...]:
        return self._there.get(nvml, ())

    def _forget(self, gone: set[str]) -> None:
        for nvml in gone:
            with self._watchers.pop(nvml):
                pass

    def _runs(self) -> bool:
        """Whether a job may still follow: after `down` none does."""
        with suppress(MigctlError), self._session.ledger(write=False) as ledger:
            return bool(ledger.runs())
        return False
