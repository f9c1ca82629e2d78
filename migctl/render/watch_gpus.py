"""The GPUs of `status --watch`: who lies where on the memory slices, and what the whole GPU draws, how hot and how fast it is."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.core.seeing.readings import GpuReading, Reading
from migctl.core.views.pictures import GpuPicture
from migctl.core.views.status import GpuView
from migctl.core.words import counted
from migctl.render.console import Style
from migctl.render.layout import divided, layouts, title
from migctl.render.layout_rows import strip
from migctl.render.status_gpus import Present, gpu_pictures
from migctl.render.tags import Tags
from migctl.render.text import clean, fit

_WIDEST_AXIS = 64


def gpu_lines(
    gpus: Sequence[GpuView],
    reading: Reading | None,
    jobs: Sequence[Present],
    tags: Tags,
    style: Style,
    lines: int,
    *,
    roomy: bool,
) -> list[str]:
    """The largest picture that there is room for.

    Args:
        gpus: as they are.
        reading: their figures.
        jobs: those that are somewhere.
        tags: letters and colours of jobs.
        style: the terminal.
        lines: room.
        roomy: boxes with names may be tried.
    """
    pictures = gpu_pictures(gpus, jobs)
    found = {one.uuid: one for one in reading.gpus} if reading is not None else {}
    figures = [_figures(found.get(gpu.uuid), reading, style) for gpu in gpus]
    if roomy:
        large = [*layouts(pictures, tags, style), *_listed(pictures, figures, style)]
        if len(large) <= lines:
            return large
    strips = [_strip(picture, tags, style) for picture in pictures]
    both = [
        line for pair in zip(strips, (_indented(one, style) for one in figures), strict=True) for line in pair if line
    ]
    if len(both) <= lines:
        return both
    if len(strips) <= lines:
        return strips
    return [*strips[: lines - 1], f"  {style.signs.ellipsis} and {counted(len(strips) - lines + 1, 'more GPU')}"][
        : max(0, lines)
    ]


def _strip(gpu: GpuPicture, tags: Tags, style: Style) -> str:
    if divided(gpu):
        cell = max(3, min(_WIDEST_AXIS, style.columns - 22) // gpu.memory_slices)
        return strip(gpu, cell, tags, style, label="GPU ")
    line = title(gpu, style)[0]
    users = "  ".join(f"{tags.painted(job, style)} {clean(job, style)}" for job in gpu.whole[:4])
    more = f"  {style.signs.ellipsis}" if len(gpu.whole) > 4 else ""
    return f"{line}  {users}{more}".rstrip() if users else line


def _figures(gpu: GpuReading | None, reading: Reading | None, style: Style) -> str:
    """`245 of 400 W · 61 °C · SM 1410 of 1410 MHz`, or why there are none."""
    if gpu is None:
        why = reading.unknown.get("gpus", "") if reading is not None else ""
        return f"figures n/a: {why}" if why else ""
    facts: list[str] = []
    if gpu.power_w is not None:
        facts.append(f"{gpu.power_w:.0f}" + (f" of {gpu.power_limit_w:.0f}" if gpu.power_limit_w else "") + " W")
    if gpu.temperature_c is not None:
        facts.append(f"{gpu.temperature_c} °C" if style.unicode else f"{gpu.temperature_c} C")
    if gpu.sm_clock_mhz is not None:
        most = f" of {gpu.sm_clock_max_mhz}" if gpu.sm_clock_max_mhz else ""
        facts.append(f"SM {gpu.sm_clock_mhz}{most} MHz")
    if gpu.throttles:
        facts.append(f"slowed by {' and '.join(gpu.throttles)}")
    if not facts and gpu.unknown:
        facts.append(f"figures n/a: {next(iter(gpu.unknown.values()))}")
    return style.signs.dot.join(facts)


def _indented(figures: str, style: Style) -> str:
    return f"       {style.paint(fit(clean(figures, style), style.columns - 7, style), 'dim')}" if figures else ""


def _listed(pictures: Sequence[GpuPicture], figures: Sequence[str], style: Style) -> list[str]:
    """Below large pictures, the figures of all."""
    lines = []
    for picture, told in zip(pictures, figures, strict=True):
        number = f"GPU {picture.index}  " if len(pictures) > 1 else ""
        if told:
            lines.append(f"  {style.paint(fit(clean(number + told, style), style.columns - 2, style), 'dim')}")
    return lines
