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

Weighed = tuple[float, JobReading]
"""Seconds, and what was read over them."""


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


def window(readings: Sequence[Reading], name: str, seconds: float) -> Window | None:
    """The job over the last `seconds`; `None` until readings of its present attempt cover them.

    Args:
        readings: oldest first.
        name: `run/job`.
    """
    found = _of_job(readings, name, seconds)
    covered_s = sum(weight for weight, _ in found)
    if not found or covered_s < _COVERED * seconds:
        return None
    own = [one.own_cpus for _, one in found if one.own_cpus is not None]
    return Window(
        seconds=covered_s,
        last=found[-1][1],
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


def _of_job(readings: Sequence[Reading], name: str, seconds: float) -> list[Weighed]:
    if not readings:
        return []
    since = readings[-1].at_s - seconds
    found = [
        (reading.seconds, job)
        for reading in readings
        if reading.at_s > since
        for job in reading.jobs
        if job.name == name
    ]
    if not found or not any(job.name == name for job in readings[-1].jobs):
        return []
    attempt = found[-1][1].attempt
    return [(weight, job) for weight, job in found if job.attempt == attempt]


def _mean(found: Sequence[Weighed], figure: Callable[[JobReading], float | None]) -> float | None:
    known = [(weight, value) for weight, one in found if (value := figure(one)) is not None]
    total = sum(weight for weight, _ in known)
    if not known or total < _KNOWN * sum(weight for weight, _ in found):
        return None
    return sum(weight * value for weight, value in known) / total


def _loads(found: Sequence[Weighed]) -> tuple[float, ...]:
    width = len(found[-1][1].loads)
    rows = [(weight, one.loads) for weight, one in found if len(one.loads) == width]
    total = sum(weight for weight, _ in rows)
    return tuple(sum(weight * loads[n] for weight, loads in rows) / total for n in range(width)) if total else ()
