"""Reads the progress of one running job, from its output and from its file, until its throughput is known."""

from __future__ import annotations

import os
import queue
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from migctl.core.seeing.samples import Progress, parse
from migctl.core.seeing.throughput import CpuTimes, Enough, Estimate, Mark, Window, between, enough, estimate
from migctl.engine.follow import split_lines
from migctl.errors import MigctlError
from migctl.runtimes.api import Runtime

_PAUSE_S = 0.02
"""Between two looks at the file: short against a window, so that a report has nearly the time at which it was made."""
_WINDOWS = 20
"""Into which the time of a measurement is divided; a window ends with the report that completes it."""
_SHORTEST_S = 0.1
_PATIENCE = 3.0
"""How many times as long as asked a job with rare reports may take to fill the fewest windows that say anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long to measure, in seconds."""

    measure_s: float
    """Behind the first report."""
    start_s: float
    """Until the first report: a training imports, forks and reads its index first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What came of it."""

    estimate: Estimate | None
    """`None`: too little was reported."""
    ended: bool
    """The job is over."""
    enough: Enough | None = None
    reports: int = 0


@dataclass(kw_only=True)
class Reader:
    """Follows one started attempt.

    Args:
        samples: file that the job may append to; `None` where it cannot reach one (an engine on another machine).
        cpu_times: of the job's cpuset, now.
    """

    runtime: Runtime
    handle: str
    samples: Path | None
    cpu_times: Callable[[], CpuTimes | None]
    _lines: queue.SimpleQueue[tuple[float, str] | None] = field(default_factory=queue.SimpleQueue, init=False)
    _offset: int = field(default=0, init=False)
    _rest: bytes = field(default=b"", init=False)
    _closed: bool = field(default=False, init=False)
    _failure: MigctlError | None = field(default=None, init=False)

    def read(self, limits: Limits, best: Estimate | None, cancel: threading.Event) -> Reading:
        """Until it is known, the time is over, the job has ended, or `cancel` is set.

        Raises:
            HostError: the runtime does not give the job's output.
        """
        threading.Thread(target=self._follow, daemon=True).start()
        begun = time.monotonic()
        mark: Mark | None = None
        first_s = 0.0
        windows: list[Window] = []
        reports = 0
        shortest_s = max(_SHORTEST_S, limits.measure_s / _WINDOWS)
        ended = False
        why: Enough | None = None
        while not (ended or why or cancel.is_set()):
            if not (fresh := self._fresh()):
                ended = self._closed
                cancel.wait(_PAUSE_S)
            for at_s, progress in fresh:
                reports += 1
                if mark is None or progress.samples < mark.samples:
                    first_s = at_s if mark is None else first_s
                    mark, windows = self._mark(at_s, progress), []
                elif at_s - mark.at_s >= shortest_s:
                    now = self._mark(at_s, progress)
                    window = between(mark, now)
                    windows += [window] if window is not None else []
                    mark = now
                    why = why or enough(estimate(windows), best)
            if mark is None:
                if time.monotonic() - begun > limits.start_s:
                    break
                continue
            past_s = time.monotonic() - first_s
            if past_s > limits.measure_s and (estimate(windows) is not None or past_s > _PATIENCE * limits.measure_s):
                break
        if self._failure is not None:
            raise self._failure
        return Reading(estimate=estimate(windows), ended=ended, enough=why, reports=reports)

    def _mark(self, at_s: float, progress: Progress) -> Mark:
        return Mark(at_s, progress.samples, progress.wait_s, self.cpu_times())

    def _follow(self) -> None:
        """In a thread of its own: the output ends with the job."""
        try:
            for line in split_lines(self.runtime.logs(self.handle, follow=True, tail=None)):
                self._lines.put((time.monotonic(), line.decode("utf-8", "replace")))
        except MigctlError as error:
            self._failure = error
        self._lines.put(None)

    def _fresh(self) -> list[tuple[float, Progress]]:
        """New reports, in the order in which they were read."""
        lines: list[tuple[float, str]] = []
        while not self._lines.empty():
            item = self._lines.get()
            if item is None:
                self._closed = True
            else:
                lines.append(item)
        now = time.monotonic()
        lines += [(now, line) for line in self._appended()]
        return [(at_s, progress) for at_s, line in lines if (progress := parse(line)) is not None]

    def _appended(self) -> list[str]:
        """Whole lines that were appended to the file since the last look.

        The folder is the job's to write: what lies there may be a link or a pipe by now.
        """
        if self.samples is None:
            return []
        try:
            descriptor = os.open(self.samples, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return []
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return []
            data = os.pread(descriptor, 1 << 20, self._offset)
        finally:
            os.close(descriptor)
        self._offset += len(data)
        *whole, self._rest = (self._rest + data).split(b"\n")
        return [line.decode("utf-8", "replace") for line in whole]
