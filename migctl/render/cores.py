"""The picture of the cores: a line a NUMA node, a group an L3 domain, a sign a core."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.views.cores import CoreCell, CoreMark, CoresView
from migctl.core.words import counted
from migctl.render.console import Signs, Style
from migctl.render.tags import MANY, Tags
from migctl.render.text import clean, hang, width

_WORDS: Mapping[CoreMark, str] = {
    CoreMark.FREE: "free",
    CoreMark.RESERVED: "kept for the system",
    CoreMark.REST: "beyond this plan's share",
    CoreMark.CLAIMED: "other runs",
    CoreMark.CONTAINER: "other containers",
    CoreMark.ISOLATED: "isolated",
    CoreMark.UNAVAILABLE: "not available here",
}
_LINES = 14
"""Lines that the picture has at most, without heading and legend."""


def cores(view: CoresView, tags: Tags, style: Style) -> list[str]:
    """Heading, picture and legend; nothing where there is no core."""
    if not view.cells:
        return []
    threads = len(CpuSet(cpu for cell in view.cells for cpu in cell.cpus))
    nodes = {cell.node for cell in view.cells if cell.node is not None}
    facts = [counted(len(view.cells), "core")]
    if threads != len(view.cells):
        facts.append(counted(threads, "logical CPU"))
    if len(nodes) > 1:
        facts.append(f"{len(nodes)} NUMA nodes")
    if view.hidden:
        facts.append("topology hidden: vCPUs counted as cores")
    lines = [*hang("CORES ", style.signs.dot.join(facts), style, look=("bold",))]
    picture = list(_picture(view, tags, style))
    if len(picture) > _LINES:
        picture = [
            *picture[: _LINES - 1],
            f"  {style.signs.ellipsis} and {counted(len(picture) - _LINES + 1, 'more line')}",
        ]
    return [*lines, *picture, *_legend(view, tags, style)]


def _picture(view: CoresView, tags: Tags, style: Style) -> Iterator[str]:
    size = max(max(1, min(2, len(cell.jobs))) for cell in view.cells)
    digits = len(str(view.cells[-1].id))
    nodes = sorted({cell.node for cell in view.cells}, key=lambda node: (node is None, node or 0))
    label = max(len(_node(node, nodes)) for node in nodes)
    room = style.columns - 2 - label - (1 if label else 0) - digits - 2
    for node in nodes:
        cells = sorted((cell for cell in view.cells if cell.node == node), key=lambda cell: (cell.l3, cell.id))
        name = _node(node, nodes)
        for first, line in _rows(cells, size, room, tags, style):
            lead = f"{name:<{label}} " if label else ""
            yield f"  {style.paint(f'{lead}{first:>{digits}}', 'dim')}  {line}"
            name = ""


def _node(node: int | None, nodes: Sequence[int | None]) -> str:
    if len(nodes) == 1:
        return ""
    return "no node" if node is None else f"node {node}"


def _rows(cells: Sequence[CoreCell], size: int, room: int, tags: Tags, style: Style) -> Iterator[tuple[int, str]]:
    """Lines of whole L3 groups as far as they fit, with the id of their first core; a group too large for a line is cut."""
    line, first, taken = "", -1, 0
    for _, members in groupby(cells, key=lambda cell: cell.l3):
        group = list(members)
        need = len(group) * size
        if line and taken + 1 + need > room:
            yield first, line
            line, first, taken = "", -1, 0
        while need > room:
            # Cut at a multiple of eight, so that the numbers at the left are round.
            part = max(1, room // size // 8 * 8 or room // size)
            yield group[0].id, "".join(_cell(cell, size, tags, style) for cell in group[:part])
            group = group[part:]
            need = len(group) * size
        if not group:
            continue
        if line:
            line += " "
            taken += 1
        else:
            first = group[0].id
        line += "".join(_cell(cell, size, tags, style) for cell in group)
        taken += need
    if line:
        yield first, line


def _cell(cell: CoreCell, size: int, tags: Tags, style: Style) -> str:
    if cell.mark is CoreMark.JOB and cell.jobs:
        known = [job for job in cell.jobs if tags.letter(job)]
        if len(known) == 1:
            rest = style.signs.free if cell.part else tags.letter(known[0])
            return style.paint(tags.letter(known[0]) + rest * (size - 1), "bold", *tags.look(known[0]))
        if len(known) == 2 == size:
            return "".join(style.paint(tags.letter(job), "bold", *tags.look(job)) for job in known)
        return style.paint(MANY * size, "bold")
    return style.paint(_sign(cell.mark, style.signs) * size, "dim")


def _sign(mark: CoreMark, signs: Signs) -> str:
    match mark:
        case CoreMark.JOB:
            return MANY
        case CoreMark.FREE:
            return signs.free
        case CoreMark.RESERVED:
            return signs.reserved
        case CoreMark.REST:
            return ":"
        case CoreMark.CLAIMED:
            return signs.ours
        case CoreMark.CONTAINER:
            return signs.foreign
        case CoreMark.ISOLATED:
            return signs.isolated
        case CoreMark.UNAVAILABLE:
            return "-"


def _legend(view: CoresView, tags: Tags, style: Style) -> list[str]:
    """What the signs mean that occur, with how many cores each."""
    signs = style.signs
    marks = Counter(cell.mark for cell in view.cells)
    entries = [f"{_sign(mark, signs)} {marks[mark]} {words}" for mark, words in _WORDS.items() if marks[mark]]
    jobs = marks[CoreMark.JOB]
    if jobs:
        letters = tags.range([job for cell in view.cells for job in cell.jobs])
        entries.insert(0, f"{letters} {counted(jobs, 'core')} of jobs".strip())
    if any(len(cell.jobs) > 2 for cell in view.cells):
        entries.append(f"{MANY} three jobs or more")
    lines: list[str] = []
    line = ""
    for entry in entries:
        if line and width(line) + 3 + width(entry) > style.columns - 2:
            lines.append(line)
            line = ""
        line += f"   {entry}" if line else entry
    return [f"  {style.paint(clean(line, style), 'dim')}" for line in [*lines, line]]
