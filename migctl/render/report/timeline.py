"""Which job was on which memory slices when: a band for each GPU, a bar for each attempt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from migctl.core.gpu.mig import Placement
from migctl.core.runs.record import JobState
from migctl.core.views.report import ReportAttempt, ReportGpu
from migctl.core.words import counted
from migctl.render.report.frame import AXIS, LEFT, RIGHT, WIDTH, Frame, cut, figure, percent, picture
from migctl.render.report.markup import Markup, joined, tag
from migctl.render.text import duration

_SLICE = 26.0
"""Height of a memory slice."""
_LANE = 24.0
"""Height of a row of jobs without a GPU instance."""
_TEXT = 12.0
"""Height of a line of text: in lower bars only the tooltip tells who it is."""
_MOST_LANES = 60
_BAD = (JobState.FAILED, JobState.LOST)
SIGNS = {
    JobState.SUCCEEDED: "✓",
    JobState.FAILED: "✗",
    JobState.STOPPED: "■",
    JobState.LOST: "?",
    JobState.RUNNING: "▶",
    JobState.STARTING: "▷",
    JobState.QUEUED: "…",
}
"""A state for those who see no colours."""


def timelines(frame: Frame) -> Markup:
    """A picture for each GPU with instances, and one for the jobs that have none."""
    begun = [a for a in frame.view.attempts if a.started_at is not None]
    if not begun:
        return tag("p", "No job has begun yet.", class_="none")
    pictures: list[Markup] = []
    drawn: set[str] = set()
    for number, gpu in enumerate(frame.view.gpus):
        on_it = [a for a in begun if a.gpu_uuid == gpu.uuid and a.placement is not None]
        if on_it and gpu.memory_slices:
            drawn.add(gpu.uuid)
            pictures.append(_of_gpu(frame, gpu, on_it, f"gantt-{number}"))
    if rest := [a for a in begun if a.placement is None or a.gpu_uuid not in drawn]:
        pictures.append(_of_lanes(frame, rest))
    return joined(pictures)


def gpu_words(gpu: ReportGpu) -> str:
    """A GPU's name with its number."""
    number = f"GPU {gpu.index}" if gpu.index is not None else "GPU"
    return f"{number} · {gpu.name}" if gpu.known else f"GPU {gpu.uuid} (not there now)"


def took(attempt: ReportAttempt, now: float) -> float | None:
    """How long an attempt ran, or has been running; `None` where that is not known."""
    if attempt.started_at is None:
        return None
    if attempt.finished_at is not None:
        return max(0.0, attempt.finished_at - attempt.started_at)
    return None if attempt.state.ended else max(0.0, now - attempt.started_at)


def occupied(gpu: ReportGpu, attempts: Sequence[ReportAttempt], begin_s: float, end_s: float) -> float | None:
    """The part of the GPU's memory slices that jobs had, over the whole time, 0 to 1."""
    whole = gpu.memory_slices * (end_s - begin_s)
    if whole <= 0:
        return None
    times: dict[int, list[tuple[float, float]]] = {}
    for a in attempts:
        length = took(a, end_s)
        if a.gpu_uuid != gpu.uuid or a.placement is None or a.started_at is None or length is None:
            continue
        for number in range(a.placement.start, a.placement.start + int(a.placement.size)):
            times.setdefault(number, []).append((a.started_at, a.started_at + length))
    return min(1.0, sum(map(_covered, times.values())) / whole)


def _covered(times: Sequence[tuple[float, float]]) -> float:
    """Seconds in which there was somebody: jobs that shared an instance had it once."""
    found, end = 0.0, float("-inf")
    for begin, finish in sorted(times):
        found += max(0.0, finish - max(begin, end))
        end = max(end, finish)
    return found


