"""How busy each logical CPU of the run's jobs was over time: a row a CPU, darker where it worked more."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.words import counted
from migctl.render.report.frame import AXIS, LEFT, RIGHT, WIDTH, Frame, cut, figure, percent, picture
from migctl.render.report.markup import Markup, joined, tag
from migctl.render.report.series import Column, columns_for, extent, laid, of_cpus

LEVELS: Final = 7
_ROWS: Final = 96
"""More rows than can be told apart are averaged."""
_GAP: Final = 6.0
"""Between two jobs."""


def heat_map(frame: Frame) -> Markup:
    """The picture; where nothing was measured, a sentence that says so."""
    groups = _groups(frame)
    rows = [row for _, group in groups for row in group]
    if not rows:
        return tag("p", "No use of cores was recorded for this run.", class_="none")
    count = columns_for(frame.span)
    tall = max(5.0, min(16.0, 420.0 / len(rows)))
    width = (WIDTH - LEFT - RIGHT) / count
    parts: list[Markup] = []
    told: list[str] = []
    y = 0.0
    for name, group in groups:
        top = y
        whole: list[Column] = []
        for cpus in group:
            values = laid(frame.view.samples, frame.span, count, of_cpus(cpus))
            whole += values
            parts += _row(values, y, tall, width)
            y += tall
        parts.append(_label(frame, name, group, top, y))
        numbers = extent(whole)
        if numbers is not None:
            told.append(
                f"{name} on CPUs {CpuSet(c for g in group for c in g)}: {percent(numbers.mean)} busy on average"
            )
        y += _GAP
    height = y - _GAP
    drawn = picture(
        "heat",
        "Use of the logical CPUs over time",
        f"A row a logical CPU, grouped by job; time runs to the right. {'; '.join(told)}.",
        height + AXIS,
        tag("rect", class_="unwatched", x=LEFT, y=0, width=WIDTH - LEFT - RIGHT, height=height),
        *parts,
        frame.axis(0, height),
    )
    averaged = any(len(cpus) > 1 for cpus in rows)
    more = f" Each row is the average of up to {max(len(c) for c in rows)} CPUs." if averaged else ""
    return joined(
        figure(drawn, joined(f"{counted(sum(len(c) for c in rows), 'logical CPU')} of jobs.{more} ", _legend())),
    )


def level(value: float) -> int:
    """The step of the scale, 0 to 6."""
    return min(LEVELS - 1, max(0, int(value * LEVELS)))


def _groups(frame: Frame) -> list[tuple[str, list[tuple[int, ...]]]]:
    """Jobs with the logical CPUs that were measured, each row as few of them as the picture has room for."""
    measured = {cpu for sample in frame.view.samples for cpu in sample.cpus}
    sets: dict[CpuSet, str] = {}
    for job in frame.view.jobs:
        attempt = frame.view.last(job)
        cpus = CpuSet(attempt.cpus & measured) if attempt is not None else CpuSet()
        if cpus:
            sets[cpus] = f"{sets[cpus]}, {job}" if cpus in sets else job
    seen: set[int] = set()
    found: list[tuple[str, list[int]]] = []
    for cpus, name in sets.items():
        fresh = [cpu for cpu in cpus if cpu not in seen]
        seen.update(fresh)
        if fresh:
            found.append((name, fresh))
    each = max(1, math.ceil(len(seen) / _ROWS))
    return [(name, [tuple(cpus[n : n + each]) for n in range(0, len(cpus), each)]) for name, cpus in found]


def _row(values: Sequence[Column], y: float, tall: float, width: float) -> Iterator[Markup]:
    """Equal neighbours are one rectangle: a page of a week stays small."""
    begin = 0
    levels = [None if value is None else level(value) for value in values]
    for at in range(1, len(levels) + 1):
        if at < len(levels) and levels[at] == levels[begin]:
            continue
        if levels[begin] is not None:
            left = LEFT + begin * width
            yield tag(
                "rect", class_=f"h{levels[begin]}", x=left, y=y, width=(at - begin) * width + 0.3, height=tall - 0.6
            )
        begin = at


def _label(frame: Frame, name: str, group: Sequence[Sequence[int]], top: float, bottom: float) -> Markup:
    first = name.split(", ")[0]
    cpus = str(CpuSet(cpu for row in group for cpu in row))
    middle = (top + bottom) / 2
    tall = bottom - top >= 26
    return joined(
        tag("rect", class_=f"bar j{frame.colour(first)}", x=LEFT - 8, y=top, width=5, height=bottom - top - 0.6),
        tag(
            "text",
            cut(name, LEFT - 14, 11),
            class_="row",
            x=LEFT - 13,
            y=middle + (-2 if tall else 4),
            text_anchor="end",
        ),
        tag("text", cut(cpus, LEFT - 14, 10), class_="tick", x=LEFT - 13, y=middle + 11, text_anchor="end")
        if tall
        else None,
    )


def _legend() -> Markup:
    steps = [
        tag(
            "span",
            tag("i", class_=f"key h{step}", aria_hidden="true"),
            f"{100 * step / LEVELS:.0f}–{percent((step + 1) / LEVELS)}",
        )
        for step in range(LEVELS)
    ]
    blank = tag("span", tag("i", class_="key unwatched", aria_hidden="true"), "not measured")
    return tag("span", *steps, blank, class_="legend")
