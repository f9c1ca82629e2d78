"""The other pages of `status --watch`: a job's log, and what keys do."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.core.seeing.watchkeys import HELP, Desk
from migctl.render.console import Style
from migctl.render.text import clean, clip, fit, hang


def log_lines(name: str, log: Sequence[str] | None, desk: Desk, style: Style, lines: int) -> list[str]:
    """The end of a log, or what lies `desk.back` lines before it, above the last line of the screen.

    Args:
        name: of the job, `run/job`.
        log: its lines; `None` = not read yet.
        desk: what is chosen.
        style: the terminal.
        lines: its height.
    """
    room = max(1, lines - 2)
    if log is None:
        shown: list[str] = ["reading …"]
    elif not log:
        shown = ["nothing has been written yet"]
    else:
        back = min(desk.back, max(0, len(log) - room))
        shown = [fit(clean(line, style), style.columns, style) for line in log[max(0, len(log) - back - room) :][:room]]
    head = style.paint(fit(clean(f"log of {name}", style), style.columns, style), "bold")
    return _page([head, *shown], desk, style, lines)


def help_lines(desk: Desk, style: Style, lines: int) -> list[str]:
    """All keys."""
    label = max(len(keys) for keys, _ in HELP)
    told = [line for keys, what in HELP for line in hang(keys.ljust(label), what, style, indent=2)]
    return _page([style.paint("keys", "bold"), "", *told], desk, style, lines)


def _page(content: Sequence[str], desk: Desk, style: Style, lines: int) -> list[str]:
    kept = [clip(line, style) for line in content][: max(1, lines - 1)]
    foot = style.paint(fit(clean(desk.line, style), style.columns, style), "dim")
    return [*kept, *([""] * (lines - 1 - len(kept))), foot]
