"""A job over the last seconds: its readings as one average, and whether they cover the time at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from migctl.core.cpuset import CpuSet
from migctl.core.readings import JobReading, Reading

_COVERED = 0.9
"""Part of the time that readings must cover: one that was late spoils nothing."""
_KNOWN = 0.75
"""Part of that time in which a figure must be known."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One reading of one job."""

    at_s: float
    seconds: float
    job: JobReading


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Averages over time, in the units of `JobReading`; `None` where too few readings have the figure."""

    seconds: float
    last: JobReading
    own_cpus: float | None
    most_own_cpus: float | None
    """The highest of all readings."""
    busy_cpus: float | None
    other_cpus: float | None
    iowait_cpus: float | None
    queued_threads: float | None
    main_cpus: float | None
    busiest_cpus: float | None
    worker_cpus: float | None
    throttled_share: float | None
    pressure_cpu_share: float | None
    pressure_io_share: float | None
    blocked_processes: float | None
    read_mib_s: float | None
    activity_share: float | None
    loads: tuple[float, ...]
    """Of each logical CPU of the job, ascending; empty where unknown."""

    @property
    def cpus(self) -> CpuSet:
        """The job's cpuset."""
        return self.last.cpus

    @property
    def cores(self) -> int:
        """Physical cores of it, at least 1."""
        return max(1, self.last.cores)

    @property
    def workers(self) -> int:
        """Loader processes alive at the end."""
        return self.last.workers or 0


def moments(readings: Sequence[Reading]) -> dict[str, list[Moment]]:
    """`run/job` → its readings, oldest first."""
    found: dict[str, list[Moment]] = {}
    for reading in readings:
        for job in reading.jobs:
            found.setdefault(job.name, []).append(Moment(reading.at_s, reading.seconds, job))
    return found


def window(past: Sequence[Moment], seconds: float) -> Window | None:
    """A job over its last `seconds`; `None` until readings of its present attempt cover them.

    Args:
        past: of one job, oldest first.
    """
    found = _latest(past, seconds)
    covered_s = sum(one.seconds for one in found)
    if not found or covered_s < _COVERED * seconds:
        return None
    own = [one.job.own_cpus for one in found if one.job.own_cpus is not None]
    return Window(
        seconds=covered_s,
        last=found[-1].job,
        own_cpus=_mean(found, lambda r: r.own_cpus),
        most_own_cpus=max(own, default=None),
        busy_cpus=_mean(found, lambda r: r.busy_cpus),
        other_cpus=_mean(found, lambda r: r.other_cpus),
        iowait_cpus=_mean(found, lambda r: r.iowait_cpus),
        queued_threads=_mean(found, lambda r: r.queued_threads),
        main_cpus=_mean(found, lambda r: r.main_cpus),
        busiest_cpus=_mean(found, lambda r: r.busiest_cpus),
        worker_cpus=_mean(found, lambda r: r.worker_cpus),
        throttled_share=_mean(found, lambda r: r.throttled_share),
        pressure_cpu_share=_mean(found, lambda r: r.pressure_cpu_share),
        pressure_io_share=_mean(found, lambda r: r.pressure_io_share),
        blocked_processes=_mean(found, lambda r: r.blocked_processes),
        read_mib_s=_mean(found, lambda r: r.read_mib_s),
        activity_share=_mean(found, lambda r: r.instance.activity_share if r.instance is not None else None),
        loads=_loads(found),
    )


def _latest(past: Sequence[Moment], seconds: float) -> list[Moment]:
    if not past:
        return []
    since, attempt = past[-1].at_s - seconds, past[-1].job.attempt
    found: list[Moment] = []
    for one in reversed(past):
        if one.at_s <= since or one.job.attempt != attempt:
            break
        found.append(one)
    return found[::-1]


def _mean(found: Sequence[Moment], figure: Callable[[JobReading], float | None]) -> float | None:
    total = weighted = whole = 0.0
    for one in found:
        value = figure(one.job)
        whole += one.seconds
        if value is not None:
            total += one.seconds
            weighted += one.seconds * value
    return weighted / total if total and total >= _KNOWN * whole else None


def _loads(found: Sequence[Moment]) -> tuple[float, ...]:
    width = len(found[-1].job.loads)
    rows = [(one.seconds, one.job.loads) for one in found if len(one.job.loads) == width]
    total = sum(weight for weight, _ in rows)
    return tuple(sum(weight * loads[n] for weight, loads in rows) / total for n in range(width)) if total else ()
