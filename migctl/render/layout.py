"""The picture of a GPU: who lies where on its memory slices, and whose its compute slices are."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.core.gpu.mig import MigMode
from migctl.core.views.pictures import GpuPicture, Seat
from migctl.core.words import counted
from migctl.render.axis import INDENT, Segment, inside, looks, notes, segments, short, sign, spare
from migctl.render.console import Style
from migctl.render.layout_rows import rows_of
from migctl.render.tags import Tags
from migctl.render.text import WIDEST, clean, fit, gib, hang, sides, width

_LARGE = 2
"""Up to so many divided GPUs are drawn large, more than that one line each."""
_GPUS = 16
"""GPUs shown at most."""


def layouts(gpus: Sequence[GpuPicture], tags: Tags, style: Style) -> list[str]:
    """All GPUs in their order: divided ones large or, where there are many, in rows; the others a line each."""
    shown = gpus[:_GPUS]
    cut = [gpu for gpu in shown if divided(gpu)]
    rows = cut if len(cut) > _LARGE else []
    lines: list[str] = []
    for gpu in shown:
        block: list[str] = []
        if gpu in rows:
            # All rows stand where the first of them does: one picture of the machine.
            block = rows_of(rows, tags, style) if gpu is rows[0] else []
        elif divided(gpu):
            block = _large(gpu, tags, style)
        else:
            block = title(gpu, style) + (_whole(gpu, tags, style) if gpu.whole else [])
        if lines and block and (len(block) > 1 or lines[-1].startswith(INDENT)):
            lines.append("")
        lines += block
    if len(gpus) > len(shown):
        lines.append(f"{INDENT}{style.signs.ellipsis} and {counted(len(gpus) - len(shown), 'more GPU')}")
    return lines


def divided(gpu: GpuPicture) -> bool:
    """Whether there is a grid to draw."""
    return gpu.memory_slices > 0 and not gpu.whole and not (gpu.reason and not gpu.seats)


def mode_words(mode: MigMode | None) -> str:
    """The MIG mode in words; a change that is outstanding is never called done."""
    if mode is None:
        return "no MIG"
    if mode.settled:
        return "MIG on" if mode.current else "MIG off"
    now, then = ("on", "off") if mode.current else ("off", "on")
    return f"MIG still {now}, {then} only after a GPU reset or reboot"


def title(gpu: GpuPicture, style: Style) -> list[str]:
    """`GPU 0  NVIDIA A100-SXM4-40GB` and its mode."""
    number = style.paint("GPU" if gpu.index is None else f"GPU {gpu.index}", "bold")
    if gpu.reason and not gpu.seats:
        words = gpu.reason if gpu.mig is None else f"{mode_words(gpu.mig)}, instances n/a ({gpu.reason})"
    else:
        words = mode_words(gpu.mig)
    warn = gpu.mig is not None and not gpu.mig.settled
    name = fit(clean(gpu.name, style), style.columns - width(number) - 2, style)
    line = sides(f"{number}  {name}", style.paint(clean(words, style), "yellow" if warn else "dim"), style)
    head, *rest = line.split("\n")
    return [head, *(f"{INDENT}{style.paint('!', 'yellow') + ' ' if warn else ''}{extra}" for extra in rest)]


def _large(gpu: GpuPicture, tags: Tags, style: Style) -> list[str]:
    """One GPU as a strip of boxes with names, ticks below, and its compute slices."""
    cell = max(3, min(WIDEST, style.columns - len(INDENT) - 2) // gpu.memory_slices)
    return [
        *title(gpu, style),
        *_boxes(list(segments(gpu)), cell, spare(gpu), tags, style),
        _ticks(gpu.memory_slices, cell, style),
        *_compute(gpu, tags, style),
        *notes([gpu], style),
    ]


def _boxes(parts: Sequence[Segment], cell: int, empty: str, tags: Tags, style: Style) -> list[str]:
    signs = style.signs
    edge = [signs.horizontal * (segment.size * cell - 1) for segment in parts]
    top = signs.corners[0] + signs.tees[0].join(edge) + signs.corners[1]
    bottom = signs.corners[2] + signs.tees[1].join(edge) + signs.corners[3]
    bar = style.paint(signs.vertical, "dim")
    rows = [bar + bar.join(row) + bar for row in _rows(parts, cell, empty, tags, style)]
    return [
        INDENT + style.paint(top, "dim"),
        *(INDENT + row for row in rows),
        INDENT + style.paint(bottom, "dim"),
    ]


def _rows(parts: Sequence[Segment], cell: int, empty: str, tags: Tags, style: Style) -> list[list[str]]:
    """Name and profile of each segment, filled to its width."""
    names: list[str] = []
    profiles: list[str] = []
    for segment in parts:
        room = segment.size * cell - 1
        seat = segment.seat
        if seat is None:
            names.append(inside(style.paint(empty if room >= 4 else style.signs.free, "dim"), room))
            profiles.append(" " * room)
            continue
        colours = looks(seat, tags)
        if seat.job is not None:
            letter = _letters(seat, room, tags, style)
            left = room - 1 - width(letter)
            name = style.paint(short(seat.job, left, style), *colours) if left >= 4 and not seat.mates else ""
            names.append(inside(f"{letter} {name}" if name else letter, room))
        else:
            owner = "not ours" if seat.foreign else seat.owner
            names.append(inside(style.paint(short(owner, room, style), *colours), room))
        profiles.append(inside(style.paint(fit(clean(seat.profile, style), room, style), *colours), room))
    return [names, profiles]


def _letters(seat: Seat, room: int, tags: Tags, style: Style) -> str:
    """The job's letter; those of all that share the instance where there is room, else the first one and how many more."""
    assert seat.job is not None
    all_of_them = " ".join(tags.painted(job, style) for job in (seat.job, *seat.mates))
    if not seat.mates or width(all_of_them) < room:
        return all_of_them
    return f"{tags.painted(seat.job, style)}+{len(seat.mates)}"


