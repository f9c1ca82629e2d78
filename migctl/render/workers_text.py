"""`workers` as text: the guide's table, for these cores or for one number of trainings."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.core.views.tables import WorkersRow
from migctl.errors import Notice
from migctl.render.console import Style
from migctl.render.errors_text import notice_lines
from migctl.render.table import Cell, Column, table
from migctl.render.text import hang, pad, page, width, wrap

_COLUMNS = (
    Column(title="CORES", right=True),
    Column(title="JOBS", right=True),
    Column(title="NUM_WORKERS", right=True),
    Column(title="CORES EACH", right=True),
)
_NOTE = 20
"""A narrower column for notes is none: they stand below their row."""


def workers_text(rows: Sequence[WorkersRow], style: Style, *, storage: str = "", notices: Sequence[Notice] = ()) -> str:
    """The table with one sentence on how to read it; rows of one number of cores stand together."""
    cells: list[list[Cell | str]] = []
    previous: int | None = None
    # By the plain rule the two numbers are one; they part where storage or a reserve matters.
    same = all(row.num_workers == row.cores_per_job for row in rows)
    for row in rows:
        # Like a printed table, the first column is said once a group.
        cores = "" if row.cores == previous else str(row.cores)
        previous = row.cores
        workers = Cell(str(row.num_workers), ("bold",))
        cells.append([cores, str(row.jobs), workers, "" if same else str(row.cores_per_job)])
    lines = _with_notes(table(_COLUMNS, cells, style, indent=0), rows, style)
    return page([lines, hang("", _rule(storage), style), notice_lines(notices, style)], style)


def workers_markdown(rows: Sequence[WorkersRow], *, storage: str = "") -> str:
    """The same as a Markdown table, every cell said in every row, with a newline at the end."""
    lines = ["| cores | trainings | num_workers each | cores each | note |", "|---:|---:|---:|---:|---|"]
    lines += [
        f"| {row.cores} | {row.jobs} | **{row.num_workers}** | {row.cores_per_job} | {_cell(row.note)} |"
        for row in rows
    ]
    return "\n".join([*lines, "", f"{_rule(storage)}.", ""])


def _rule(storage: str) -> str:
    rule = "num_workers = physical cores ÷ trainings at the same time; a single training leaves one core to the system"
    return f"{rule}; adjusted for {storage} storage" if storage else rule


def _cell(text: str) -> str:
    """A bar would end the cell (GitHub Flavored Markdown, tables)."""
    return text.replace("|", "\\|")


def _with_notes(lines: Sequence[str], rows: Sequence[WorkersRow], style: Style) -> list[str]:
    """The table with the notes at its right, wrapped: what a number means is never cut off."""
    if not lines:
        return []
    left = max(width(line) for line in lines) + 2
    beside = style.columns - left >= _NOTE
    title, *body = lines
    merged = [pad(title, left) + style.paint("NOTE", "dim") if beside else title]
    for line, row in zip(body, rows, strict=True):
        first, *rest = wrap(row.note, style.columns - left if beside else style.columns - 4, style)
        merged += [f"{pad(line, left)}{first}".rstrip()] if beside else [line, *([f"    {first}"] if first else [])]
        merged += [" " * (left if beside else 4) + more for more in rest]
    return merged
