"""`workers` as text: the guide's table, for these cores or for one number of trainings."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.core.views import WorkersRow
from migctl.errors import Notice
from migctl.render.console import Style
from migctl.render.errors_text import notice_lines
from migctl.render.table import Cell, Column, table
from migctl.render.text import hang, page

_COLUMNS = (
    Column(title="CORES", right=True),
    Column(title="JOBS", right=True),
    Column(title="NUM_WORKERS", right=True),
    Column(title="CORES EACH", right=True, drop=2),
    Column(title="NOTE", least=16, drop=1),
)


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
        cells.append([cores, str(row.jobs), workers, "" if same else str(row.cores_per_job), row.note])
    lines = table(_COLUMNS, cells, style, indent=0)
    rule = "num_workers = physical cores ÷ trainings at the same time; a single training leaves one core to the system"
    if storage:
        rule += f", adjusted for {storage}"
    return page([lines, hang("", rule, style), notice_lines(notices, style)], style)
