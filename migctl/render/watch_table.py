"""The jobs of `status --watch`: a row each with its figures, how the last minute went, and a few words on how it does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from migctl.core.seeing.readings import InstanceReading, JobReading
from migctl.core.seeing.verdicts import Level
from migctl.core.seeing.watchrows import Row
from migctl.core.words import counted
from migctl.render.console import Style
from migctl.render.gauges import sparkline
from migctl.render.table import Cell, Column, table
from migctl.render.tags import Tags
from migctl.render.text import pad

_SGR: Final = re.compile(r"\x1b\[[0-9;]*m")
_COLUMNS: Final = (
    Column(),
    Column(title="JOB", least=12, cut="middle"),
    Column(title="CPU", right=True),
    Column(title="WORKERS", right=True, drop=4),
    Column(title="WAIT", right=True),
    Column(title="GPU", right=True),
    Column(title="GPU GIB", right=True, drop=1),
    Column(title="RAM GIB", right=True, drop=5),
    Column(title="READ MIB/S", right=True, drop=6),
    Column(title="SAMPLES/S", right=True, drop=3),
    Column(title="MINUTE", drop=2),
    Column(title="WHAT HOLDS IT BACK", least=20),
)
_LOOKS: Final[Mapping[Level, tuple[str, ...]]] = {
    Level.ALARM: ("red", "bold"),
    Level.ADVICE: ("yellow",),
    Level.STATE: ("dim",),
}
_NOT_KNOWN: Final = "n/a"


def job_table(
    shown: Sequence[Row],
    place: int | None,
    past: Mapping[str, Sequence[float | None]],
    tags: Tags,
    style: Style,
    *,
    lines: int,
    several: bool,
    roomy: bool,
) -> list[str]:
    """Titles and rows in at most so many lines; where jobs have to be left out, those around the selected one stay.

    Args:
        shown: the jobs in their order.
        place: of the selected one.
        past: `run/job` → shares of its cores, oldest first.
        tags: letters and colours.
        style: the terminal.
        lines: room, at least 2.
        several: jobs of several runs are shown: with the names of these.
        roomy: a longer past has room.
    """
    room = max(1, lines - 1)
    if len(shown) > room:
        room = max(1, room - 1)
    first = max(0, min((place or 0) - room // 2, len(shown) - room))
    visible = shown[first : first + room]
    width = 30 if roomy else 8
    cells = [_cells(row, past.get(row.name, ()), width, tags, style, several=several) for row in visible]
    made = table(_COLUMNS, cells, style, indent=2)
    if place is not None and made:
        at = 1 + place - first
        made[at] = style.paint(pad(f">{_SGR.sub('', made[at])[1:]}", style.columns), "reverse")
    left = len(shown) - len(visible)
    if left:
        where = f"{first} above, {left - first} below" if first and left > first else "above" if first else "below"
        made.append(f"  {style.signs.ellipsis} and {counted(left, 'more job')} {where}")
    return made[: max(2, lines)]


def _cells(
    row: Row, past: Sequence[float | None], width: int, tags: Tags, style: Style, *, several: bool
) -> list[Cell | str]:
    look = tags.look(row.name)
    one = row.reading if row.running else None
    mark = "! " if row.level is Level.ALARM else ""
    return [
        Cell(tags.letter(row.name), ("bold", *look)),
        Cell(row.name if several else row.job.name, look),
        _share_of(one.own_cpus, one.cores) if one is not None else "",
        _workers(row, one),
        _percent(one.wait_share) if one is not None else "",
        _percent(one.instance.activity_share if one.instance is not None else None) if one is not None else "",
        _gpu_memory(one.instance) if one is not None else "",
        _gib(one.memory_mib) if one is not None else "",
        _NOT_KNOWN
        if one is not None and one.read_mib_s is None
        else f"{one.read_mib_s:.0f}"
        if one is not None
        else "",
        _samples(one),
        Cell(sparkline(past, width, style) if past else "", look),
        Cell(f"{mark}{row.words}", _LOOKS[row.level]),
    ]


def _share_of(used: float | None, cores: int) -> str:
    return f"{_NOT_KNOWN if used is None else f'{used:.1f}'}/{cores}"


def _workers(row: Row, one: JobReading | None) -> str:
    if one is None or row.job.num_workers is None:
        return ""
    return f"{_NOT_KNOWN if one.workers is None else one.workers}/{row.job.num_workers}"


def _percent(share: float | None) -> str:
    return _NOT_KNOWN if share is None else f"{share:.0%}"


def _gpu_memory(instance: InstanceReading | None) -> str:
    if instance is None or instance.memory_used_mib is None:
        return _NOT_KNOWN
    total = instance.memory_total_mib
    return f"{instance.memory_used_mib / 1024:.1f}" + (f"/{total / 1024:.1f}" if total else "")


def _gib(mib: float | None) -> str:
    return _NOT_KNOWN if mib is None else f"{mib / 1024:.1f}"


def _samples(one: JobReading | None) -> str:
    if one is None:
        return ""
    rate = one.samples_s
    return _NOT_KNOWN if rate is None else f"{rate:.0f}" if rate >= 10 else f"{rate:.1f}"
