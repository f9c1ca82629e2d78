"""What is said while images are pulled and jobs start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from migctl.core.runs.events import Event, Moment, NoteEvent, PullEvent, StepEvent
from migctl.core.runs.record import Action
from migctl.render.console import Style
from migctl.render.progress import Progress
from tests.support import render_values as values

IMAGE = "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime"
GB = 10**9
EVENTS: tuple[Event, ...] = (
    PullEvent("busybox:1", 1_000_000, 1_000_000),
    *(PullEvent(IMAGE, n * GB // 5, 3 * GB) for n in range(16)),
    NoteEvent("2 jobs to start"),
    *(
        StepEvent(job, action, moment)
        for job in ("baseline", "sweep-lr0.1-seed1")
        for action in (
            Action.CREATE_GPU_INSTANCE,
            Action.CREATE_COMPUTE_INSTANCE,
            Action.CREATE_CONTAINER,
            Action.START,
        )
        for moment in Moment
    ),
)


def story(events: Sequence[Event], style: Style, *, verbose: bool = False) -> str:
    """Kept lines, and on a terminal the live line after each event with a mark before it."""
    progress = Progress(total=2, verbose=verbose)
    lines: list[str] = []
    live = ""
    for event in events:
        progress = progress.after(event)
        lines += progress.kept(style)
        if style.tty and progress.live(style) != live:
            live = progress.live(style)
            lines.append(f"~ {live}")
    return "\n".join(lines) + "\n"


def test_without_a_terminal_a_few_lines_tell_it(golden: Callable[[str, str], None]) -> None:
    golden("render/progress-plain", story(EVENTS, values.PLAIN))


def test_verbose_tells_every_step(golden: Callable[[str, str], None]) -> None:
    golden("render/progress-verbose", story(EVENTS, values.PLAIN, verbose=True))


def test_on_a_terminal_one_line_lives(golden: Callable[[str, str], None]) -> None:
    golden("render/progress-live", story(EVENTS, replace(values.PLAIN, tty=True)))


def test_the_live_line_leaves_the_last_column_free() -> None:
    for width in (40, 60, 80):
        style = replace(values.PLAIN, tty=True, width=width)
        told = [line.removeprefix("~ ") for line in story(EVENTS, style).splitlines() if line.startswith("~ ")]

        assert told
        assert max(map(len, told)) < width


def test_an_unknown_size_is_told_as_bytes_and_never_as_a_part() -> None:
    progress = Progress().after(PullEvent("image", 5_000_000, 0))

    assert progress.kept(values.PLAIN) == ("pulling image",)
    assert progress.live(values.PLAIN) == "pulling image 5 MB"
