"""Sums over the time that somebody watches: what a counter is made of when readings give rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from migctl.core.seeing.readings import JobReading, Reading

Tallies = Mapping[tuple[str, str, str], float]
"""Metric, run and job → its sum; of one CPU of a job, with `name:CPU` as metric."""

_MIB: Final = float(1 << 20)
CPU_BUSY: Final = "migctl_job_cpu_busy_seconds_total"
RATES: Final[Mapping[str, tuple[str, Callable[[JobReading], float | None]]]] = {
    "migctl_job_cpu_seconds_total": ("CPU time that the job used, all its processes together.", lambda r: r.own_cpus),
    "migctl_job_run_queue_seconds_total": (
        "Time that main threads of the job were ready to run and had no CPU.",
        lambda r: r.queued_threads,
    ),
    "migctl_job_throttled_seconds_total": ("Time in which a CPU quota held the job.", lambda r: r.throttled_share),
    "migctl_job_pressure_cpu_seconds_total": (
        "Time in which some task of the job waited for a CPU (PSI some).",
        lambda r: r.pressure_cpu_share,
    ),
    "migctl_job_pressure_io_seconds_total": (
        "Time in which some task of the job waited for I/O (PSI some).",
        lambda r: r.pressure_io_share,
    ),
    "migctl_job_pressure_memory_seconds_total": (
        "Time in which some task of the job waited for memory (PSI some).",
        lambda r: r.pressure_memory_share,
    ),
    "migctl_job_read_bytes_total": (
        "Bytes that the job read from block devices.",
        lambda r: _bytes(r.read_mib_s),
    ),
    "migctl_job_written_bytes_total": (
        "Bytes that the job wrote to block devices.",
        lambda r: _bytes(r.write_mib_s),
    ),
}
"""Counter → what it means, and what of it happened in a second."""


def added(before: Tallies, reading: Reading) -> Tallies:
    """The sums after one more reading; those of jobs that are not in it stay."""
    sums = dict(before)
    shares = reading.cpus.shares() if reading.cpus is not None else {}
    for job in reading.jobs:
        for name, (_, rate) in RATES.items():
            value = rate(job)
            if value is not None:
                key = (name, job.run, job.job)
                sums[key] = sums.get(key, 0.0) + value * reading.seconds
        for cpu in job.cpus:
            if cpu in shares:
                key = (f"{CPU_BUSY}:{cpu}", job.run, job.job)
                sums[key] = sums.get(key, 0.0) + shares[cpu][0] * reading.seconds
    return sums


def kept(sums: Tallies, jobs: Iterable[tuple[str, str]]) -> Tallies:
    """Only those of these jobs (run and job): the others are over."""
    there = set(jobs)
    return {key: value for key, value in sums.items() if key[1:] in there}


def _bytes(mib_s: float | None) -> float | None:
    return mib_s * _MIB if mib_s is not None else None
