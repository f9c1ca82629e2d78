"""A job that is put back to its beginning where it was: whether its place is still its own, and its next attempt's record."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from migctl.core.runs.observed import Observed
from migctl.core.runs.ownership import Standing, standing
from migctl.core.runs.record import JobState, Record


def keeps_place(record: Record, observed: Observed, taken: Collection[int]) -> bool:
    """Whether an ended job can begin again on its own instance and cores: both count as free for others once it has ended.

    Args:
        record: settled.
        observed: what is there now.
        taken: logical CPUs that somebody else has by now.
    """
    if record.instance is None or standing(record.instance, observed) is not Standing.OURS:
        return False
    return not any(cpu in taken for cpu in record.cpus)


def begun_anew(record: Record, *, attempt: int, token: str, boot_id: str, now: float) -> Record:
    """The attempt after one that has ended and whose container is gone: the same place, and nothing of it begun."""
    return replace(
        record,
        attempt=attempt,
        revision=record.revision + 1,
        token=token,
        state=JobState.STARTING,
        boot_id=boot_id,
        intent=None,
        container_id=None,
        container_name=None,
        pid=None,
        pid_start=None,
        exit_code=None,
        reason=None,
        restarted=False,
        created_at=now,
        started_at=None,
        finished_at=None,
        cause=None,
        code=None,
        tries=1,
        stopped_by=None,
        closed=False,
    )
