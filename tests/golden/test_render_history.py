"""What `history` shows."""

from __future__ import annotations

import json
from collections.abc import Callable

from migctl.core.runs.record import JobState
from migctl.core.views.history import AttemptView, HistoryView, PastRun
from migctl.render.history_text import history_json, history_text
from tests.support.render_values import NOW, PLAIN

NIGHT = PastRun(
    name="night",
    plan_path="/home/kim/night.yaml",
    runtime="docker",
    strategy="mig",
    created_at=NOW - 90_000,
    ended_at=NOW - 40_000,
    attempts=(
        AttemptView(
            job="train-lr0.1",
            attempt=1,
            state=JobState.FAILED,
            exit_code=1,
            reason="out of GPU memory: 4.8 GiB were not enough",
            profile="1g.5gb",
            num_workers=2,
            started_at=NOW - 90_000,
            finished_at=NOW - 89_000,
        ),
        AttemptView(
            job="train-lr0.1",
            attempt=2,
            state=JobState.SUCCEEDED,
            exit_code=0,
            profile="1g.5gb",
            num_workers=2,
            started_at=NOW - 88_900,
            finished_at=NOW - 50_000,
        ),
    ),
)
DAY = PastRun(
    name="day",
    created_at=NOW - 600,
    attempts=(AttemptView(job="wide", attempt=1, state=JobState.RUNNING, started_at=NOW - 590),),
)
VIEW = HistoryView(now=NOW, runs=(DAY, NIGHT))


def test_the_text(golden: Callable[[str, str], None]) -> None:
    pages = [
        history_text(VIEW, PLAIN, attempts=False),
        history_text(HistoryView(now=NOW, runs=(NIGHT,)), PLAIN, attempts=True),
        history_text(HistoryView(now=NOW, runs=()), PLAIN, attempts=False),
    ]

    golden("render/history", "\n".join(pages))


def test_the_object_says_null_for_what_is_not_known() -> None:
    value = json.loads(json.dumps(history_json(VIEW)))

    assert value["runs"][0]["ended_at"] is None
    assert value["runs"][0]["attempts"][0] == {
        "job": "wide",
        "attempt": 1,
        "state": "running",
        "exit_code": None,
        "reason": None,
        "profile": None,
        "num_workers": None,
        "started_at": NOW - 590,
        "finished_at": None,
        "code": None,
    }
