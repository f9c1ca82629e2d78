"""What a running training tells of its progress, read from the end of its output."""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from migctl.core.seeing.samples import Progress, parse
from migctl.errors import MigctlError
from migctl.runtimes.api import Runtime

SPAN_S: Final = 20.0
"""Over which samples and waiting are averaged: a report is seen up to a second late, which must not matter."""
_MARK: Final = b"migctl: samples="
_MOST: Final = 1 << 18
"""Bytes looked at a time: of a job that writes more, the end."""
_ASK_EVERY_S: Final = 10.0
_ASK_LINES: Final = 200
NOT_TOLD: Final = "the training does not report it (migctl: samples=N wait=SECONDS)"


@dataclass(frozen=True, slots=True)
class Pace:
    """Progress between two reports."""

    samples_s: float
    wait_share: float | None
    seconds: float


class Output(Protocol):
    """Where a job's last report comes from."""

    def report(self) -> Progress | None:
        """A report that came since the call before; `None` = none did."""
        ...

    def close(self) -> None:
        """Give back what is open."""
        ...


class LogFile:
    """The log of a process, kept open and read from where the last look ended."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1
        self._offset = 0
        self._rest = b""

    def report(self) -> Progress | None:
        """A report that came since the call before."""
        if self._descriptor < 0 and not self._open():
            return None
        data = os.pread(self._descriptor, _MOST, self._offset)
        if len(data) == _MOST:  # a job that writes so much: its end is enough
            self._offset = max(self._offset, os.fstat(self._descriptor).st_size - _MOST)
            data, self._rest = os.pread(self._descriptor, _MOST, self._offset), b""
        if not data:
            return None
        self._offset += len(data)
        whole, _, self._rest = (self._rest + data).rpartition(b"\n")
        return last_report(whole)

    def close(self) -> None:
        """Give the descriptor back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> bool:
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        there = os.fstat(descriptor)
        if not stat.S_ISREG(there.st_mode):
            os.close(descriptor)
            return False
        self._descriptor, self._offset = descriptor, max(0, there.st_size - _MOST)
        return True


class EngineLog:
    """The log of a container, asked of its engine now and then."""

    def __init__(self, runtime: Runtime, handle: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._runtime, self._handle, self._clock = runtime, handle, clock
        self._next_s = 0.0
        self._last: Progress | None = None

    def report(self) -> Progress | None:
        """A report that came since the call before."""
        if self._clock() < self._next_s:
            return None
        self._next_s = self._clock() + _ASK_EVERY_S
        try:
            data = b"".join(self._runtime.logs(self._handle, follow=False, tail=_ASK_LINES))
        except MigctlError:
            return None
        found = last_report(data.rpartition(b"\n")[0])
        if found == self._last:
            return None
        self._last = found
        return found

    def close(self) -> None:
        """Nothing is open between two questions."""


def last_report(data: bytes) -> Progress | None:
    """The last report in whole lines of output."""
    end = len(data)
    while (at := data.rfind(_MARK, 0, end)) >= 0:
        line = data[data.rfind(b"\n", 0, at) + 1 : _line_end(data, at)]
        found = parse(line.decode("utf-8", "replace"))
        if found is not None:
            return found
        end = at
    return None


def _line_end(data: bytes, at: int) -> int:
    end = data.find(b"\n", at)
    return end if end >= 0 else len(data)


class Progressing:
    """The pace of one job over its last reports.

    A training that reports rarely (every minute, after hours) is still judged by its last two reports.
    """

    def __init__(self, output: Output, span_s: float = SPAN_S) -> None:
        self._output = output
        self._span_s = span_s
        self._marks: deque[tuple[float, Progress]] = deque()

    def close(self) -> None:
        """Give back what is open."""
        self._output.close()

    def pace(self, now_s: float) -> Pace | None:
        """The pace now; `None` until two reports are there."""
        found = self._output.report()
        if found is not None:
            if self._marks and found.samples < self._marks[-1][1].samples:
                self._marks.clear()  # another process counts anew
            self._marks.append((now_s, found))
            while len(self._marks) > 2 and self._marks[1][0] <= now_s - self._span_s:
                self._marks.popleft()
        if len(self._marks) < 2:
            return None
        (begun_s, first), (ended_s, last) = self._marks[0], self._marks[-1]
        seconds = ended_s - begun_s
        if seconds <= 0:
            return None
        waited = last.wait_s - first.wait_s if last.wait_s is not None and first.wait_s is not None else None
        return Pace(
            samples_s=(last.samples - first.samples) / seconds,
            wait_share=min(1.0, max(0.0, waited / seconds)) if waited is not None else None,
            seconds=seconds,
        )