def _compute_cell(seat: Seat, number: int, tags: Tags, style: Style) -> str:
    """Jobs that share an instance take turns."""
    if seat.job is None or not seat.mates:
        return style.paint(sign(seat, tags, style), *looks(seat, tags))
    job = (seat.job, *seat.mates)[number % (len(seat.mates) + 1)]
    return style.paint(tags.letter(job), *tags.look(job))


def _ticks(slices: int, cell: int, style: Style) -> str:
    """The numbers of the memory slices, each below the left edge of its slice."""
    line = ""
    for position in range(slices + 1):
        line = line.ljust(position * cell) + str(position)
    label = "memory slices"
    room = style.columns - len(INDENT) - len(line) - 2
    return INDENT + style.paint(f"{line}  {label}" if len(label) <= room else line, "dim")


def _compute(gpu: GpuPicture, tags: Tags, style: Style) -> list[str]:
    """One sign a compute slice: the job's letter, or what else has it."""
    signs = style.signs
    cells: list[str] = []
    unknown = False
    for seat in sorted(gpu.seats, key=lambda seat: seat.placement):
        unknown |= seat.compute_slices is None
        cells += [_compute_cell(seat, n, tags, style) for n in range(seat.compute_slices or 0)]
    used = len(cells)
    total = gpu.compute_slices
    cells += [style.paint(signs.free, "dim")] * max(0, total - used)
    words = f"{used} of {total} in use"
    if unknown:
        words += ", at least: the driver does not tell a profile"
    elif used < total:
        words += f", {total - used} idle"
    return _labelled("compute slices", " ".join(cells), words, style)


def _labelled(label: str, strip: str, words: str, style: Style) -> list[str]:
    """`label  strip  words`, the words on their own line where the line would be too long."""
    lead = f"{INDENT}{style.paint(label, 'dim')}  {strip}"
    if width(lead) + 3 + width(words) <= style.columns:
        return [f"{lead}   {words}"]
    return [lead, *hang("", words, style, indent=len(INDENT) + width(label) + 2)]


def _whole(gpu: GpuPicture, tags: Tags, style: Style) -> list[str]:
    """A GPU that is not divided: one box with everybody in it."""
    signs = style.signs
    room = min(WIDEST, style.columns - len(INDENT) - 2) - 1
    rows: list[str] = []
    line = ""
    for job in gpu.whole:
        letter = tags.painted(job, style)
        item = f"{letter} {style.paint(fit(clean(job, style), room - 5, style, 'middle'), *tags.look(job))}"
        if line and width(line) + 3 + width(item) > room - 2:
            rows.append(line)
            line = ""
        line += f"   {item}" if line else item
    rows.append(line or style.paint("free", "dim"))
    if len(rows) > 4:
        rows = [*rows[:3], f"{signs.ellipsis} {len(gpu.whole)} jobs in all"]
    rows.append(style.paint(fit(clean(f"whole GPU, {gib(gpu.memory_mib)}", style), room - 2, style), "dim"))
    bar = style.paint(signs.vertical, "dim")
    edge = signs.horizontal * room
    return [
        INDENT + style.paint(signs.corners[0] + edge + signs.corners[1], "dim"),
        *(INDENT + bar + inside(row, room) + bar for row in rows),
        INDENT + style.paint(signs.corners[2] + edge + signs.corners[3], "dim"),
    ]
