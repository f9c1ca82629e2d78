"""Keeps the expected course of a run where `status` finds it; foreseeing a long queue takes long, and is done the more rarely."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from migctl.core.plan import Plan
from migctl.core.queueing.course import Course, course, course_of_running
from migctl.core.runs.record import JobState, Record
from migctl.engine.session import Session
from migctl.store.ledger import Ledger

if TYPE_CHECKING:
    from migctl.core.queueing.situation import Situation

MOST_JOBS: Final = 500
"""That many waiting jobs take up to a second of the supervisor's time, and four times as many sixteen times as long."""
SHARE: Final = 200.0
"""At most one part in so many of the time goes into looking ahead: 0.5 % of a core."""
LEAST_PAUSE_S: Final = 5.0


@dataclass(kw_only=True)
class Foresight:
    """What a supervisor knows of when it looked ahead last for one run."""

    not_before: float = 0.0
    """Unix seconds."""

    def look_ahead(self, session: Session, run: str, situation: Situation) -> float | None:
        """Write down the expected course, unless that was done just now; then the time (Unix seconds) to come again is returned."""
        now = session.now()
        if now < self.not_before:
            return self.not_before
        began = time.monotonic()
        found = _course(situation)
        took_s = time.monotonic() - began
        self.not_before = now + max(LEAST_PAUSE_S, SHARE * took_s)
        with session.ledger(write=True) as ledger:
            if ledger.submissions.queue(run) is not None:
                ledger.submissions.save_course(run, found)
        return None


def _course(situation: Situation) -> Course:
    open_jobs = sum(
        situation.states.get(turn.name, JobState.QUEUED) in (JobState.QUEUED, JobState.STARTING, JobState.RUNNING)
        for turn in situation.turns
    )
    if open_jobs > MOST_JOBS:
        return Course(reason=f"{open_jobs} jobs are too many to look ahead; plan does")
    from migctl.core.queueing.forecast import forecast  # an `up` whose jobs all run needs nothing of the queue

    return course(forecast(situation))


def note_course(ledger: Ledger, plan: Plan, records: Mapping[str, Record]) -> None:
    """For a run whose jobs have all been started by `up`, and that nobody supervises."""
    expected = {job.name: job.expect_s for job in plan.jobs}
    if all(expect_s is None for expect_s in expected.values()):
        return
    began = {
        name: (record.started_at, expected.get(name))
        for name, record in records.items()
        if record.started_at is not None and not record.state.ended
    }
    ledger.submissions.save_course(plan.name, course_of_running(began))
