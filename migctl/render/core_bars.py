"""The cores at work: a bar for each in its L3 domain and NUMA node, and below it the letter of the job that has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from migctl.core.views.cores import CoreCell, CoreMark, CoresView
from migctl.core.words import counted
from migctl.render.console import Style
from migctl.render.gauges import bar
from migctl.render.tags import MANY, Tags
from migctl.render.text import clean, fit


def core_bars(view: CoresView, loads: Mapping[int, float], tags: Tags, style: Style, lines: int) -> list[str]:
    """Heading and picture in at most so many lines; nothing where there is no core, or no room.

    Where the cores are too many, several neighbours that share a cache are one column: their average.

    Args:
        view: the cores, with whose they are.
        loads: logical CPU → share at work.
        tags: letters and colours of jobs.
        style: the terminal.
        lines: room.
    """
    if not view.cells or lines < 3:
        return []
    nodes = {cell.node for cell in view.cells if cell.node is not None}
    if 1 + 2 * len(nodes) > lines:
        # Not even a line for each node: one after the other in one.
        view = replace(view, cells=tuple(replace(cell, node=None) for cell in view.cells))
    each, largest = 1, max(Counter((cell.node, cell.l3) for cell in view.cells).values())
    while True:
        picture = list(_picture(view, loads, tags, style, each))
        if len(picture) < lines or each >= largest:
            break
        each *= 2
    facts = [counted(len(view.cells), "core")]
    facts += [f"{len(nodes)} NUMA nodes"] if len(nodes) > 1 else []
    facts += [f"a column is {each} cores"] if each > 1 else []
    known = [loads[cpu] for cell in view.cells for cpu in cell.cpus if cpu in loads]
    facts += [f"{sum(known) / len(known):.0%} at work"] if known else ["not measured yet"]
    facts += ["digits: tenths at work"] if not style.unicode and known else []
    head = f"{style.paint('CORES', 'bold')}  {fit(clean(style.signs.dot.join(facts), style), style.columns - 7, style)}"
    return [head, *picture[: lines - 1]]


def _picture(view: CoresView, loads: Mapping[int, float], tags: Tags, style: Style, each: int) -> Iterator[str]:
    nodes = sorted({cell.node for cell in view.cells}, key=lambda node: (node is None, node or 0))
    several = len(nodes) > 1
    digits = len(str(view.cells[-1].id))
    label = max(len(_label(node)) for node in nodes) + 1 if several else 0
    room = style.columns - 2 - label - digits - 2
    for node in nodes:
        name = _label(node) if several else ""
        cells = sorted((cell for cell in view.cells if cell.node == node), key=lambda cell: (cell.l3, cell.id))
        for first, bars, letters in _rows(cells, loads, tags, style, each, room):
            lead = f"{name:<{label}}{first:>{digits}}"
            yield f"  {style.paint(lead, 'dim')}  {bars}"
            yield f"  {' ' * len(lead)}  {letters}".rstrip()
            name = ""


def _label(node: int | None) -> str:
    return "no node" if node is None else f"node {node}"


def _rows(
    cells: Sequence[CoreCell], loads: Mapping[int, float], tags: Tags, style: Style, each: int, room: int
) -> Iterator[tuple[int, str, str]]:
    """First core, bars and letters of each line: whole L3 domains as far as they fit; one too large for a line is cut."""
    first, taken = -1, 0
    bars, letters = "", ""
    for _, members in groupby(cells, key=lambda cell: cell.l3):
        columns = list(_columns(list(members), each))
        while columns:
            free = room - taken - (1 if taken else 0)
            if taken and len(columns) > free:
                yield first, bars, letters
                first, taken, bars, letters = -1, 0, "", ""
                continue
            part, columns = columns[: max(1, room)], columns[max(1, room) :]
            gap = " " if taken else ""
            first = first if taken else part[0][0].id
            bars += gap + "".join(_bar(column, loads, tags, style) for column in part)
            letters += gap + "".join(_letter(column, tags, style) for column in part)
            taken += len(part) + len(gap)
    if taken:
        yield first, bars, letters


def _columns(cells: Sequence[CoreCell], each: int) -> Iterator[list[CoreCell]]:
    for start in range(0, len(cells), each):
        yield list(cells[start : start + each])


def _bar(column: Sequence[CoreCell], loads: Mapping[int, float], tags: Tags, style: Style) -> str:
    known = [loads[cpu] for cell in column for cpu in cell.cpus if cpu in loads]
    owners = _owners(column, tags)
    look = tags.look(owners[0]) if len(owners) == 1 else () if owners else ("dim",)
    return style.paint(bar(sum(known) / len(known) if known else None, style), *look)


def _letter(column: Sequence[CoreCell], tags: Tags, style: Style) -> str:
    owners = _owners(column, tags)
    if not owners:
        return style.paint(style.signs.free if column[0].mark is CoreMark.FREE else "-", "dim")
    if len({tags.letter(owner) for owner in owners}) > 1:
        return style.paint(MANY, "bold")
    return tags.painted(owners[0], style)


def _owners(column: Sequence[CoreCell], tags: Tags) -> list[str]:
    return list(dict.fromkeys(job for cell in column for job in cell.jobs if tags.letter(job)))
