"""What `check`, `profiles` and `workers` print."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from migctl.core.cpu.workers import GUIDE_TABLE
from migctl.core.views.findings import Finding, Level
from migctl.core.views.tables import BoardProfiles, WorkersRow
from migctl.render.check_text import check_text
from migctl.render.console import Style
from migctl.render.profiles_text import profiles_text
from migctl.render.workers_text import workers_markdown, workers_text
from tests.support import render_values as values

BOARDS = (
    *(BoardProfiles(name="NVIDIA A100-SXM4-40GB", profiles=values.A100, index=n) for n in (0, 1)),
    BoardProfiles(name="NVIDIA RTX PRO 6000 Blackwell Server Edition", profiles=values.RTX_PRO_6000, index=2),
    BoardProfiles(name="Tesla T4", profiles=(), index=3),
    BoardProfiles(name="NVIDIA A30", profiles=(), index=4, reason="n/a: this driver answers only with MIG mode on"),
)
ROWS = tuple(
    WorkersRow(cores=r.cores, jobs=r.jobs, num_workers=r.num_workers, cores_per_job=r.num_workers, note=r.remark)
    for r in GUIDE_TABLE
)


@pytest.mark.parametrize("width", [60, 80])
def test_check_says_level_and_next_step_in_words(width: int, golden: Callable[[str, str], None]) -> None:
    style = replace(values.PLAIN, width=width)
    golden(f"render/check-{width}", check_text(values.FINDINGS, style, simulated="sim:a100-40gb"))


def test_check_without_an_engine_says_that_processes_can_run() -> None:
    engine = Finding(id="no-engine", level=Level.FAILURE, message="no container engine", containers_only=True)
    other = Finding(id="state-dir-unusable", level=Level.FAILURE, message="it is no folder")

    assert "--runtime process" in check_text((engine,), Style(width=120))
    assert "--runtime process" not in check_text((engine, other), Style(width=120))
    assert "can work here\n" in check_text((), Style())


@pytest.mark.parametrize("width", [60, 80])
def test_profiles_are_listed_once_for_equal_boards(width: int, golden: Callable[[str, str], None]) -> None:
    golden(f"render/profiles-{width}", profiles_text(BOARDS, replace(values.PLAIN, width=width)))


@pytest.mark.parametrize("width", [60, 80])
def test_workers_is_the_guide_table(width: int, golden: Callable[[str, str], None]) -> None:
    golden(f"render/workers-{width}", workers_text(ROWS, replace(values.PLAIN, width=width)))


def test_workers_shows_the_cores_where_storage_parts_the_numbers(golden: Callable[[str, str], None]) -> None:
    row = WorkersRow(cores=16, jobs=4, num_workers=5, cores_per_job=4, note="a stable value to start from")
    golden("render/workers-nvme", workers_text([row], values.PLAIN, storage="nvme"))


def test_workers_as_markdown_says_every_cell(golden: Callable[[str, str], None]) -> None:
    text = workers_markdown(ROWS, storage="nvme")

    assert text.count("\n| ") == len(GUIDE_TABLE)
    golden("render/workers-markdown", text)


def test_a_bar_in_a_note_does_not_end_its_cell() -> None:
    row = WorkersRow(cores=1, jobs=1, num_workers=1, cores_per_job=1, note="a | b")

    assert "a \\| b" in workers_markdown([row])
