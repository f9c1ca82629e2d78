"""Aligned tables that keep within the width: columns shrink, then go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from migctl.render.console import Style
from migctl.render.text import Cut, clean, fit, pad, width

GAP = 2
"""Columns between two columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """How one column behaves."""

    title: str = ""
    right: bool = False
    least: int | None = None
    """Columns it may shrink to; `None` = it keeps what its cells need."""
    drop: int = 0
    """Where the table is still too wide, the column with the highest number goes first; 0 never goes."""
    cut: Cut = "end"


@dataclass(frozen=True, slots=True)
class Cell:
    """A text and its looks."""

    text: str
    looks: tuple[str, ...] = ()


Row = Sequence[Cell | str]


def table(columns: Sequence[Column], rows: Sequence[Row], style: Style, *, indent: int = 2) -> list[str]:
    """Lines of a table with its titles; columns without any text are left out. No rows, no lines."""
    if not rows:
        return []
    cells = [[_cell(value, style) for value in row] for row in rows]
    shown = [n for n in range(len(columns)) if any(row[n].text for row in cells)]
    while True:
        widths = _widths(columns, shown, cells, style.columns - indent)
        if widths is not None:
            break
        droppable = [n for n in shown if columns[n].drop]
        if not droppable:
            widths = _squeezed(columns, shown, cells, style.columns - indent)
            break
        shown.remove(max(droppable, key=lambda n: columns[n].drop))
    lines: list[str] = []
    if any(columns[n].title for n in shown):
        titles = [Cell(columns[n].title, ("dim",)) for n in range(len(columns))]
        lines.append(_line(columns, shown, titles, widths, style, indent))
    lines += [_line(columns, shown, row, widths, style, indent) for row in cells]
    return lines


def _cell(value: Cell | str, style: Style) -> Cell:
    return Cell(clean(value, style)) if isinstance(value, str) else Cell(clean(value.text, style), value.looks)


def _natural(columns: Sequence[Column], shown: Sequence[int], cells: Sequence[Sequence[Cell]]) -> dict[int, int]:
    return {n: max([width(columns[n].title), *(width(row[n].text) for row in cells)]) for n in shown}


def _widths(
    columns: Sequence[Column], shown: Sequence[int], cells: Sequence[Sequence[Cell]], room: int
) -> dict[int, int] | None:
    """Column widths that fit, the widest flexible ones shrunk first; `None` where even the least is too much."""
    widths = _natural(columns, shown, cells)
    excess = sum(widths.values()) + GAP * (len(shown) - 1) - room
    while excess > 0:
        flexible = [
            n
            for n in shown
            if (least := columns[n].least) is not None and widths[n] > max(least, width(columns[n].title))
        ]
        if not flexible:
            return None
        widths[max(flexible, key=lambda n: (widths[n], -n))] -= 1
        excess -= 1
    return widths


def _squeezed(
    columns: Sequence[Column], shown: Sequence[int], cells: Sequence[Sequence[Cell]], room: int
) -> dict[int, int]:
    """The last resort on a very narrow terminal: every column gives way, the widest first."""
    widths = _natural(columns, shown, cells)
    excess = sum(widths.values()) + GAP * (len(shown) - 1) - room
    while excess > 0 and any(w > 1 for w in widths.values()):
        widths[max(widths, key=lambda n: widths[n])] -= 1
        excess -= 1
    return widths


def _line(
    columns: Sequence[Column],
    shown: Sequence[int],
    row: Sequence[Cell],
    widths: dict[int, int],
    style: Style,
    indent: int,
) -> str:
    parts: list[str] = []
    for n in shown:
        text = fit(row[n].text, widths[n], style, columns[n].cut)
        # Looks go round the text alone, so that underlines do not run through the padding.
        parts.append(pad(style.paint(text, *row[n].looks), widths[n], right=columns[n].right))
    return (" " * indent + (" " * GAP).join(parts)).rstrip()
