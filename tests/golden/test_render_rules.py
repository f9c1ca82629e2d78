"""What holds for every text: its width, its signs, its colours, its length."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migctl.core.views.plan import PlanView
from migctl.core.views.status import StatusView
from migctl.errors import DoesNotFit
from migctl.render.check_text import check_text
from migctl.render.console import LEAST_WIDTH, Style
from migctl.render.plan_text import plan_text
from migctl.render.status_text import status_text
from migctl.render.table import Column, table
from migctl.render.text import clean, duration, fit, gib, pad, width, wrap
from tests.support import render_values as values

View = PlanView | StatusView
VIEWS: dict[str, Callable[[], View]] = {
    view.__name__: view
    for view in (
        values.seven_small, values.three_and_four, values.beside_strangers, values.fragmented, values.too_much,
        values.four_quarters, values.twelve_slices, values.eight_gpus, values.shared_t4, values.long_queue, values.many_origins,
        values.thread_each, values.marked_cores, values.offline, values.busy_status, values.hundred_rows, values.many_runs,
        values.two_runs, values.nothing_there,
    )
}  # fmt: skip
SGR = re.compile(r"\x1b\[[0-9;]*m")


def draw(view: View, style: Style, *, everything: bool = False) -> str:
    if isinstance(view, PlanView):
        return plan_text(view, style, everything=everything)
    return status_text(view, style, everything=everything)


@pytest.mark.parametrize("name", VIEWS)
def test_no_line_is_wider_than_the_terminal(name: str) -> None:
    view = VIEWS[name]()
    for columns, unicode, color, everything in product((40, 60, 80, 200), (True, False), (True, False), (True, False)):
        style = Style(tty=color, color=color, unicode=unicode, width=columns)
        wide = [line for line in draw(view, style, everything=everything).splitlines() if width(line) > columns]

        assert not wide, (columns, unicode, color, everything)


@pytest.mark.parametrize("name", VIEWS)
def test_without_unicode_every_byte_is_ascii(name: str) -> None:
    assert draw(VIEWS[name](), replace(values.PLAIN, unicode=False)).isascii()


@pytest.mark.parametrize("name", VIEWS)
def test_colour_adds_nothing_but_colour(name: str) -> None:
    view = VIEWS[name]()

    painted = draw(view, replace(values.PLAIN, color=True))

    assert "\x1b[" in painted
    assert SGR.sub("", painted) == draw(view, values.PLAIN)


@pytest.mark.parametrize("name", VIEWS)
def test_no_line_ends_in_a_blank(name: str) -> None:
    ragged = [line for line in draw(VIEWS[name](), values.PLAIN).splitlines() if line != line.rstrip()]

    assert not ragged


@pytest.mark.parametrize("name", ["long_queue", "many_origins", "hundred_rows", "eight_gpus"])
@pytest.mark.parametrize("columns", [80, 120])
def test_more_than_a_hundred_jobs_stay_within_sixty_lines(name: str, columns: int) -> None:
    text = draw(VIEWS[name](), replace(values.PLAIN, width=columns))

    assert len(text.splitlines()) <= 60


def test_a_run_of_a_hundred_different_failures_stays_within_sixty_lines() -> None:
    view = values.hundred_rows()
    jobs = tuple(
        replace(job, origin=job.name, reason=f"reason {n} " + "and so on " * 20)
        for n, job in enumerate(view.runs[0].jobs)
    )

    text = draw(replace(view, runs=(replace(view.runs[0], jobs=jobs),)), values.PLAIN)

    assert len(text.splitlines()) <= 60


SIMULATED: Sequence[Callable[[], str]] = (
    lambda: draw(replace(values.seven_small(), simulated="sim:a100-40gb"), values.PLAIN),
    lambda: draw(replace(values.busy_status(), simulated="sim:a100-40gb"), values.PLAIN),
    lambda: draw(replace(values.seven_small(), simulated="sim:a100-40gb"), replace(values.PLAIN, width=40)),
    lambda: check_text(values.FINDINGS, values.PLAIN, simulated="sim:" + "a100-40gb," * 20),
)


@pytest.mark.parametrize("text", SIMULATED)
def test_simulated_gpus_are_called_simulated(text: Callable[[], str]) -> None:
    assert "simulated" in text().splitlines()[0] + text().splitlines()[1]


@pytest.mark.parametrize(
    ("tty", "environ", "encoding", "no_color", "colour", "unicode"),
    [
        (True, {}, "utf-8", False, True, True),
        (True, {"NO_COLOR": "1"}, "UTF8", False, False, True),
        (True, {"NO_COLOR": ""}, "utf-8", False, True, True),
        (True, {"TERM": "dumb"}, "utf-8", False, False, True),
        (True, {}, "utf-8", True, False, True),
        (False, {}, "utf-8", False, False, True),
        (False, {"FORCE_COLOR": "1"}, "utf-8", False, True, True),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, "utf-8", False, False, True),
        (True, {}, "ANSI_X3.4-1968", False, True, False),
        (True, {}, "euc_kr", False, True, False),
    ],
)
def test_style_follows_the_stream_and_the_environment(
    tty: bool, environ: dict[str, str], encoding: str, no_color: bool, colour: bool, unicode: bool
) -> None:
    style = Style.of(tty=tty, environ=environ, encoding=encoding, width=10, no_color=no_color)

    assert (style.color, style.unicode, style.width) == (colour, unicode, LEAST_WIDTH)


@given(st.text(), st.booleans())
def test_cleaned_text_cannot_steer_the_terminal(text: str, unicode: bool) -> None:
    style = replace(values.PLAIN, unicode=unicode)

    shown = clean(text, style)

    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in shown)
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u2028\u2029")
    assert unicode or shown.isascii()
    shown.encode("utf-8")


@given(st.text("ab 한글é\u0301…", max_size=40), st.integers(1, 20), st.sampled_from(["end", "middle"]))
def test_fitted_text_keeps_within_its_columns(text: str, columns: int, cut: str) -> None:
    short = fit(text, columns, values.PLAIN, "middle" if cut == "middle" else "end")

    assert width(short) <= columns
    assert width(text) > columns or short == text


@given(st.text("ab 한글", max_size=80), st.integers(2, 30))
def test_wrapping_loses_nothing_but_blanks(text: str, columns: int) -> None:
    lines = wrap(text, columns, values.PLAIN)

    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(width(line) <= columns for line in lines)


@pytest.mark.parametrize(
    ("text", "columns"), [("abc", 3), ("한글", 4), ("e\u0301", 1), ("\x1b[1;31mred\x1b[0m", 3), ("한a글", 5), ("", 0)]
)
def test_width_counts_columns(text: str, columns: int) -> None:
    assert width(text) == columns
    assert width(pad(text, 8)) == 8


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0s"),
        (59.9, "59s"),
        (60, "1m"),
        (3599, "59m"),
        (3600, "1h"),
        (8000, "2h 13m"),
        (86400, "1d"),
        (274000, "3d 4h"),
    ],
)
def test_durations_have_two_units_at_most(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_unknown_memory_is_never_zero() -> None:
    assert gib(None) == "n/a"


def test_a_table_shrinks_before_it_drops_and_drops_the_least_important_first() -> None:
    columns = (
        Column(title="NAME", least=6),
        Column(title="KEEP"),
        Column(title="LESS", drop=1),
        Column(title="LEAST", drop=2),
    )
    rows = [["a-long-name-indeed", "kept", "less", "least"]]

    shown = {
        room: table(columns, rows, replace(values.PLAIN, width=40), indent=40 - room)[1].strip()
        for room in (37, 31, 25, 24)
    }

    assert shown == {
        37: "a-long-name-indeed  kept  less  least",
        31: "a-long-name…  kept  less  least",
        25: "a-lon…  kept  less  least",
        24: "a-long-name…  kept  less",
    }


def test_a_conflict_about_cores_is_not_drawn_in_slices() -> None:
    view = values.fragmented()
    blocked = DoesNotFit("no-free-core", "no free core for big: this plan has 2 cores with 2 logical CPUs")

    text = draw(replace(view, allocation=replace(view.allocation, blocked=blocked)), values.PLAIN)

    assert "no free core for big" in text
    assert "CONFLICT" not in text
