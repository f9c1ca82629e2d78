"""A process job whose files are gone: all that is left of it is its process, known by the pid and start time in its record."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from migctl.core.runs.observed import Unit
from migctl.core.runs.record import JobState, Record
from migctl.core.runs.shim import shim_of
from migctl.runtimes import proc
from migctl.runtimes.logfile import ended_within

FILES_GONE = "its files in the state directory are gone; its process goes on"
_MARK = "pid"


@dataclass(frozen=True, slots=True)
class Bare:
    """One process, never another that got its pid."""

    pid: int
    start_ticks: int

    @property
    def handle(self) -> str:
        """What stands for it where otherwise the attempt's folder does; no absolute path begins like this."""
        return f"{_MARK}:{self.pid}:{self.start_ticks}"

    @classmethod
    def of(cls, handle: str | None) -> Bare | None:
        """The process that a handle means; `None` where it means a folder or a container."""
        mark, _, rest = (handle or "").partition(":")
        pid, _, ticks = rest.partition(":")
        return cls(int(pid), int(ticks)) if mark == _MARK and pid.isdecimal() and ticks.isdecimal() else None

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return proc.is_alive(self.pid, self.start_ticks)

    def wait(self, timeout_s: float | None) -> Unit | None:
        """Block until it has ended, how nobody knows any more; `None` on timeout."""
        pidfd = proc.open_pidfd(self.pid, self.start_ticks)
        try:
            if not ended_within(pidfd, timeout_s):
                return None
        finally:
            if pidfd is not None:
                os.close(pidfd)
        return Unit(handle=self.handle, run="", job="", token="", state=JobState.LOST, pid=self.pid)

    @property
    def shim(self) -> tuple[int, int] | None:
        """Pid and start time of its shim, while that lives: it ends what the job leaves behind."""
        parent = proc.parent(self.pid)
        ticks = proc.start_ticks(parent) if parent is not None else None
        if parent is None or ticks is None or shim_of(proc.words(parent)) is None:
            return None
        return parent, ticks


def with_bare(units: Sequence[Unit], records: Iterable[Record], boot_id: str) -> tuple[Unit, ...]:
    """The units, and before them the recorded processes that live although their files no longer tell of them.

    Args:
        boot_id: of the present boot: pids and start times mean nothing beyond it.
    """
    told = {unit.token: unit for unit in units}
    found: list[Unit] = []
    for record in records:
        unit = told.get(record.token)
        if record.runtime != "process" or record.pid is None or record.pid_start is None:
            continue
        if record.boot_id != boot_id or (unit is not None and (unit.pid is not None or unit.state.ended)):
            continue
        bare = Bare(record.pid, record.pid_start)
        if bare.alive:
            found.append(_unit(record, bare))
    return (*found, *units)


def _unit(record: Record, bare: Bare) -> Unit:
    return Unit(
        handle=bare.handle,
        run=record.run,
        job=record.job,
        token=record.token,
        state=JobState.RUNNING,
        pid=bare.pid,
        pid_start=bare.start_ticks,
        reason=FILES_GONE,
        started_at=record.started_at,
        cpus=record.cpus,
    )
