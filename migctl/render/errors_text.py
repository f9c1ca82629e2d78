"""Errors and notices as text: what and why, where with the line and a caret, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.core.words import counted
from migctl.errors import MigctlError, Notice, Where
from migctl.render.console import Style
from migctl.render.text import clean, fit, hang, page, width

_TAB = "    "
_ERRORS = 20
"""Errors that are printed in full; the others are counted."""
NOTICES = 8
"""Notices of one command that are printed; the others are counted."""


def error_text(error: MigctlError, style: Style) -> str:
    """All errors in it, without a newline at the end."""
    errors = error.all
    blocks = [_error(one, style) for one in errors[:_ERRORS]]
    if len(errors) > _ERRORS:
        blocks.append([f"{style.signs.ellipsis} and {counted(len(errors) - _ERRORS, 'more error')}"])
    if len(errors) > 1:
        blocks.append([style.paint(counted(len(errors), "error"), "bold")])
    return page(blocks, style).rstrip("\n")


def notice_lines(notices: Sequence[Notice], style: Style, *, most: int = NOTICES) -> list[str]:
    """Warnings below a command's output, equal ones once."""
    unique = list(dict.fromkeys(notices))
    lines: list[str] = []
    for notice in unique[:most]:
        lines += hang("warning:", notice.message, style, look=("yellow", "bold"))
        lines += _where(notice.where, style)
        lines += _hint(notice.hint, style)
    if len(unique) > most:
        lines.append(f"{style.signs.ellipsis} and {counted(len(unique) - most, 'more warning')} (--json has all)")
    return lines


def _error(error: MigctlError, style: Style) -> list[str]:
    lines = hang("error:", error.message, style, look=("red", "bold"))
    lines += _where(error.where, style)
    for reason in _reasons(error.data.get("why")):
        lines += hang("why:", reason, style, indent=2, look=("dim",))
    return [*lines, *_hint(error.hint, style)]


def _reasons(why: object) -> list[str]:
    if isinstance(why, str):
        return [why]
    return [str(reason) for reason in why] if isinstance(why, list | tuple) else []


def _hint(hint: str | None, style: Style) -> list[str]:
    return hang("try:", hint, style, indent=2, look=("cyan",)) if hint else []


def _where(where: Where | str | None, style: Style) -> list[str]:
    if where is None or where == "":
        return []
    lines = hang("at", str(where), style, indent=2, look=("dim",))
    if isinstance(where, Where) and where.line and where.excerpt.strip():
        lines += _excerpt(where, style)
    return lines


def _excerpt(where: Where, style: Style) -> list[str]:
    """The line with its number, and a caret below the column; a long line is shown around the column."""
    number = str(where.line)
    bar = style.signs.vertical
    room = style.columns - 4 - len(number) - 3
    source = where.excerpt.rstrip("\r\n")
    before = clean(source[: max(0, where.column - 1)].replace("\t", _TAB), style)
    after = clean(source[max(0, where.column - 1) :].replace("\t", _TAB), style)
    while before and width(before) > max(0, room - min(width(after), room // 2)):
        # Cut the beginning; the mark takes the place of the first character that is left.
        cut = before[2:] if before.startswith(style.signs.ellipsis) else before[1:]
        before = f"{style.signs.ellipsis}{cut}" if cut else ""
    line = before + fit(after, room - width(before), style)
    lead = f"    {number} {bar} "
    lines = [f"{style.paint(lead, 'dim')}{line}".rstrip()]
    if where.column:
        gap = " " * len(number)
        lines.append(f"{style.paint(f'    {gap} {bar} ', 'dim')}{' ' * width(before)}{style.paint('^', 'red', 'bold')}")
    return lines
