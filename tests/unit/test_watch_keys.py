"""What keys do in `status --watch`, and in which order jobs stand there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from migctl.core.runs.record import JobState
from migctl.core.seeing.watchkeys import Desk, Do, Mode, Order, pressed
from migctl.core.seeing.watchrows import Row, rows
from migctl.core.views.watch import Sort, Wishes
from tests.support.watch_values import NAMES, seven_watched

RUN = "lr-sweep"


def shown(**wishes: object) -> tuple[Row, ...]:
    return rows(replace(seven_watched(), wishes=Wishes(**wishes)))  # type: ignore[arg-type]  # fields of the wishes


def typed(desk: Desk, keys: Sequence[str], on: Sequence[Row]) -> tuple[Desk, list[Order]]:
    """Every key after the other; one letter is itself, what is longer is a key's name."""
    orders = []
    for key in keys:
        desk, order = pressed(desk, key, key if len(key) == 1 else "", on)
        orders += [order] if order is not None else []
    return desk, orders


def at(name: str, **changes: object) -> Desk:
    return replace(Desk(selected=f"{RUN}/{name}"), **changes)  # type: ignore[arg-type]  # fields of the desk


@pytest.mark.parametrize(
    ("sort", "first", "last"),
    [
        (Sort.PLAN, "baseline", "late-2"),
        (Sort.URGENCY, NAMES[5], "late-2"),
        (Sort.CPU, "baseline", "late-2"),
        (Sort.WAIT, "baseline", "late-2"),
        (Sort.GPU, NAMES[3], "late-2"),
        (Sort.MEMORY, NAMES[6], "late-2"),
        (Sort.NAME, "baseline", "too-large"),
    ],
)
def test_jobs_stand_in_the_order_that_is_asked_for(sort: Sort, first: str, last: str) -> None:
    found = [row.job.name for row in shown(sort=sort)]

    assert (found[0], found[-1], len(found)) == (first, last, 10)


def test_what_a_job_does_is_told_in_a_few_words() -> None:
    words = {row.job.name: row.words for row in shown()}

    assert words["baseline"] == "waits for data: CPU-bound"
    assert words["too-large"] == "failed (1): out of memory of its GPU instance"
    assert words["late-1"] == "queued: waits for a 1g.5gb, all 7 are taken"
    assert words[NAMES[1]] == ""
    assert words[NAMES[6]] == "bottleneck unknown"


def test_a_selection_moves_and_stays_on_the_list() -> None:
    jobs = shown()

    assert typed(Desk(), ["down"], jobs)[0].selected == f"{RUN}/baseline"
    assert typed(Desk(), ["up"], jobs)[0].selected == f"{RUN}/late-2"
    assert typed(Desk(), ["down", "j", "k"], jobs)[0].selected == f"{RUN}/baseline"
    assert typed(Desk(), ["end", "down", "pageup"], jobs)[0].selected == f"{RUN}/baseline"
    assert typed(Desk(), ["down"], ())[0].selected == ""
    assert typed(at("gone"), ["down"], jobs)[0].selected == f"{RUN}/baseline"
    assert typed(at("baseline"), ["escape"], jobs)[0].selected == ""


def test_sorting_goes_round_in_both_directions() -> None:
    desk, _ = typed(Desk(), ["s"] * len(Sort), shown())

    assert desk.sort is Sort.PLAN
    assert typed(desk, ["s"], shown())[0].sort is Sort.URGENCY
    assert typed(desk, ["S"], shown())[0].sort is Sort.NAME


def test_a_pattern_is_written_kept_and_taken_back() -> None:
    writing, _ = typed(Desk(), ["/", *"lxte", "backspace", "backspace", "backspace", *"ate"], shown())
    kept, _ = typed(writing, ["enter"], shown())

    assert (writing.mode, writing.pattern) == (Mode.FILTER, "late")
    assert (kept.mode, kept.pattern) == (Mode.JOBS, "late")
    assert typed(kept, ["/", "x", "escape"], shown())[0].pattern == "late"
    assert typed(kept, ["escape"], shown())[0].pattern == "", "with nobody selected"
    assert {row.job.name for row in shown(pattern="LATE")} == {"late-1", "late-2"}
    assert {row.job.name for row in shown(pattern="cpu-bound")} == {"baseline"}


@pytest.mark.parametrize("key", ["x", "l", "h", "enter"])
def test_nothing_is_done_with_no_job_selected(key: str) -> None:
    desk, orders = typed(Desk(), [key], shown())

    assert (orders, desk.answer, desk.mode) == ([], "select a job first: up, down", Mode.JOBS)


def test_a_job_is_stopped_only_when_that_is_confirmed() -> None:
    asking, orders = typed(at("baseline"), ["x"], shown())
    assert (asking.mode, orders) == (Mode.CONFIRM, [])
    assert "stop lr-sweep/baseline?" in asking.line

    for other in ("n", "escape", "enter", "q", "x"):
        left, orders = typed(asking, [other], shown())
        assert (left.mode, left.answer, orders) == (Mode.JOBS, "left as it is", [])

    _, orders = typed(asking, ["y"], shown())
    assert orders == [Order(do=Do.STOP, run=RUN, job="baseline")]
    assert typed(at("too-large"), ["x"], shown())[0].answer == "lr-sweep/too-large has ended: failed"


def test_hold_is_for_what_waits_and_a_second_time_lets_go() -> None:
    jobs = shown()
    held = [
        Row(
            replace(row.run, jobs=tuple(replace(j, reason="held") for j in row.run.jobs)),
            replace(row.job, reason="held"),
        )
        if row.job.state is JobState.QUEUED
        else row
        for row in jobs
    ]
    idle = [Row(replace(jobs[0].run, jobs=jobs[0].run.jobs[:7]), jobs[0].job)]

    assert typed(at("late-1"), ["h"], jobs)[1] == [Order(do=Do.HOLD, run=RUN, job="late-1")]
    assert typed(at("baseline"), ["h"], jobs)[1] == [Order(do=Do.HOLD, run=RUN)]
    assert typed(at("late-1"), ["h"], held)[1] == [Order(do=Do.RELEASE, run=RUN)]
    assert typed(at("baseline"), ["h"], idle)[0].answer == "nothing of lr-sweep waits"


def test_a_log_is_opened_scrolled_and_left() -> None:
    reading, orders = typed(at("baseline"), ["l"], shown())

    assert orders == [Order(do=Do.READ_LOG, run=RUN, job="baseline")]
    assert (reading.mode, reading.order) == (Mode.LOG, orders[0])
    assert typed(reading, ["up", "up", "down"], shown())[0].back == 1
    assert typed(reading, ["down"], shown())[0].back == 0
    assert typed(reading, ["pageup", "end"], shown())[0].back == 0
    assert typed(reading, ["escape"], shown())[0].mode is Mode.JOBS


def test_q_and_ctrl_c_leave_from_everywhere_but_where_letters_are_written() -> None:
    leave = [Order(do=Do.LEAVE)]
    for mode in (Mode.JOBS, Mode.HELP, Mode.LOG):
        assert typed(Desk(mode=mode), ["q"], shown())[1] == leave
    for mode in Mode:
        assert typed(Desk(mode=mode), ["ctrl+c"], shown())[1] == leave
    assert typed(Desk(), ["/", "q"], shown())[0].pattern == "q"
    assert typed(Desk(), ["?", "x"], shown())[0].mode is Mode.JOBS
    assert typed(Desk(), ["r"], shown())[1] == [Order(do=Do.LOOK)]
