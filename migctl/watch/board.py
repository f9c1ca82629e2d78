"""What `status --watch` shows: figures each time it is asked, and the status whenever something may have changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Self

from migctl.core.runs.record import JobState
from migctl.core.seeing.readings import Reading
from migctl.core.seeing.verdicts import Diagnosis
from migctl.core.views.status import StatusView
from migctl.core.views.watch import WatchView, Wishes
from migctl.engine.session import Session
from migctl.engine.status import status
from migctl.errors import MigctlError, Notice
from migctl.watch.sampler import Sampler
from migctl.watch.watcher import Seen, Watcher

EVERY_S: Final = 2.0
"""Between two moments: what is said of jobs are averages over twenty seconds."""
FIRST_S: Final = 0.5
"""After the first look, which has nothing to compare with."""
_GPUS_EVERY_S: Final = 10.0
_STATUS_EVERY_S: Final = 60.0
"""The status is asked for at least so often: an engine or a driver is asked then, which costs more than all figures."""
_STATUS_LEAST_S: Final = 2.0
"""And at most so often, whatever happens."""


class Board:
    """One view over one session. Nothing but `look` is called while it is open, from one thread.

    Args:
        session: whose runs.
        names: of these runs; `None` = of all.
        ended: runs that `down` has undone, too.
    """

    def __init__(self, session: Session, names: Sequence[str] | None, *, ended: bool = False) -> None:
        self._session = session
        self._ask: Callable[[], StatusView] = lambda: status(session, names, ended=ended)
        self._status = self._ask()
        self._asked_s = time.monotonic()
        self._mark = self._records()
        self._asking: threading.Thread | None = None
        self._wanted = False
        self._trouble: Notice | None = None
        self._seen: Seen | None = None
        self._watcher = Watcher(Sampler(session, names, gpu_every_s=_GPUS_EVERY_S))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._watcher:
            pass

    def ask_again(self) -> None:
        """Whoever changed something wants to see it."""
        self._wanted = True

    def look(self) -> None:
        """Take in the present moment."""
        try:
            self._seen = self._watcher.look() or self._seen
            self._trouble = None
        except MigctlError as error:
            self._trouble = Notice(error.id, error.message, hint=error.hint)
        self._refresh()

    def view(self, wishes: Wishes | None = None) -> WatchView:
        """The last moment that was taken in, as it is wanted."""
        shown = self._status
        notices = (*((self._trouble,) if self._trouble is not None else ()), *shown.notices)
        return WatchView(
            status=_at(shown, self._session.now(), notices),
            clock=time.strftime("%H:%M:%S", time.localtime(self._session.now())),
            reading=self._seen.reading if self._seen is not None else None,
            diagnosis=self._seen.diagnosis if self._seen is not None else _NOTHING,
            past=_past(self._watcher.past),
            wishes=wishes or Wishes(),
        )

    # -- inside

    def _refresh(self) -> None:
        """Ask for the status in a thread, where there is a reason: a driver that hangs keeps nobody from seeing the rest."""
        since_s = time.monotonic() - self._asked_s
        if self._asking is not None and self._asking.is_alive():
            return
        mark = self._records()
        due = since_s >= _STATUS_EVERY_S or (
            since_s >= _STATUS_LEAST_S and (self._wanted or mark != self._mark or self._has_changed())
        )
        if not due:
            return
        self._wanted, self._mark, self._asked_s = False, mark, time.monotonic()
        self._asking = threading.Thread(target=self._renew, daemon=True, name="migctl-status")
        self._asking.start()

    def _renew(self) -> None:
        try:
            self._status = self._ask()
        except MigctlError as error:
            self._trouble = Notice(error.id, error.message, hint=error.hint)
        except Exception as error:  # noqa: BLE001 -- a bug of ours, whose traceback would be written across the picture
            self._trouble = Notice("bug", f"a bug in migctl: {error!r}", hint="`migctl status` tells more")

    def _has_changed(self) -> bool:
        """Whether other jobs run than the status tells."""
        if self._seen is None:
            return False
        told = {
            f"{run.name}/{job.name}" for run in self._status.runs for job in run.jobs if job.state is JobState.RUNNING
        }
        return told != {job.name for job in self._seen.reading.jobs}

    def _records(self) -> tuple[tuple[int, int], ...]:
        """What changes with the records of jobs."""
        found: list[tuple[int, int]] = []
        for name in ("store.db", "store.db-wal"):
            try:
                there = (self._session.paths.state / name).stat()
            except OSError:
                continue
            found.append((there.st_mtime_ns, there.st_size))
        return tuple(found)


_NOTHING: Final = Diagnosis()


def _at(shown: StatusView, now: float, notices: Sequence[Notice]) -> StatusView:
    return replace(shown, now=now, notices=tuple(notices))


def _past(readings: Sequence[Reading]) -> Mapping[str, tuple[float | None, ...]]:
    """`run/job` → the part of its cores that it used, oldest first."""
    found: dict[str, list[float | None]] = {}
    for reading in readings:
        for job in reading.jobs:
            share = job.own_cpus / job.cores if job.own_cpus is not None and job.cores else None
            found.setdefault(job.name, []).append(share)
    return {name: tuple(shares) for name, shares in found.items()}
