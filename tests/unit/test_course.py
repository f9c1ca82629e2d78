"""The expected course of a run as it is kept for `status`."""

from __future__ import annotations

from pathlib import Path

from migctl.core.queueing.course import Course, Span, course_of_running
from migctl.core.queueing.situation import Situation
from migctl.core.queueing.turn import Site, Turn
from migctl.engine.queueing.foresight import MOST_JOBS, _course
from migctl.store.ledger import Ledger
from tests.support.queue_cases import A100, wish

COURSE = Course(
    jobs={
        "a": Span(start=100.0, end=700.5),
        "b": Span(start=700.5, end=None, reason="b gives no expect"),
        "c": Span(reason="the run is held"),
    },
    reason="b gives no expect",
)


def test_a_course_is_read_as_it_was_written_and_goes_with_the_run(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "state", write=True, now=lambda: 1.0) as ledger:
        ledger.submissions.save_course("night", COURSE)

        assert ledger.submissions.course("night") == COURSE
        assert ledger.submissions.course("day") is None
        ledger.submissions.withdraw("night")
        assert ledger.submissions.course("night") is None


def test_a_damaged_course_is_no_course(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "state", write=True, now=lambda: 1.0) as ledger:
        ledger.submissions.save_course("night", COURSE)
        path = next((tmp_path / "state").rglob("@course.json"))
        for text in ("", "[]", '{"jobs": {"a": 3}, "ends_at": 1, "reason": null}', '{"jobs": []}'):
            path.write_text(text)

            assert ledger.submissions.course("night") is None


def test_jobs_that_all_run_end_when_they_say_and_nothing_is_known_where_one_says_nothing() -> None:
    said = course_of_running({"a": (100.0, 600.0), "b": (130.0, 60.0)})
    silent = course_of_running({"a": (100.0, 600.0), "b": (130.0, None)})

    assert (said.ends_at, said.reason) == (700.0, None)
    assert (silent.ends_at, silent.reason) == (None, "b gives no expect")
    assert silent.jobs["a"].end == 700.0


def test_a_very_long_queue_is_not_looked_through_by_the_supervisor() -> None:
    same = wish("1g.5gb", A100)
    line = [Turn(name=f"job{n}", wish=same) for n in range(MOST_JOBS + 1)]
    many = Situation(turns=line, states={}, sites=[Site(gpu=A100)], now=0.0)

    assert _course(many) == Course(reason=f"{MOST_JOBS + 1} jobs are too many to look ahead; plan does")
