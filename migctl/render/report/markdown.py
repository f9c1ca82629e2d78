"""The report as Markdown: the tables of the page, for a wiki, an issue or a lab book."""

from __future__ import annotations

import re
from typing import Final

from migctl.core.views.report import ReportView
from migctl.render.report.frame import Frame
from migctl.render.report.page import not_watched
from migctl.render.report.tables import (
    Table,
    attempts_table,
    facts,
    jobs_table,
    numbers_table,
    plan_table,
    tiles,
    verdicts_table,
)
from migctl.render.text import visible

_SIGNS: Final = re.compile(r"([\\`*_\[\]<>|#~&$])")
"""What means something to one of the dialects; `$` is mathematics to some."""


def markdown(view: ReportView) -> str:
    """The whole text."""
    frame = Frame.of(view)
    parts = [f"# {plain(view.name)}", " · ".join(f"{what} **{plain(value)}**" for what, value in tiles(frame))]
    parts += [f"> {plain(notice.message)}" for notice in view.notices]
    parts += ["## Jobs", _table(jobs_table(frame))]
    parts += ["## Measured", _table(numbers_table(frame, view.jobs)) if view.samples else not_watched(view)]
    if view.verdicts:
        parts += ["## Verdicts", _table(verdicts_table(frame))]
    parts += ["## Attempts", _table(attempts_table(frame))]
    parts += ["## The plan", _table(plan_table(view)), "## The run and the machine", _table(facts(frame))]
    return "\n\n".join(parts) + "\n"


def plain(words: str) -> str:
    """Any text as text: no sign of it means anything, and it stays on its line."""
    shown = "".join(char if char == "\n" else visible(char) for char in words)
    return "<br>".join(_SIGNS.sub(r"\\\1", line) for line in shown.split("\n"))


def _table(table: Table) -> str:
    if not table.rows:
        return "none"
    rule = [("--:" if number in table.right else "---") for number in range(len(table.columns))]
    rows = [table.columns, tuple(rule), *(tuple(plain(cell) for cell in row) for row in table.rows)]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + (f"\n\n{plain(table.more)}" if table.more else "")
