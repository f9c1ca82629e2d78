"""A job over the last seconds: its readings as one average, and whether they cover the time at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.seeing.readings import JobReading, Reading

_COVERED = 0.9
"""Part of the time that readings must cover: one that was late spoils nothing."""
_KNOWN = 0.75
"""Part of that time in which a figure must be known."""
_NAMES = (
    "own_cpus",
    "busy_cpus",
    "other_cpus",
    "iowait_cpus",
    "queued_threads",
    "main_cpus",
    "busiest_cpus",
    "worker_cpus",
    "throttled_share",
    "pressure_cpu_share",
    "pressure_io_share",
    "blocked_processes",
    "read_mib_s",
)
"""Fields of `JobReading` that are averaged into those of the same names."""
_FIGURES = attrgetter(*_NAMES)


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
    weights = [one.seconds for one in found]
    columns = zip(*[_FIGURES(one.job) for one in found], strict=True)
    means = dict(zip(_NAMES, [_mean(weights, column) for column in columns], strict=True))
    active = [one.job.instance.activity_share if one.job.instance is not None else None for one in found]
    own = [one.job.own_cpus for one in found if one.job.own_cpus is not None]
    return Window(
        seconds=covered_s,
        last=found[-1].job,
        most_own_cpus=max(own, default=None),
        activity_share=_mean(weights, active),
        loads=_loads(found),
        **means,
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


def _mean(weights: Sequence[float], values: Sequence[float | None]) -> float | None:
    total = weighted = 0.0
    for weight, value in zip(weights, values, strict=True):
        if value is not None:
            total += weight
            weighted += weight * value
    return weighted / total if total and total >= _KNOWN * sum(weights) else None


def _loads(found: Sequence[Moment]) -> tuple[float, ...]:
    width = len(found[-1].job.loads)
    rows = [(one.seconds, one.job.loads) for one in found if len(one.job.loads) == width]
    total = sum(weight for weight, _ in rows)
    return tuple(sum(weight * loads[n] for weight, loads in rows) / total for n in range(width)) if total else ()
