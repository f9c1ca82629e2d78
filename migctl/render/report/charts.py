"""One job over time: GPU memory, GPU activity, use of its cores, and samples a second, each a small picture with its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from migctl.core.seeing.tracks import Sample
from migctl.core.views.report import ReportAttempt
from migctl.render.report.frame import Frame, percent, picture
from migctl.render.report.markup import Markup, joined, tag
from migctl.render.report.series import Column, Extent, columns_for, extent, laid, of_job

_WIDE: Final = 320
_TALL: Final = 96
_TOP: Final = 14.0
_BOTTOM: Final = 80.0
_LEFT: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One figure of one job over time."""

    key: str
    title: str
    values: tuple[Column, ...]
    numbers: Extent
    top: float
    """Value at the upper edge."""
    written: Callable[[float], str]
    limit: float | None = None
    """A line to be drawn: what there is at most."""
    limit_words: str = ""


def charts(frame: Frame, job: str, attempt: ReportAttempt | None) -> tuple[Chart, ...]:
    """Those of which something is known."""
    cpus = len(attempt.cpus) if attempt is not None else 0
    totals = _laid(frame, job, "gpu_memory_total_mib", highest=True)
    total = max([v for v in totals if v is not None], default=None)
    found = [
        _chart(
            frame, job, "gpu_memory_mib", "GPU memory", _gib, limit=total, words="all of its instance", highest=True
        ),
        _chart(frame, job, "gpu_activity_share", "GPU activity", percent, limit=1.0),
        _chart(frame, job, "own_cpus", "CPU use", _cpus, limit=float(cpus) or None, words="its logical CPUs"),
        _chart(frame, job, "samples_s", "Throughput", _samples),
        _chart(frame, job, "wait_share", "Waiting for data", percent, limit=1.0),
        _chart(frame, job, "memory_mib", "RAM", _gib, highest=True),
        _chart(frame, job, "read_mib_s", "Read from disk", _mib_s),
    ]
    return tuple(chart for chart in found if chart is not None)


def drawn(frame: Frame, job: str, chart: Chart) -> Markup:
    """The picture of a chart."""
    number = frame.numbers.get(job, 0)
    count = len(chart.values)
    width = (_WIDE - 2 * _LEFT) / count

    def y(value: float) -> float:
        return _BOTTOM - min(1.0, max(0.0, value / chart.top)) * (_BOTTOM - _TOP) if chart.top else _BOTTOM

    runs = _runs(chart.values)
    areas, lines = [], []
    for begin, values in runs:
        points = [
            f"{_LEFT + (begin + n + side) * width:.1f} {y(value):.1f}"
            for n, value in enumerate(values)
            for side in (0, 1)
        ]
        left, right = _LEFT + begin * width, _LEFT + (begin + len(values)) * width
        areas.append(f"M{left:.1f} {_BOTTOM:g}L{'L'.join(points)}L{right:.1f} {_BOTTOM:g}Z")
        lines.append(f"M{'L'.join(points)}")
    colour = frame.colour(job)
    limit = chart.limit is not None and chart.limit <= chart.top * 1.001
    numbers = chart.numbers
    least, mean, most = (chart.written(value) for value in (numbers.least, numbers.mean, numbers.most))
    description = f"On average {mean}, at least {least}, at most {most}."
    return picture(
        f"c{number}-{chart.key.replace('_', '-')}",
        f"{chart.title} of {job} over time",
        description,
        _TALL,
        tag("line", class_="grid", x1=_LEFT, x2=_WIDE - _LEFT, y1=_BOTTOM, y2=_BOTTOM),
        tag("path", class_=f"area s{colour}", d="".join(areas)),
        tag("path", class_=f"curve s{colour}", d="".join(lines)),
        tag("line", class_="limit", x1=_LEFT, x2=_WIDE - _LEFT, y1=y(chart.limit), y2=y(chart.limit))
        if limit and chart.limit is not None
        else Markup(""),
        tag("text", chart.written(chart.top), class_="tick", x=_LEFT, y=_TOP - 4),
        tag("text", frame.clock.short(frame.span.begin_s, 60), class_="tick", x=_LEFT, y=_TALL - 3),
        tag(
            "text",
            frame.clock.short(frame.span.end_s, 60),
            class_="tick",
            x=_WIDE - _LEFT,
            y=_TALL - 3,
            text_anchor="end",
        ),
        width=_WIDE,
    )


def panel(frame: Frame, job: str, chart: Chart) -> Markup:
    """A chart with its name and its numbers."""
    numbers = chart.numbers
    line = f"mean {chart.written(numbers.mean)} · max {chart.written(numbers.most)}"
    limit = f" · of {chart.written(chart.limit)}" if chart.limit_words and chart.limit is not None else ""
    return tag(
        "figure",
        tag("figcaption", tag("strong", chart.title), " ", tag("span", f"{line}{limit}", class_="quiet")),
        drawn(frame, job, chart),
        class_="chart",
    )


def _chart(
    frame: Frame,
    job: str,
    key: str,
    title: str,
    written: Callable[[float], str],
    *,
    limit: float | None = None,
    words: str = "",
    highest: bool = False,
) -> Chart | None:
    values = _laid(frame, job, key, highest=highest)
    numbers = extent(values)
    if numbers is None or (numbers.most == 0.0 and limit is None):
        return None  # an empty picture says less than none; of what there is a limit of, 0 says something
    top = max(numbers.most, limit) if limit is not None else numbers.most * 1.1
    return Chart(
        key=key,
        title=title,
        values=values,
        numbers=numbers,
        top=top or 1.0,
        written=written,
        limit=limit,
        limit_words=words,
    )


def _laid(frame: Frame, job: str, key: str, *, highest: bool) -> tuple[Column, ...]:
    figure: Callable[[Sample], float | None] = of_job(job, key)
    return laid(frame.view.samples, frame.span, columns_for(frame.span), figure, highest=highest)


def _runs(values: Sequence[Column]) -> list[tuple[int, list[float]]]:
    """What is known without a gap: where each stretch begins, and its values."""
    found: list[tuple[int, list[float]]] = []
    for number, value in enumerate(values):
        if value is None:
            continue
        if found and found[-1][0] + len(found[-1][1]) == number:
            found[-1][1].append(value)
        else:
            found.append((number, [value]))
    return found


def panels(frame: Frame, job: str, attempt: ReportAttempt | None) -> Markup | None:
    """All charts of a job; `None` where nothing was measured of it."""
    found = charts(frame, job, attempt)
    return tag("div", joined(panel(frame, job, chart) for chart in found), class_="charts") if found else None


def _gib(value: float) -> str:
    return f"{value / 1024:.1f} GiB" if value >= 1024 else f"{value:.0f} MiB"


def _cpus(value: float) -> str:
    return f"{value:.1f} CPUs"


def _samples(value: float) -> str:
    return f"{value:,.0f}/s" if value >= 100 else f"{value:.3g}/s"


def _mib_s(value: float) -> str:
    return f"{value:,.1f} MiB/s"
