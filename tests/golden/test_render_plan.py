"""What `plan` prints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from migctl.core.views.plan import PlanView
from migctl.render.console import Style
from migctl.render.plan_text import plan_text
from tests.support import render_values as values

CASES: dict[str, Callable[[], PlanView]] = {
    "seven-1g": values.seven_small,
    "3g-and-4g": values.three_and_four,
    "beside-strangers": values.beside_strangers,
    "fragmented": values.fragmented,
    "needs-11-of-8": values.too_much,
    "a30-korean": values.four_quarters,
    "rtx-pro-6000": values.twelve_slices,
    "8-gpus": values.eight_gpus,
    "t4-shared": values.shared_t4,
    "96-wait": values.long_queue,
    "112-origins": values.many_origins,
    "thread-each": values.thread_each,
    "marked-cores": values.marked_cores,
    "steps-and-machine": values.offline,
}


@pytest.mark.parametrize("name", CASES)
def test_plan_reads_as_kept(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"render/plan-{name}", plan_text(CASES[name](), values.PLAIN))


@pytest.mark.parametrize("name", ["seven-1g", "8-gpus", "rtx-pro-6000", "needs-11-of-8"])
@pytest.mark.parametrize("width", [60, 200])
def test_plan_uses_the_width_it_has(name: str, width: int, golden: Callable[[str, str], None]) -> None:
    golden(f"render/plan-{name}-{width}", plan_text(CASES[name](), replace(values.PLAIN, width=width)))


@pytest.mark.parametrize("name", ["beside-strangers", "8-gpus", "a30-korean", "marked-cores"])
def test_plan_on_a_terminal_without_unicode(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"render/plan-{name}-ascii", plan_text(CASES[name](), replace(values.PLAIN, unicode=False)))


def test_plan_in_colour(golden: Callable[[str, str], None]) -> None:
    golden("render/plan-beside-strangers-colour", plan_text(values.beside_strangers(), Style(tty=True, color=True)))


def test_all_unfolds_every_job() -> None:
    view = values.eight_gpus()

    text = plan_text(view, values.PLAIN, everything=True)

    assert all(f" {a.job.name} " in text for a in view.allocation.assignments)
    assert "sweep × 56" not in text
