"""`tune` as text: the curve as bars, the recommendation and its reason; and as JSON."""

from __future__ import annotations

from migctl.core.seeing.throughput import CONFIDENCE
from migctl.core.seeing.tuning import Bound, Point
from migctl.core.views.tuning import TuneView
from migctl.core.words import counted
from migctl.render.console import Style
from migctl.render.errors_text import notice_lines
from migctl.render.heading import heading
from migctl.render.table import Cell, Column, table
from migctl.render.text import hang, page, width

_COLUMNS = (
    Column(title="WORKERS", right=True),
    Column(title="SAMPLES/S", right=True),
    Column(title="MARGIN", right=True, drop=1),
    Column(title="BUSY", right=True, drop=2),
    Column(title="WAITS", right=True, drop=3),
)
_LEAST_BAR, _LONGEST_BAR = 8, 40
_ADVICE = {
    Bound.CPU: "more cores for this job, less work a sample (smaller images, cheaper transforms, decoded once), or fewer jobs "
    "at once",
    Bound.IO: "a faster device, fewer and larger files, or data that fit in memory; more cores do not help",
    Bound.GPU: "cores can go to other jobs; a larger instance or less work a step makes it faster",
    Bound.UNKNOWN: "the same again while nobody else is at work, and wait=SECONDS in the samples line",
}


def tune_text(view: TuneView, style: Style) -> str:
    """The whole answer, with a newline at its end."""
    facts = [
        f"CPUs {view.cpus} ({counted(view.cores, 'core')})",
        *([view.profile] if view.profile else []),
        view.runtime,
        *(["the stand-in, not the job's own command"] if view.probe else []),
    ]
    chosen = f"num_workers: {view.recommended}"
    same = "as planned" if view.recommended == view.planned else f"the plan gives {view.planned}"
    lines = hang("", f"{chosen}   ({same})", style, look=("bold",))
    lines += hang("why:", view.verdict.reason, style, indent=2, look=("dim",))
    lines += hang("helps:", _ADVICE[view.verdict.bound], style, indent=2, look=("dim",))
    if view.recommended != view.best:
        more = f"{view.best} workers were not measurably faster; fewer need less memory and start sooner"
        lines += hang("note:", more, style, indent=2, look=("dim",))
    if view.written is not None:
        lines += hang("", f"written into {view.written}", style, indent=2)
    key = f"MARGIN: half of the {CONFIDENCE:.0%} confidence interval; BUSY: cores the job used; WAITS: time waiting for data"
    return page(
        [
            [
                *heading("tune", f"{view.run}/{view.job}", facts, view.simulated, style),
                "",
                *_curve(view, style),
                *hang("", key, style, indent=2),
            ],
            lines,
            notice_lines(view.notices, style),
        ],
        style,
    )


def _curve(view: TuneView, style: Style) -> list[str]:
    looks = {point.num_workers: ("bold",) if point.num_workers == view.recommended else () for point in view.points}
    rows = [[Cell(text, looks[point.num_workers]) for text in _row(point, view.cores)] for point in view.points]
    title, *lines = table(_COLUMNS, rows, style)
    left = max(width(line) for line in (title, *lines)) + 2
    room = min(_LONGEST_BAR, style.columns - left)
    if room < _LEAST_BAR:
        return [title, *lines]
    most = max((point.measured.rate for point in view.points), default=0.0)
    drawn = [title]
    for line, point in zip(lines, view.points, strict=True):
        length = max(1, round(room * point.measured.rate / most)) if most else 0
        bar = style.paint(style.signs.full * length, "green" if point.num_workers == view.recommended else "dim")
        drawn.append(f"{line}{' ' * (left - width(line))}{bar}".rstrip())
    return drawn


def _row(point: Point, cores: int) -> tuple[str, ...]:
    measured = point.measured
    return (
        str(point.num_workers),
        _number(measured.rate),
        _number(measured.half_width, like=measured.rate),
        "n/a" if measured.own_cpus is None else f"{measured.own_cpus:.1f}/{cores}",
        "n/a" if measured.wait_share is None else f"{measured.wait_share:.0%}",
    )


def _number(value: float, *, like: float | None = None) -> str:
    """Three digits, or as many decimals as the number that it belongs to."""
    size = value if like is None else like
    return f"{value:.{0 if size >= 100 else 1 if size >= 10 else 2}f}"


def point_line(point: Point) -> str:
    """One finished measurement, for those who wait."""
    return f"{counted(point.num_workers, 'worker')}: {_number(point.measured.rate)} samples/s"


def tune_json(view: TuneView) -> dict[str, object]:
    """`tune --json`."""
    return {
        "version": 1,
        "simulated": bool(view.simulated),
        "run": view.run,
        "job": view.job,
        "cpus": str(view.cpus),
        "cores": view.cores,
        "profile": view.profile,
        "probe": view.probe,
        "planned_num_workers": view.planned,
        "num_workers": view.recommended,
        "best_num_workers": view.best,
        "bound": view.verdict.bound.value,
        "reason": view.verdict.reason,
        "points": [_point(point) for point in view.points],
        "confidence": CONFIDENCE,
        "written": view.written,
        "warnings": [{"id": n.id, "message": n.message, "hint": n.hint} for n in view.notices],
    }


def _point(point: Point) -> dict[str, object]:
    measured = point.measured
    told = "the job does not tell (wait=SECONDS)" if measured.wait_share is None else None
    hidden = "/proc/stat does not tell of these CPUs" if measured.busy_cpus is None else None
    return {
        "num_workers": point.num_workers,
        "samples_per_s": measured.rate,
        "half_width_samples_per_s": measured.half_width,
        "windows": measured.windows,
        "measured_s": measured.seconds,
        "wait_share": measured.wait_share,
        "wait_share_reason": told,
        "job_cpus": measured.own_cpus,
        "job_cpus_reason": None if measured.own_cpus is not None else "the job's processes are not seen from here",
        "busy_cpus": measured.busy_cpus,
        "busy_cpus_reason": hidden,
        "iowait_cpus": measured.iowait_cpus,
        "iowait_cpus_reason": hidden,
    }
