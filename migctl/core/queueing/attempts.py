"""Whether an attempt that did not succeed is followed by another, and when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from migctl.core.choices import RetryOn
from migctl.core.ending.causes import Cause
from migctl.core.plan import Job
from migctl.core.runs.record import JobState, Record, StoppedBy

FIRST_PAUSE_S: Final = 5.0
LONGEST_PAUSE_S: Final = 300.0
"""The pause doubles with each attempt: what fails because something else is down gets more and more time for it."""
_MEMORY: Final = frozenset({Cause.SLICE_MEMORY, Cause.CGROUP_MEMORY, Cause.HOST_MEMORY, Cause.MEMORY_NODES})
_HOPELESS: Final = frozenset(
    {
        Cause.GPU_FAULT,
        Cause.NO_GPU,
        Cause.DRIVER_TOO_OLD,
        Cause.WRONG_GPU_CODE,
        Cause.OTHER_ARCHITECTURE,
        Cause.CANNOT_RUN,
    }
)
"""The next attempt would meet the same."""


def how(record: Record) -> RetryOn | None:
    """How an attempt ended, as `retry_on` says it; nothing for one that succeeded or that somebody stopped."""
    match record.state:
        case JobState.FAILED if record.stopped_by is StoppedBy.TIMEOUT:
            return RetryOn.TIMEOUT
        case JobState.FAILED:
            return RetryOn.OOM if record.cause in _MEMORY else RetryOn.FAILED
        case JobState.LOST:
            return RetryOn.LOST
        case _:
            return None


def pause_s(tries: int) -> float:
    """Seconds between an attempt, the `tries`th, and the next one."""
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(tries - 1, 16))


def due_again(jobs: Iterable[Job], records: Mapping[str, Record]) -> dict[str, float]:
    """The jobs that are to be run once more → not before when (Unix seconds).

    A restart of the machine or the engine took a job through no fault of its own: it counts for nothing, and is made good for jobs
    that say that they can go on (`resumable`). Everything else counts against `retries`.

    Args:
        jobs: of the plan.
        records: settled records by job.
    """
    found: dict[str, float] = {}
    for job in jobs:
        record = records.get(job.name)
        if record is None or not record.state.unsuccessful or record.cause in _HOPELESS:
            continue
        if record.state is JobState.LOST and record.restarted:
            if job.resumable:
                found[job.name] = record.finished_at or 0.0
            continue
        if how(record) in job.retry_on and record.tries <= job.retries:
            found[job.name] = (record.finished_at or 0.0) + pause_s(record.tries)
    return found
