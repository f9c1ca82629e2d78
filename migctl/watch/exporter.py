"""Watches in a thread of its own and keeps what a scrape gives: answering one asks nobody and waits for nothing."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, replace
from typing import Final, Self

from migctl import __version__
from migctl.core.seeing.figure_metrics import figure_families
from migctl.core.seeing.run_metrics import jobs_holding, run_families
from migctl.core.seeing.tallies import Tallies, added, kept
from migctl.core.views.metrics import Family, MetricKind, family, labels
from migctl.core.views.status import StatusView
from migctl.engine.queueing.supervisor import is_supervised
from migctl.engine.session import Session
from migctl.engine.status import status
from migctl.errors import MigctlError
from migctl.watch.sampler import Sampler
from migctl.watch.watcher import Seen, Watcher

LOG = logging.getLogger("migctl.exporter")
LOOK_S: Final = 1.0
STATUS_S: Final = 10.0
"""Between two looks at the records, engine and instances; less often where a look takes long."""
_PART: Final = 50.0
"""Such a look takes at most one part in so many of the time."""
_FIRST_S: Final = 6.0
"""How long `once` waits for a first reading of the GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What was seen last; replaced as a whole, so that whoever reads it sees one state."""

    status: StatusView | None = None
    status_at_s: float = 0.0
    supervised: bool = False
    seen: Seen | None = None
    sums: Tallies | None = None
    looks: int = 0
    failures: int = 0
    up: bool = False


class Exporter:
    """Give its `families` to whoever scrapes: `with Exporter(session) as exporter: ...`.

    Args:
        session: whose runs are told.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sampler = Sampler(session)
        self._watcher = Watcher(self._sampler)
        self._known = _Known()
        self._status_due_s = 0.0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Watch until `close`."""
        self._thread = threading.Thread(target=self._run, daemon=True, name="migctl-exporter")
        self._thread.start()

    def close(self) -> None:
        """End watching."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)
        self._sampler.close()

    def once(self) -> tuple[Family, ...]:
        """What there is after watching for a moment: rates need two looks, and the GPUs answer in their own time."""
        self._look()
        deadline = time.monotonic() + _FIRST_S
        while not self._ended.wait(LOOK_S):
            self._look()
            seen = self._known.seen
            unread = seen is None or seen.reading.unknown.get("gpus") == "not read yet"
            if not unread or time.monotonic() > deadline:
                break
        return self.families()

    def families(self) -> tuple[Family, ...]:
        """Everything known now."""
        known = self._known
        about = family("migctl_build_info", MetricKind.INFO, "The exporter.", [(labels(version=__version__), 1)])
        of_runs = run_families(known.status, known.supervised) if known.status is not None else ()
        figures = (
            figure_families(known.seen.reading, known.seen.diagnosis, known.sums or {})
            if known.seen is not None
            else ()
        )
        return (about, *of_runs, *figures, *_health(known), *_process())

    def _run(self) -> None:
        due_s = time.monotonic()
        while not self._ended.is_set():
            try:
                self._look()
            except Exception:
                # A thread that had died would leave old figures that look like present ones.
                LOG.exception("this is a bug in migctl")
                self._known = replace(self._known, failures=self._known.failures + 1, up=False)
            due_s = max(due_s + LOOK_S, time.monotonic())
            self._ended.wait(max(0.05, due_s - time.monotonic()))

    def _look(self) -> None:
        """One round: measure, and now and then look at the records; a failure of either leaves what was known."""
        known = self._known
        try:
            seen = self._watcher.look()
            sums = added(known.sums or {}, seen.reading) if seen is not None else known.sums
            known = replace(known, seen=seen or known.seen, sums=sums, looks=known.looks + 1, up=True)
        except (MigctlError, OSError):
            known = replace(known, failures=known.failures + 1, up=False)
        self._known = known
        begun_s = time.monotonic()
        if begun_s >= self._status_due_s:
            self._status_due_s = begun_s + STATUS_S
            self._known = self._with_status(known)
            self._status_due_s = begun_s + max(STATUS_S, _PART * (time.monotonic() - begun_s))

    def _with_status(self, known: _Known) -> _Known:
        try:
            view = status(self._session, None)
        except (MigctlError, OSError):
            return replace(known, failures=known.failures + 1, up=False)
        sums = kept(known.sums or {}, jobs_holding(view))
        return replace(known, status=view, status_at_s=view.now, supervised=is_supervised(self._session), sums=sums)


def _health(known: _Known) -> tuple[Family, ...]:
    """How the watching itself does."""
    gauge = MetricKind.GAUGE
    reading = known.seen.reading if known.seen is not None else None
    unknown = reading.unknown if reading is not None else {}
    return (
        family("migctl_watch_up", gauge, "1 where the last look went well.", [((), float(known.up))]),
        family("migctl_watch_looks_total", MetricKind.COUNTER, "Looks that went well.", [((), known.looks)]),
        family("migctl_watch_failures_total", MetricKind.COUNTER, "Looks that failed.", [((), known.failures)]),
        family(
            "migctl_watch_last_look_time_seconds",
            gauge,
            "When the figures were measured, Unix time.",
            [((), reading.at_s if reading is not None else None)],
        ),
        family(
            "migctl_watch_status_time_seconds",
            gauge,
            "When runs, jobs and instances were looked at, Unix time.",
            [((), known.status_at_s or None)],
        ),
        family(
            "migctl_watch_source_up",
            gauge,
            "1 for each source of figures that answers.",
            [(labels(source=name), float(name not in unknown)) for name in ("cpus", "gpus")]
            if reading is not None
            else [],
        ),
    )


def _process() -> tuple[Family, ...]:
    """The usual figures of the exporter's own process, under their usual names."""
    return (
        family(
            "process_cpu_seconds_total",
            MetricKind.COUNTER,
            "CPU time of this process.",
            [((), time.process_time())],
        ),
    )
