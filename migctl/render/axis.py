"""Who lies where on the memory-slice axis of a GPU, in order, and how each is signed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from migctl.core.views.pictures import GpuPicture, Seat
from migctl.render.console import Style
from migctl.render.tags import Tags
from migctl.render.text import clean, fit, hang, pad, width

INDENT = "  "


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the axis that one seat has, or nobody."""

    start: int
    size: int
    seat: Seat | None


def segments(gpu: GpuPicture) -> Iterator[Segment]:
    """The axis from left to right; neighbouring free slices together."""
    position = 0
    for seat in sorted(gpu.seats, key=lambda seat: seat.placement):
        start, end = max(position, seat.placement.start), min(seat.placement.end, gpu.memory_slices)
        if end <= start:
            continue
        if start > position:
            yield Segment(position, start - position, None)
        yield Segment(start, end - start, seat)
        position = end
    if position < gpu.memory_slices:
        yield Segment(position, gpu.memory_slices - position, None)


def short(name: str, room: int, style: Style) -> str:
    """A name in a box: names of a sweep differ at their end, but in a narrow box only the beginning says anything."""
    return fit(clean(name, style), room, style, "middle" if room >= 14 else "end")


def inside(text: str, room: int) -> str:
    """The text in its box, with a blank before it where there is room for one."""
    return pad(f" {text}" if width(text) < room else text, room)


def looks(seat: Seat, tags: Tags) -> tuple[str, ...]:
    """The colour of a seat: the job's, or the one of strangers or of other runs."""
    if seat.job is not None:
        return tags.look(seat.job)
    return ("yellow",) if seat.foreign else ("dim",)


def sign(seat: Seat, tags: Tags, style: Style) -> str:
    """The letter of a job, or the sign of strangers or of other runs."""
    if seat.job is not None:
        return tags.letter(seat.job)
    return style.signs.foreign if seat.foreign else style.signs.ours


def spare(gpu: GpuPicture) -> str:
    """What to call memory slices that nobody has: without a compute slice left, nobody can have them."""
    return "free" if sum(seat.compute_slices or 0 for seat in gpu.seats) < gpu.compute_slices else "idle"


def notes(gpus: Sequence[GpuPicture], style: Style) -> list[str]:
    """What is special about a seat, in words below the picture."""
    lines: list[str] = []
    for gpu in gpus:
        number = f"GPU {gpu.index}: " if len(gpus) > 1 and gpu.index is not None else ""
        for seat in gpu.seats:
            if seat.note:
                text = f"{number}{seat.profile} at {seat.placement} ({seat.owner}): {seat.note}"
                lines += hang("!", text, style, indent=len(INDENT), look=("yellow",))
    return lines
