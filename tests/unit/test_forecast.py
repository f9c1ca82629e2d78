"""How a queue is expected to run."""

from __future__ import annotations

import time
from dataclasses import replace

from migctl.core.choices import Strategy
from migctl.core.queueing.forecast import Forecast, forecast
from migctl.core.queueing.situation import Situation
from migctl.core.queueing.turn import History, Site, Turn, Wish
from migctl.core.runs.record import JobState
from tests.support.queue_cases import A100, T4, WHOLE, running, spare, stay, turns, wish


def lasting(names: str, *hours: float | None) -> list[Turn]:
    return [
        replace(t, expect_s=h * 3600 if h is not None else None) for t, h in zip(turns(A100, names), hours, strict=True)
    ]


def on(*sites: Site, jobs: list[Turn], **more: object) -> Situation:
    return Situation(turns=jobs, states={}, sites=sites, now=0.0, **more)  # type: ignore[arg-type]  # a table's own keys


def hours(course: Forecast) -> dict[str, tuple[float | None, float | None]]:
    def in_hours(at: float | None) -> float | None:
        return at / 3600 if at is not None else None

    return {name: (in_hours(one.start), in_hours(one.end)) for name, one in course.jobs.items()}


def test_jobs_follow_each_other_as_room_comes_free() -> None:
    course = forecast(on(Site(gpu=A100), jobs=lasting("4g.20gb 3g.20gb 4g.20gb 1g.5gb", 3, 2, 1, 1)))

    assert hours(course) == {"a": (0, 3), "b": (0, 2), "d": (2, 3), "c": (3, 4)}
    assert (course.ends_at, course.reason) == (4 * 3600, None)
    assert course.jobs["c"].placement == course.jobs["a"].placement


def test_what_runs_ends_as_expected_and_what_is_overdue_now() -> None:
    there = (stay(A100, "4g.20gb", 0, "a", ends_at=1800.0), stay(A100, "3g.20gb", 4, "b", ends_at=-5.0))
    jobs = lasting("4g.20gb 3g.20gb 4g.20gb 3g.20gb", 1, 1, 1, 1)
    history = History(started={"a": -1800.0, "b": -3605.0})
    course = forecast(replace(on(Site(gpu=A100, stays=there), jobs=jobs, history=history), states=running("a", "b")))

    assert hours(course) == {"a": (-0.5, 0.5), "b": (-3605 / 3600, 0), "d": (0, 1), "c": (0.5, 1.5)}


def test_without_expect_what_comes_after_is_not_known_and_the_reason_names_the_job() -> None:
    course = forecast(on(Site(gpu=A100), jobs=lasting("4g.20gb 3g.20gb 4g.20gb 3g.20gb", None, 2, 1, 1)))

    assert hours(course) == {"a": (0, None), "b": (0, 2), "d": (2, 3), "c": (None, None)}
    assert (course.ends_at, course.reason) == (None, "a gives no expect")
    assert course.jobs["a"].reason == "a gives no expect"
    assert course.jobs["c"].reason == "a gives no expect"


def test_what_never_starts_is_named() -> None:
    jobs = [*lasting("4g.20gb", 1), replace(lasting("3g.20gb", 1)[0], name="b", needs=("gone",))]
    course = forecast(on(Site(gpu=A100), jobs=jobs))

    assert hours(course) == {"a": (0, 1), "b": (None, None)}
    assert (course.ends_at, course.reason) == (None, "b would not start")


def test_of_a_held_run_only_what_runs_is_known() -> None:
    there = stay(A100, "4g.20gb", 0, "a", ends_at=3600.0)
    held = on(Site(gpu=A100, stays=(there,)), jobs=lasting("4g.20gb 3g.20gb", 1, 1), held=True)
    course = forecast(replace(held, states=running("a"), history=History(started={"a": 0.0})))

    assert hours(course) == {"a": (0, 1), "b": (None, None)}
    assert (course.ends_at, course.reason, course.jobs["b"].reason) == (None, "the run is held", "the run is held")


def test_needs_stages_and_pauses_are_part_of_the_course() -> None:
    a, b, c, d = lasting("1g.5gb 1g.5gb 1g.5gb 1g.5gb", 1, 1, 1, 1)
    jobs = [replace(a, stage=1), replace(b, stage=2), replace(c, needs=("b",)), d]
    course = forecast(on(Site(gpu=A100), jobs=jobs, not_before={"d": 5400.0}))

    assert hours(course) == {"a": (0, 1), "b": (1, 2), "d": (1.5, 2.5), "c": (2, 3)}


def test_cores_and_places_of_the_strategies_come_free_too() -> None:
    few = forecast(on(Site(gpu=A100), jobs=lasting("1g.5gb 1g.5gb", 1, 1), free_cores={0: 1}))
    part = Wish("8000 MiB", wish(WHOLE, T4).options, memory_mib=8000)
    shared = [Turn(name=name, wish=part, expect_s=3600.0) for name in "ab"]
    memory = forecast(on(Site(gpu=T4), jobs=shared, strategy=Strategy.SHARED))

    assert hours(few) == hours(memory) == {"a": (0, 1), "b": (1, 2)}


def test_a_job_in_an_administrators_instance_ends_and_the_next_one_gets_it() -> None:
    lent = Wish("MIG-x", {}, instance_uuid="MIG-x")
    jobs = [Turn(name=name, wish=lent, expect_s=3600.0) for name in "abc"]
    situation = on(
        Site(gpu=A100, stays=(stay(A100, "2g.10gb", 0),)),
        jobs=jobs,
        lent=frozenset({"MIG-x"}),
        history=History(started={"a": -1800.0}),
    )

    assert hours(forecast(replace(situation, states=running("a")))) == {
        "a": (-0.5, 0.5),
        "b": (0.5, 1.5),
        "c": (1.5, 2.5),
    }


def test_an_ended_jobs_instance_is_room_in_the_forecast() -> None:
    site = Site(gpu=A100, spares=(spare(A100, "7g.40gb", 0),))

    assert hours(forecast(on(site, jobs=lasting("1g.5gb 7g.40gb", 1, 1)))) == {"a": (0, 1), "b": (1, 2)}


def test_durations_that_the_queue_does_not_know_move_the_clock_only() -> None:
    jobs = lasting("7g.40gb 7g.40gb", None, None)
    course = forecast(on(Site(gpu=A100), jobs=jobs), {"a": 3600.0, "b": 7200.0})

    assert hours(course) == {"a": (0, 1), "b": (1, 3)}


def test_a_long_queue_is_forecast_in_seconds() -> None:
    names = ["1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"]
    wishes = [wish(name, A100) for name in names]
    jobs = [Turn(name=f"j{n}", wish=wishes[n % 5], expect_s=600.0 * (n % 5 + 1)) for n in range(1000)]
    began = time.process_time()
    course = forecast(on(Site(gpu=A100), jobs=jobs))

    assert course.ends_at is not None
    assert time.process_time() - began < 10  # a fraction of a second where nothing else runs


def test_states_without_expect_are_not_drawn_as_known() -> None:
    course = forecast(replace(on(Site(gpu=A100), jobs=lasting("1g.5gb", 1)), states={"a": JobState.SUCCEEDED}))

    assert (course.jobs, course.ends_at, course.reason) == ({}, None, None)