def _of_gpu(frame: Frame, gpu: ReportGpu, attempts: Sequence[ReportAttempt], name: str) -> Markup:
    height = gpu.memory_slices * _SLICE
    rows = [
        tag("text", str(number), class_="tick", x=LEFT - 8, y=(number + 0.5) * _SLICE + 4, text_anchor="end")
        for number in range(gpu.memory_slices)
    ]
    rows += [
        tag("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=number * _SLICE, y2=number * _SLICE)
        for number in range(gpu.memory_slices + 1)
    ]
    middle = height / 2
    label = tag(
        "text",
        "memory slice",
        class_="tick",
        x=0,
        y=0,
        text_anchor="middle",
        transform=f"translate(22 {middle:g}) rotate(-90)",
    )
    bars = []
    for together in _seated(frame, attempts):
        for row, lane in enumerate(together):
            place = lane[0].placement
            assert place is not None  # chosen so
            height_each = int(place.size) * _SLICE / len(together)
            top = place.start * _SLICE + row * height_each + 1
            bars += [_bar(frame, attempt, top, max(1.0, height_each - 2)) for attempt in lane]
    words = "; ".join(_words(frame, a) for a in attempts[:40])
    more = (
        f"; and {len(attempts) - 40} more attempts, all of them in the table of attempts" if len(attempts) > 40 else ""
    )
    drawn = picture(
        name,
        f"Jobs on the memory slices of {gpu_words(gpu)}",
        f"Time runs to the right, memory slices downwards. {words}{more}.",
        height + AXIS,
        *rows,
        label,
        frame.axis(0, height),
        *bars,
    )
    part = occupied(gpu, attempts, frame.span.begin_s, frame.span.end_s)
    used = "" if part is None else f" Jobs held {percent(part)} of its memory slices over the whole time."
    return figure(drawn, f"{gpu_words(gpu)}, {counted(gpu.memory_slices, 'memory slice')}.{used}")


def _seated(frame: Frame, attempts: Sequence[ReportAttempt]) -> Iterator[list[list[ReportAttempt]]]:
    """Attempts on the same place whose times touch, in so many rows as ran there at once: one, where nobody shares."""
    by_place: dict[Placement | None, list[ReportAttempt]] = {}
    for attempt in attempts:
        by_place.setdefault(attempt.placement, []).append(attempt)
    for there in by_place.values():
        group: list[ReportAttempt] = []
        end = float("-inf")
        for attempt in sorted(there, key=_begin):
            if group and _begin(attempt) >= end:
                yield _lanes(frame, group)
                group = []
            group.append(attempt)
            end = max(end, _end(frame, attempt))
        yield _lanes(frame, group)


def _lanes(frame: Frame, attempts: Sequence[ReportAttempt]) -> list[list[ReportAttempt]]:
    """A row for each that ran at the same time, which the next one takes over when it is free."""
    lanes: list[list[ReportAttempt]] = []
    for attempt in sorted(attempts, key=lambda a: (_begin(a), a.job, a.attempt)):
        free = next((lane for lane in lanes if _end(frame, lane[-1]) <= _begin(attempt)), None)
        if free is None:
            lanes.append([attempt])
        else:
            free.append(attempt)
    return lanes


def _of_lanes(frame: Frame, attempts: Sequence[ReportAttempt]) -> Markup:
    """Jobs that have a whole GPU, or none."""
    lanes = _lanes(frame, attempts)
    shown = lanes[:_MOST_LANES]
    height = len(shown) * _LANE
    bars = [
        _bar(frame, attempt, number * _LANE + 1, _LANE - 2) for number, lane in enumerate(shown) for attempt in lane
    ]
    words = "; ".join(_words(frame, a) for lane in shown for a in lane[:8])
    drawn = picture(
        "gantt-rest", "Jobs over time", f"Time runs to the right. {words}.", height + AXIS, frame.axis(0, height), *bars
    )
    left = len(lanes) - len(shown)
    more = f" {left} more rows are left out; the table of attempts has all." if left else ""
    return figure(drawn, f"Jobs without a GPU instance of their own.{more}")


def _begin(attempt: ReportAttempt) -> float:
    return attempt.started_at or 0.0


def _end(frame: Frame, attempt: ReportAttempt) -> float:
    return attempt.finished_at if attempt.finished_at is not None else frame.span.end_s


def _bar(frame: Frame, attempt: ReportAttempt, y: float, height: float) -> Markup:
    left = frame.x(attempt.started_at or frame.span.begin_s)
    width = max(2.0, frame.x(_end(frame, attempt)) - left)
    sign = SIGNS[attempt.state]
    name = attempt.job if attempt.attempt == 1 else f"{attempt.job} · attempt {attempt.attempt}"
    first = cut(f"{sign} {name}", width - 10) if height >= _TEXT else ""
    second = cut(attempt.profile or "", width - 10, 10.5) if first and height >= 2 * _SLICE - 2 else ""
    middle = y + height / 2
    return tag(
        "g",
        tag("title", _words(frame, attempt)),
        tag("rect", class_=f"bar j{frame.colour(attempt.job)}", x=left, y=y, width=width, height=height, rx=3),
        tag("rect", class_="bad", x=left, y=y, width=width, height=height, rx=3) if attempt.state in _BAD else None,
        tag("text", first, class_="on-bar", x=left + 6, y=middle + (-2 if second else 4)) if first else None,
        tag("text", second, class_="on-bar small", x=left + 6, y=middle + 12) if second else None,
    )


def _words(frame: Frame, attempt: ReportAttempt) -> str:
    """One attempt in a sentence's part."""
    name = attempt.job if attempt.attempt == 1 else f"{attempt.job} (attempt {attempt.attempt})"
    place = f" on {attempt.profile} at {attempt.placement}" if attempt.placement is not None else ""
    length = took(attempt, frame.view.now)
    time = f" for {duration(length)}" if length is not None else ""
    return f"{name}{place}: {attempt.state.value}, from {frame.clock.full(attempt.started_at)}{time}"
