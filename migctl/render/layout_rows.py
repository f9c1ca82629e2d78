"""Many GPUs, a line each: the axis in short boxes with letters, equal boards below one heading."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.core.views.pictures import GpuPicture
from migctl.render.axis import INDENT, Segment, inside, looks, notes, segments, sign
from migctl.render.console import Style
from migctl.render.tags import Tags
from migctl.render.text import clean, fit, pad, width


def rows_of(gpus: Sequence[GpuPicture], tags: Tags, style: Style) -> list[str]:
    """Divided GPUs; a heading and ticks for each stretch of equal boards, and what the signs mean."""
    lines: list[str] = []
    board: tuple[str, int] | None = None
    for gpu in gpus:
        cell = max(3, min(64, style.columns - 22) // gpu.memory_slices)
        if board != (gpu.name, gpu.memory_slices):
            board = (gpu.name, gpu.memory_slices)
            lines += [*([""] if lines else []), *_heading(gpu, gpus, cell, style)]
        lines.append(strip(gpu, cell, tags, style))
    return [*lines, *_legend(gpus, style), *_pending(gpus, style), *notes(gpus, style)]


def _heading(gpu: GpuPicture, gpus: Sequence[GpuPicture], cell: int, style: Style) -> list[str]:
    alike = sum((other.name, other.memory_slices) == (gpu.name, gpu.memory_slices) for other in gpus)
    number = f"{alike} × " if alike > 1 else ""
    head = fit(clean(f"{number}{gpu.name}", style), style.columns, style)
    ticks = "".join(str(n).ljust(cell) for n in range(gpu.memory_slices)) + str(gpu.memory_slices)
    return [style.paint(head, "bold"), INDENT + style.paint(f"GPU  {ticks}", "dim")]


def strip(gpu: GpuPicture, cell: int, tags: Tags, style: Style, *, label: str = INDENT) -> str:
    """A GPU in one line: its number, its axis in short boxes, and how much of its compute is in use.

    Args:
        label: before the number; with it they take five columns or more.
    """
    number = pad(style.paint("" if gpu.index is None else f"{label.lstrip()}{gpu.index}", "bold"), 3)
    bar = style.paint(style.signs.vertical, "dim")
    boxes = [_box(part, part.size * cell - 1, tags, style) for part in segments(gpu)]
    used = sum(seat.compute_slices or 0 for seat in gpu.seats)
    if gpu.mig is not None and not gpu.mig.settled:
        words = "MIG pending"
    elif gpu.mig is not None and not gpu.mig.current:
        words = "MIG off"
    else:
        words = f"{used}/{gpu.compute_slices} compute"
    lead = INDENT if label == INDENT else ""
    return f"{lead}{number}  {bar}{bar.join(boxes)}{bar}  {style.paint(words, 'dim')}"


def _box(part: Segment, room: int, tags: Tags, style: Style) -> str:
    seat = part.seat
    if seat is None:
        return style.paint(inside(style.signs.free * max(1, room - 2), room), "dim")
    colours = looks(seat, tags)
    if seat.job is None:
        return style.paint(sign(seat, tags, style) * room, *colours)
    letter = tags.painted(seat.job, style) + (f"+{len(seat.mates)}" if seat.mates else "")
    for words in (clean(seat.job, style), clean(seat.profile, style)):
        if width(letter) + width(words) + 3 <= room:
            return inside(f"{letter} {style.paint(words, *colours)}", room)
    return inside(letter, room)


def _legend(gpus: Sequence[GpuPicture], style: Style) -> list[str]:
    seats = [seat for gpu in gpus for seat in gpu.seats]
    marks = [f"{style.signs.foreign} not ours"] * any(seat.foreign for seat in seats)
    marks += [f"{style.signs.ours} other runs"] * any(seat.job is None and not seat.foreign for seat in seats)
    marks += [f"{style.signs.free} not in use"] * any(part.seat is None for gpu in gpus for part in segments(gpu))
    return [INDENT + style.paint("     " + "   ".join([*marks, "numbers: memory slices"]), "dim")]


def _pending(gpus: Sequence[GpuPicture], style: Style) -> list[str]:
    """A mode that is outstanding is too important for two words at the end of a line."""
    waiting = [str(gpu.index) for gpu in gpus if gpu.mig is not None and not gpu.mig.settled]
    if not waiting:
        return []
    text = f"GPU {', '.join(waiting)}: the MIG mode changes only after a GPU reset or reboot"
    return [f"{INDENT}{style.paint('!', 'yellow')} {fit(text, style.columns - 4, style)}"]
