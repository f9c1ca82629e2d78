"""How far a run has come, as far as its queue depends on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from migctl.core.queueing.entries import Queue
from migctl.core.runs.record import JobState, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What became of a run so far. Times are Unix seconds."""

    records: Mapping[str, Record] = field(default_factory=dict)
    """Settled records by job, of jobs that the plan no longer has too."""
    queue: Queue = field(default_factory=Queue)
    again: Mapping[str, float] = field(default_factory=dict)
    """Ended jobs that are to be run once more → not before when."""
    blocked: frozenset[tuple[str, int]] = frozenset()
    """Instances (GPU UUID, GI id) that could not be destroyed: room that is worked around."""

    def state(self, job: str) -> JobState:
        """The job's state as turns go: one that will be run again is queued."""
        record = self.records.get(job)
        if job in self.again or record is None or record.state is JobState.QUEUED:
            return JobState.STOPPED if job in self.queue.stopped else JobState.QUEUED
        return record.state
