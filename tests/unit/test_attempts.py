"""Whether an attempt is followed by another, and when: a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migctl.core.choices import RetryOn
from migctl.core.ending.causes import Cause
from migctl.core.plan import Job
from migctl.core.queueing.attempts import FIRST_PAUSE_S, LONGEST_PAUSE_S, due_again, pause_s
from migctl.core.runs.record import JobState, Record, StoppedBy

ENDED = 1_800_000_000.0
JOB = Job(name="a", origin="a", retries=2)
FAILED = Record(
    run="sweep",
    job="a",
    token="t",
    runtime="docker",
    strategy="mig",
    digest="",
    spec="",
    state=JobState.FAILED,
    exit_code=1,
    finished_at=ENDED,
)
EVERYTHING = tuple(RetryOn)
TAKEN: dict[str, object] = {"state": JobState.LOST, "restarted": True}

CASES = (
    ("it failed", JOB, {}, FIRST_PAUSE_S),
    ("it failed twice", JOB, {"tries": 2}, 2 * FIRST_PAUSE_S),
    ("its retries are used up", JOB, {"tries": 3}, None),
    ("the plan gives none", replace(JOB, retries=0), {}, None),
    ("it succeeded", JOB, {"state": JobState.SUCCEEDED}, None),
    ("somebody stopped it", JOB, {"state": JobState.STOPPED}, None),
    ("another one's failure ended it", JOB, {"state": JobState.STOPPED, "stopped_by": StoppedBy.FAIL_FAST}, None),
    ("it runs", JOB, {"state": JobState.RUNNING}, None),
    ("it was lost", JOB, {"state": JobState.LOST}, FIRST_PAUSE_S),
    ("its slice's memory was too small", JOB, {"cause": Cause.SLICE_MEMORY}, None),
    ("memory, and the plan says oom", replace(JOB, retry_on=(RetryOn.OOM,)), {"cause": Cause.HOST_MEMORY}, 5.0),
    ("a failure, and the plan says oom only", replace(JOB, retry_on=(RetryOn.OOM,)), {}, None),
    ("it ran too long", JOB, {"stopped_by": StoppedBy.TIMEOUT}, None),
    ("too long, and the plan says timeout", replace(JOB, retry_on=(RetryOn.TIMEOUT,)), {"stopped_by": StoppedBy.TIMEOUT}, 5.0),
    ("the next one would meet the same", replace(JOB, retry_on=EVERYTHING), {"cause": Cause.CANNOT_RUN}, None),
    ("a restart took it", JOB, TAKEN, None),
    ("a restart took it, and it can go on", replace(JOB, retries=0, resumable=True), TAKEN, 0.0),
    ("a restart took it after its last try", replace(JOB, resumable=True), {**TAKEN, "tries": 9}, 0.0),
)  # fmt: skip


@pytest.mark.parametrize(("_words", "job", "changes", "pause"), CASES, ids=[words for words, *_ in CASES])
def test_another_attempt_follows_when(_words: str, job: Job, changes: dict[str, object], pause: float | None) -> None:
    record = replace(FAILED, **changes)  # type: ignore[arg-type]  # fields of a record

    found = due_again([job], {"a": record})

    assert found == ({} if pause is None else {"a": ENDED + pause})


def test_a_job_that_never_began_is_no_second_attempt() -> None:
    assert due_again([JOB], {}) == {}


def test_the_pause_doubles_up_to_a_limit() -> None:
    pauses = [pause_s(tries) for tries in (1, 2, 3, 4, 40, 4000)]

    assert pauses == [FIRST_PAUSE_S, 10.0, 20.0, 40.0, LONGEST_PAUSE_S, LONGEST_PAUSE_S]
