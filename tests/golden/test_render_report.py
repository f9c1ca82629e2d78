"""What `report --format md` says; the page has the same tables."""

from __future__ import annotations

from collections.abc import Callable

from migctl.render.report.markdown import markdown
from tests.support import report_values as values


def test_the_markdown(golden: Callable[[str, str], None]) -> None:
    golden("render/report", markdown(values.night()))


def test_the_markdown_of_a_run_that_nobody_watched(golden: Callable[[str, str], None]) -> None:
    golden("render/report-not-watched", markdown(values.night(watched=False)))
