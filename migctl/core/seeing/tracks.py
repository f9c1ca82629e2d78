"""What is kept of readings: averages over ever longer times the older they are, so that a run of weeks stays small."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, TypeVar

from migctl.core.seeing.readings import GpuReading, JobReading, Reading
from migctl.core.seeing.verdicts import Verdict

K = TypeVar("K")

FINEST_S: Final = 10.0
TIERS: Final = ((6 * 3600.0, FINEST_S), (2 * 86400.0, 60.0), (30 * 86400.0, 600.0), (float("inf"), 3600.0))
"""Up to this age, samples are of so many seconds. A week of seven jobs is about 6,000 samples."""

Figures = Mapping[str, float]
"""Field of `JobReading` or `GpuReading` (of its instance: `gpu_memory_mib`, `gpu_activity_share`) → value; unknown: absent."""

_JOB: Final[Mapping[str, Callable[[JobReading], float | None]]] = {
    "own_cpus": lambda r: r.own_cpus,
    "busy_cpus": lambda r: r.busy_cpus,
    "iowait_cpus": lambda r: r.iowait_cpus,
    "queued_threads": lambda r: r.queued_threads,
    "main_cpus": lambda r: r.main_cpus,
    "worker_cpus": lambda r: r.worker_cpus,
    "throttled_share": lambda r: r.throttled_share,
    "pressure_cpu_share": lambda r: r.pressure_cpu_share,
    "pressure_io_share": lambda r: r.pressure_io_share,
    "pressure_memory_share": lambda r: r.pressure_memory_share,
    "blocked_processes": lambda r: r.blocked_processes,
    "read_mib_s": lambda r: r.read_mib_s,
    "write_mib_s": lambda r: r.write_mib_s,
    "memory_mib": lambda r: r.memory_mib,
    "threads": lambda r: r.threads,
    "workers": lambda r: r.workers,
    "samples_s": lambda r: r.samples_s,
    "wait_share": lambda r: r.wait_share,
    "gpu_memory_mib": lambda r: r.instance.memory_used_mib if r.instance is not None else None,
    "gpu_memory_total_mib": lambda r: r.instance.memory_total_mib if r.instance is not None else None,
    "gpu_activity_share": lambda r: r.instance.activity_share if r.instance is not None else None,
}
_GPU: Final[Mapping[str, Callable[[GpuReading], float | None]]] = {
    "power_w": lambda r: r.power_w,
    "temperature_c": lambda r: r.temperature_c,
    "sm_clock_mhz": lambda r: r.sm_clock_mhz,
    "throttled": lambda r: None if r.throttles is None else float(bool(r.throttles)),
}
_HIGHEST: Final = frozenset({"memory_mib", "gpu_memory_mib", "temperature_c"})
"""Of these the highest value of a time counts, not the average: it is what fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One time of one run, as it is kept."""

    at_s: float
    """Its end, Unix seconds."""
    seconds: float
    """Measured in it; less than its length where nobody watched all the time."""
    jobs: Mapping[str, Figures] = field(default_factory=dict)
    """Job → figures."""
    cpus: Mapping[int, float] = field(default_factory=dict)
    """Logical CPU → share at work: those of the run's jobs."""
    gpus: Mapping[str, Figures] = field(default_factory=dict)
    """GPU UUID → figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A verdict that began or ended."""

    at_s: float
    job: str
    """Nothing where it is of a GPU."""
    gpu: str
    """UUID; nothing where it is of a job."""
    kind: str
    title: str
    message: str
    hint: str = ""
    over: bool = False
    """It is said no more."""


def sample(reading: Reading, run: str) -> Sample:
    """What of a reading belongs to one run."""
    jobs = [job for job in reading.jobs if job.run == run]
    own = {cpu for job in jobs for cpu in job.cpus}
    cpus = reading.cpus
    used = {job.instance.gpu_uuid for job in jobs if job.instance is not None}
    return Sample(
        at_s=reading.at_s,
        seconds=reading.seconds,
        jobs={job.job: _figures(job, _JOB) for job in jobs},
        cpus={} if cpus is None else {c: b for c, b in zip(cpus.cpus, cpus.busy, strict=True) if c in own},
        gpus={gpu.uuid: _figures(gpu, _GPU) for gpu in reading.gpus if gpu.uuid in used},
    )


def merged(samples: Sequence[Sample]) -> Sample:
    """Several as one: averages over the time in which each figure was known.

    Raises:
        ValueError: there is none.
    """
    if not samples:
        raise ValueError("nothing to merge")
    if len(samples) == 1:
        return samples[0]
    return Sample(
        at_s=samples[-1].at_s,
        seconds=sum(one.seconds for one in samples),
        jobs=_merged([(one.seconds, one.jobs) for one in samples]),
        cpus=_mean([(one.seconds, one.cpus) for one in samples]),
        gpus=_merged([(one.seconds, one.gpus) for one in samples]),
    )


def thinned(samples: Iterable[Sample], now_s: float) -> list[Sample]:
    """The same time told in fewer samples: each as long as its age demands; what is long enough already stays as it is.

    Args:
        samples: oldest first.
    """
    groups = groupby(samples, key=lambda one: place(one.at_s, one.seconds, now_s))
    return [merged(tuple(group)) for _, group in groups]


def place(at_s: float, seconds: float, now_s: float) -> tuple[float, int]:
    """The step of time that a sample belongs to: how long it is, and which one; samples of one step become one."""
    step_s = next(step for limit, step in TIERS if now_s - at_s <= limit)
    # A time belongs to the step in which its middle lies: an end on the border does not fall into the next.
    return step_s, int((at_s - min(seconds, step_s) / 2) // step_s)


def changes(before: Mapping[str, Verdict], now: Mapping[str, Verdict]) -> tuple[list[Verdict], list[Verdict]]:
    """The verdicts that began and those that ended, by kind."""
    return [v for kind, v in now.items() if kind not in before], [v for kind, v in before.items() if kind not in now]


def _figures(reading: JobReading | GpuReading, wanted: Mapping[str, Callable[..., float | None]]) -> Figures:
    found = {name: figure(reading) for name, figure in wanted.items()}
    return {name: float(value) for name, value in found.items() if value is not None}


def _merged(rows: Sequence[tuple[float, Mapping[str, Figures]]]) -> dict[str, Figures]:
    names = dict.fromkeys(name for _, row in rows for name in row)
    return {name: _mean([(seconds, row[name]) for seconds, row in rows if name in row]) for name in names}


def _mean(rows: Sequence[tuple[float, Mapping[K, float]]]) -> dict[K, float]:
    found: dict[K, float] = {}
    for name in dict.fromkeys(name for _, row in rows for name in row):
        known = [(seconds, row[name]) for seconds, row in rows if name in row]
        if name in _HIGHEST:
            found[name] = max(value for _, value in known)
        else:
            total = sum(seconds for seconds, _ in known)
            found[name] = sum(seconds * value for seconds, value in known) / total if total else known[-1][1]
    return found
