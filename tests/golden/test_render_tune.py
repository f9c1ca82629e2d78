"""What `tune` prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.seeing.throughput import Estimate
from migctl.core.seeing.tuning import Point, best, fewest, verdict
from migctl.core.views.tuning import TuneView
from migctl.errors import Notice
from migctl.render.tune_text import point_line, tune_json, tune_text
from tests.support.render_values import PLAIN


def point(
    workers: int, rate: float, margin: float, wait: float | None, busy: float | None, iowait: float | None
) -> Point:
    return Point(
        workers,
        Estimate(
            rate=rate,
            half_width=margin,
            windows=12,
            seconds=12.5,
            wait_share=wait,
            busy_cpus=busy,
            own_cpus=busy,
            iowait_cpus=iowait,
        ),
    )


def view(*points: Point, planned: int = 4, **changes: object) -> TuneView:
    curve = {p.num_workers: p for p in points}
    made = TuneView(
        run="lr-sweep",
        job="train-lr0.1",
        origin="train",
        cpus=CpuSet.parse("0-3,16-19"),
        cores=4,
        profile="2g.10gb",
        runtime="docker",
        probe=False,
        planned=planned,
        points=tuple(curve[count] for count in sorted(curve)),
        best=best(curve),
        recommended=fewest(curve),
        verdict=verdict(curve[fewest(curve)].measured, 4),
        simulated="sim:a100-40gb",
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # names of fields, chosen in this file


CPU_BOUND = view(
    point(2, 611.4, 9.2, 0.55, 2.1, 0.0),
    point(3, 903.1, 14.0, 0.41, 3.0, 0.0),
    point(4, 1180.9, 20.1, 0.30, 3.9, 0.1),
    point(6, 1189.0, 31.7, 0.29, 4.0, 0.1),
    written="plan.yaml",
)
DISK = view(
    point(1, 8.12, 0.4, 0.9, 0.3, 0.9),
    point(4, 31.3, 1.1, 0.8, 0.9, 2.8),
    point(6, 47.0, 1.0, 0.7, 1.2, 2.5),
    point(9, 46.1, 2.0, 0.7, 1.3, 2.7),
    notices=(Notice("changed-meanwhile", "4 workers made 20.1 samples/s at the beginning and 31.3 at the end"),),
)
UNKNOWN = view(point(1, 96.0, 0.1, None, None, None), point(2, 96.5, 0.1, None, None, None), planned=1, simulated="")
CASES = {"cpu": CPU_BOUND, "disk": DISK, "unknown": UNKNOWN}


@pytest.mark.parametrize("name", CASES)
def test_the_curve_and_what_to_make_of_it(name: str, golden: Callable[[str, str], None]) -> None:
    text = tune_text(CASES[name], PLAIN)

    assert max(map(len, text.splitlines())) <= 80
    golden(f"render/tune-{name}", text)


@pytest.mark.parametrize("width", [40, 60])
def test_narrow_terminals_lose_columns_and_bars_first(width: int, golden: Callable[[str, str], None]) -> None:
    golden(f"render/tune-cpu-{width}", tune_text(CPU_BOUND, replace(PLAIN, width=width)))


def test_without_unicode_there_is_none(golden: Callable[[str, str], None]) -> None:
    text = tune_text(DISK, replace(PLAIN, unicode=False))

    assert text.isascii()
    golden("render/tune-disk-ascii", text)


def test_programs_get_every_number_or_why_there_is_none(golden: Callable[[str, str], None]) -> None:
    golden("render/tune-json", json.dumps([tune_json(CPU_BOUND), tune_json(UNKNOWN)], indent=2) + "\n")


def test_a_finished_measurement_is_one_line() -> None:
    assert point_line(CPU_BOUND.points[0]) == "2 workers: 611 samples/s"
