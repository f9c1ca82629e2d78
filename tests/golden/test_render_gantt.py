"""What the expected course of a queue looks like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from migctl.core.queueing.forecast import forecast
from migctl.core.queueing.situation import Situation
from migctl.core.queueing.turn import Site, Turn
from migctl.render.console import Style
from migctl.render.gantt import gantt
from tests.support.queue_cases import A100, turns

NAMES = ["baseline", "sweep-lr0.1-seed1", "sweep-lr0.01-seed2-momentum0.9", "d", "e", "f"]
HOURS = [3, 2, 1, 1, 1.5, 4]


def jobs() -> list[Turn]:
    asked = turns(A100, "4g.20gb 3g.20gb 7g.40gb 1g.5gb 1g.5gb 2g.10gb")
    return [replace(t, name=name, expect_s=h * 3600) for t, name, h in zip(asked, NAMES, HOURS, strict=True)]


def on(waiting: list[Turn]) -> Situation:
    return Situation(turns=waiting, states={}, sites=[Site(gpu=A100)], now=0.0)


def test_the_picture_of_a_course(golden: Callable[[str, str], None]) -> None:
    known = forecast(on(jobs()))
    open_end = forecast(on([replace(jobs()[0], expect_s=None), *jobs()[1:]]))
    pictures = [
        gantt(known, 0.0, Style()),
        gantt(known, 0.0, Style(unicode=False, width=60), most=3),
        gantt(open_end, 0.0, Style()),
    ]

    golden("render/gantt", "\n\n".join("\n".join(picture) for picture in pictures) + "\n")
    assert all(len(line) <= 80 for picture in pictures for line in picture)


def test_no_jobs_no_picture() -> None:
    assert gantt(forecast(on([])), 0.0, Style()) == []
