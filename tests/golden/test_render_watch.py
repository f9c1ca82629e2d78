"""What `status --watch` draws, on the terminals that people have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from migctl.core.seeing.readings import CpusReading
from migctl.core.seeing.watchkeys import KEYS, Desk, Do, Mode, Order
from migctl.core.views.watch import Sort, WatchView, Wishes
from migctl.render.console import Style
from migctl.render.text import width
from migctl.render.watch_pages import help_lines, log_lines
from migctl.render.watch_picture import watch_lines
from tests.support import watch_values as values

README = Path(__file__).parents[2] / "README.md"
PLAIN = Style(tty=True, color=False, unicode=True, width=80)
SIZES = ((80, 24), (200, 60))
VIEWS: dict[str, Callable[[], WatchView]] = {
    "seven": values.seven_watched,
    "eight-gpus": values.large_machine,
    "nothing": values.nothing_watched,
}


def drawn(view: WatchView, columns: int, lines: int, **style: bool) -> str:
    made = watch_lines(view, replace(PLAIN, width=columns, **style), lines)
    assert len(made) <= lines
    assert [line for line in made if width(line) > columns] == []
    return "\n".join(line.rstrip() for line in made) + "\n"


@pytest.mark.parametrize(("columns", "lines"), SIZES, ids=["80x24", "200x60"])
@pytest.mark.parametrize("name", VIEWS)
def test_the_picture_is_as_kept(name: str, columns: int, lines: int, golden: Callable[[str, str], None]) -> None:
    golden(f"render/watch-{name}-{columns}x{lines}", drawn(VIEWS[name](), columns, lines))


@pytest.mark.parametrize(("columns", "lines"), SIZES, ids=["80x24", "200x60"])
def test_with_a_job_selected_all_is_told_of_it(columns: int, lines: int, golden: Callable[[str, str], None]) -> None:
    wishes = Wishes(selected=f"lr-sweep/{values.NAMES[6]}", keys=KEYS, sort=Sort.URGENCY)
    view = replace(values.seven_watched(), wishes=wishes)

    golden(f"render/watch-selected-{columns}x{lines}", drawn(view, columns, lines))


def test_without_unicode_all_is_there_in_ascii(golden: Callable[[str, str], None]) -> None:
    text = drawn(values.seven_watched(), 80, 24, unicode=False)

    assert text.isascii()
    golden("render/watch-seven-ascii", text)


def test_with_colour_each_job_has_its_own(golden: Callable[[str, str], None]) -> None:
    text = drawn(values.seven_watched(), 80, 24, color=True)

    golden("render/watch-seven-colour", text.replace("\x1b", "␛"))


def test_the_log_and_the_keys_have_pages(golden: Callable[[str, str], None]) -> None:
    order = Order(do=Do.READ_LOG, run="lr-sweep", job="baseline")
    desk = Desk(mode=Mode.LOG, order=order, back=2)
    log = log_lines("lr-sweep/baseline", [f"epoch {n}: loss {1 / (n + 1):.3f}" for n in range(40)], desk, PLAIN, 12)
    keys = help_lines(Desk(mode=Mode.HELP), PLAIN, 24)

    assert (len(log), len(keys)) == (12, 24)
    golden("render/watch-pages", "\n".join([*log, "-" * 80, *keys]) + "\n")


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("unicode", [True, False])
def test_every_size_is_kept_within(name: str, unicode: bool) -> None:
    view = replace(VIEWS[name](), wishes=Wishes(keys=KEYS, selected="lr-sweep/baseline"))
    for columns in (20, 40, 79, 80, 120, 300):
        for lines in (1, 4, 10, 24, 50):
            made = watch_lines(view, replace(PLAIN, width=columns, unicode=unicode, color=True), lines)

            assert len(made) <= max(4, lines), (columns, lines)
            assert [line for line in made if width(line) > columns] == [], (columns, lines)


def test_who_owns_a_core_is_told_without_colour_and_what_is_not_measured_is_no_zero() -> None:
    view = values.seven_watched()
    assert view.reading is not None
    assert view.reading.cpus is not None
    blind = replace(view.reading, cpus=CpusReading(cpus=(0,), busy=(0.5,), iowait=(0.0,)))
    lines = drawn(replace(view, reading=blind), 80, 24).splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith("CORES"))

    bars, letters = (line.split()[-1] for line in lines[place + 1 : place + 3])
    assert letters.startswith("AABBCC")
    assert bars[1:] == "?" * 15


def test_a_pattern_leaves_the_others_out_and_says_so() -> None:
    text = drawn(replace(values.seven_watched(), wishes=Wishes(pattern="LATE", keys=KEYS)), 80, 24)

    assert "2 of 10 with “LATE”" in text
    assert "late-2" in text
    assert " baseline" not in text.split("WHAT HOLDS")[1]


def test_the_selected_job_is_always_among_the_rows() -> None:
    view = values.large_machine()
    for number in (1, 20, 56):
        text = drawn(replace(view, wishes=Wishes(selected=f"sweep/sweep-{number}", keys=KEYS)), 80, 24)

        (row,) = [line for line in text.splitlines() if line.startswith(">")]
        assert row.split()[2] == f"sweep-{number}"


def test_the_readme_shows_the_picture(golden: Callable[[str, str], None]) -> None:
    assert drawn(values.seven_watched(), 80, 24).rstrip("\n") in README.read_text("utf-8")
