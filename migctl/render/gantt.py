"""How a queue is expected to run: one bar a job over time, in the order in which they start."""

from __future__ import annotations

from typing import Final

from migctl.core.queueing.forecast import Expected, Forecast
from migctl.core.words import counted
from migctl.render.console import Style
from migctl.render.text import WIDEST, clean, duration, fit, hang, pad, width

_MOST: Final = 24
"""Jobs shown before "and N more"."""
_INDENT: Final = "  "
_NAME: Final = 22
_LEAST_BAR: Final = 16
_TICK: Final = 9
"""Columns between two times on the axis at least."""
_STEPS: Final = (1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)
"""Seconds between two times on the axis: round ones."""


def gantt(course: Forecast, now: float, style: Style, *, most: int = _MOST) -> list[str]:
    """The picture of a forecast: a line with the whole, an axis, a line a job.

    Args:
        course: what is expected.
        now: Unix seconds; the left edge.
        style: of the terminal.
        most: jobs to show.
    """
    if not course.jobs:
        return []
    lines = _heading(course, now, style)
    known = [(name, one) for name, one in course.jobs.items() if one.start is not None]
    if not known:
        return lines
    shown = known[:most]
    span = max([one.end - now for _, one in known if one.end is not None] or [1.0])
    span = max(span, *(one.start - now + 1 for _, one in known if one.start is not None))
    names = min(_NAME, max(width(clean(name, style)) for name, _ in shown))
    profiles = max(len(one.profile) for _, one in shown)
    ends = max(len(_end(one, now)) for _, one in shown)
    room = min(WIDEST, style.columns) - len(_INDENT) - names - profiles - ends - (6 if profiles else 4)
    if room < _LEAST_BAR and profiles:
        room, profiles = room + profiles + 2, 0
    room = max(_LEAST_BAR, room)
    lead = names + (profiles + 2 if profiles else 0) + 2
    lines.append(f"{_INDENT}{' ' * lead}{style.paint(_axis(span, room), 'dim')}".rstrip())
    for name, one in shown:
        label = pad(fit(clean(name, style), names, style, "middle"), names)
        kind = f"{pad(one.profile, profiles)}  " if profiles else ""
        lines.append(f"{_INDENT}{label}  {kind}{_bar(one, now, span, room, style)}  {_end(one, now):>{ends}}")
    rest = len(course.jobs) - len(shown)
    if rest:
        unknown = len(course.jobs) - len(known)
        what = f", of which {counted(unknown, 'has', 'have')} no known times" if unknown else ""
        lines.append(f"{_INDENT}{style.signs.ellipsis} and {rest} more{what}")
    return lines


def _heading(course: Forecast, now: float, style: Style) -> list[str]:
    if course.ends_at is not None:
        return [
            f"expected to end in {duration(course.ends_at - now)}, if every job succeeds and takes as long as it says"
        ]
    return hang("", f"when all will have ended is not known: {course.reason}", style)


def _end(one: Expected, now: float) -> str:
    return duration(one.end - now) if one.end is not None else "?"


def _axis(span: float, room: int) -> str:
    step = next((step for step in _STEPS if step / span * room >= _TICK), _STEPS[-1])
    while step / span * room < _TICK:
        step *= 2
    line, at = "", 0
    while at / span * room + len(duration(at)) <= room:
        line = f"{line:<{round(at / span * room)}}{duration(at)}"
        at += step
    return line


def _bar(one: Expected, now: float, span: float, room: int, style: Style) -> str:
    """Dots while it waits, then its time; open at the right where its end is not known."""
    start = max(0.0, (one.start or now) - now)
    first = min(room - 1, int(start / span * room))
    if one.end is None:
        return style.signs.free * first + style.signs.full * (room - first - 1) + style.signs.arrow
    last = min(room, max(first + 1, round((one.end - now) / span * room)))
    return style.signs.free * first + style.signs.full * (last - first) + " " * (room - last)
