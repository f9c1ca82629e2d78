"""What `status` prints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from migctl.core.cpu.pinning import Pinning
from migctl.core.gpu.mig import MigMode
from migctl.core.views.cores import CoresView
from migctl.core.views.status import StatusView
from migctl.render.layout import mode_words
from migctl.render.status_text import status_text
from tests.support import render_values as values

CASES: dict[str, Callable[[], StatusView]] = {
    "busy": values.busy_status,
    "103-jobs": values.hundred_rows,
    "nine-runs": values.many_runs,
    "two-runs-four-gpus": values.two_runs,
    "nothing": values.nothing_there,
}


@pytest.mark.parametrize("name", CASES)
def test_status_reads_as_kept(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"render/status-{name}", status_text(CASES[name](), values.PLAIN))


def test_workers_that_are_alive_stand_beside_the_planned_ones(golden: Callable[[str, str], None]) -> None:
    view = values.busy_status()
    first, second, *others = view.runs[0].jobs
    seen = Pinning(processes=4, threads=11, runnable=2, workers=3, threads_per_core=2.75)
    jobs = (replace(first, pinning=seen), replace(second, pinning=replace(seen, workers=0)), *others)

    golden("render/status-workers", status_text(replace(view, runs=(replace(view.runs[0], jobs=jobs),)), values.PLAIN))


@pytest.mark.parametrize("width", [60, 200])
def test_status_uses_the_width_it_has(width: int, golden: Callable[[str, str], None]) -> None:
    golden(f"render/status-busy-{width}", status_text(values.busy_status(), replace(values.PLAIN, width=width)))


def test_status_on_a_terminal_without_unicode(golden: Callable[[str, str], None]) -> None:
    golden("render/status-busy-ascii", status_text(values.busy_status(), replace(values.PLAIN, unicode=False)))


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        (None, "no MIG"),
        (MigMode(current=True, pending=True), "MIG on"),
        (MigMode(current=False, pending=False), "MIG off"),
        (MigMode(current=False, pending=True), "MIG still off, on only after a GPU reset or reboot"),
        (MigMode(current=True, pending=False), "MIG still on, off only after a GPU reset or reboot"),
    ],
)
def test_a_pending_mode_is_never_called_done(mode: MigMode | None, words: str) -> None:
    assert mode_words(mode) == words


def test_failures_stay_when_rows_have_to_be_left_out() -> None:
    view = values.hundred_rows()
    jobs = tuple(replace(job, origin=job.name) for job in view.runs[0].jobs)

    text = status_text(replace(view, runs=(replace(view.runs[0], jobs=jobs),)), values.PLAIN)

    assert "sweep-48 " in text
    assert "sweep-49 " in text
    assert "more jobs (--all lists them)" in text


def test_cores_named_run_and_job_carry_the_letter_of_the_job() -> None:
    view = values.busy_status()
    assert view.cores is not None
    cells = tuple(replace(cell, jobs=tuple(f"lr-sweep/{job}" for job in cell.jobs)) for cell in view.cores.cells)

    assert status_text(replace(view, cores=CoresView(cells=cells)), values.PLAIN) == status_text(view, values.PLAIN)
