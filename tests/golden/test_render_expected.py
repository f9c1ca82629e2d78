"""When jobs are expected to start and to end, as `status` says it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from migctl.core.queueing.course import Span
from migctl.core.runs.record import JobState
from migctl.core.views.status import JobView, RunView, StatusView
from migctl.render.json_status import status_json
from migctl.render.status_text import status_text
from tests.support.render_values import NOW, PLAIN


def test_a_status_says_when_what_is_expected_to_end(golden: Callable[[str, str], None]) -> None:
    job = JobView(name="a", origin="a", state=JobState.RUNNING, started_at=NOW - 600, num_workers=2)
    jobs = (
        replace(job, expected=Span(start=NOW - 600, end=NOW + 7_800)),
        replace(job, name="b", origin="b", expected=Span(start=NOW - 600, end=NOW - 240)),
        JobView(name="c", origin="c", state=JobState.QUEUED, expected=Span(start=NOW + 7_800, end=NOW + 9_000)),
        JobView(name="d", origin="d", state=JobState.QUEUED, expected=Span(reason="d gives no expect")),
    )
    view = StatusView(
        now=NOW,
        runs=(RunView(name="night", state="running", jobs=jobs, created_at=NOW - 600, ends_at=NOW + 9_000),),
        gpus=(),
    )

    golden("render/status-expected", status_text(view, PLAIN))
    (run,) = json.loads(json.dumps(status_json(view)))["runs"]
    assert run["expected_end_at"] == NOW + 9_000
    assert [one.get("expected_end_reason") for one in run["jobs"]] == [None, None, None, "d gives no expect"]
    assert [one["expected_end_at"] for one in run["jobs"]] == [NOW + 7_800, NOW - 240, NOW + 9_000, None]
