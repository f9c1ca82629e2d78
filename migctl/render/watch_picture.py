"""The picture of `status --watch`: GPUs, cores, a row a job and what holds it back, in exactly the room there is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from migctl.core.seeing.verdicts import Level
from migctl.core.seeing.watchrows import Row, rows, selected
from migctl.core.views.watch import WatchView
from migctl.core.words import counted
from migctl.render.console import Style
from migctl.render.core_bars import core_bars
from migctl.render.status_gpus import Present, present, tags_of
from migctl.render.tags import Tags
from migctl.render.text import clean, clip, fit, hang, sides, width
from migctl.render.watch_gpus import gpu_lines
from migctl.render.watch_table import job_table

_ROOMY_LINES: Final = 40
_ROOMY_COLUMNS: Final = 100
_NEEDED_ROWS: Final = 7
"""Jobs that have a row before pictures get more room: as many as a GPU has instances."""
_NEEDED_WORDS: Final = 4
"""Lines for what holds the jobs back, before pictures get more room."""
_LEAST_LINES: Final = 4


def watch_lines(view: WatchView, style: Style, lines: int) -> list[str]:
    """The whole picture: at most so many lines, none wider than the terminal.

    Args:
        view: one moment.
        style: the terminal.
        lines: its height.
    """
    lines = max(_LEAST_LINES, lines)
    jobs = present(view.status.runs)
    tags = tags_of(jobs)
    shown = rows(view)
    roomy = lines >= _ROOMY_LINES and style.columns >= _ROOMY_COLUMNS
    head = _head(view, shown, style)
    foot = [_foot(view.wishes.keys, style)] if view.wishes.keys else []
    left = lines - len(head) - len(foot)
    needed = 1 + min(len(shown), _NEEDED_ROWS) + _NEEDED_WORDS
    blocks = _pictures(view, jobs, tags, style, max(0, left - needed), roomy=roomy)
    left -= sum(len(block) for block in blocks)
    words = list(_words(view, shown, tags, style))
    table = job_table(
        shown,
        selected(shown, view.wishes.selected),
        view.past,
        tags,
        style,
        lines=max(2, left - min(_NEEDED_WORDS, len(words))),
        several=len(view.status.runs) > 1,
        roomy=roomy,
    )
    blocks.append(table)
    left -= len(table)
    blocks.append(_within(words, left, style))
    left -= len(blocks[-1])
    # Blank lines between the blocks, as far as they cost nobody anything.
    drawn = list(head)
    for block in filter(None, blocks):
        if left > 0:
            drawn.append("")
            left -= 1
        drawn += block
    drawn = [clip(line, style) for line in drawn][: lines - len(foot)]
    return [*drawn, *([""] * (lines - len(foot) - len(drawn)) if foot else []), *foot]


def _pictures(
    view: WatchView, jobs: Sequence[Present], tags: Tags, style: Style, room: int, *, roomy: bool
) -> list[list[str]]:
    nodes = len({cell.node for cell in view.status.cores.cells}) if view.status.cores is not None else 0
    kept = min(room // 2, 1 + 2 * nodes)
    gpus = gpu_lines(view.status.gpus, view.reading, jobs, tags, style, room - kept, roomy=roomy)
    left = room - len(gpus)
    reading = view.reading
    machine = reading.cpus if reading is not None else None
    loads = dict(zip(machine.cpus, machine.busy, strict=True)) if machine is not None else {}
    cores = core_bars(view.status.cores, loads, tags, style, min(left, 17)) if view.status.cores is not None else []
    return [gpus, cores]


def _head(view: WatchView, shown: Sequence[Row], style: Style) -> list[str]:
    """`lr-sweep running · 7 running · 3 queued      simulated · 14:02:11`."""
    runs = view.status.runs
    states = Counter(job.state for run in runs for job in run.jobs)
    facts = [f"{number} {state.value}" for state, number in states.most_common()]
    if len(runs) > 1:
        facts.insert(0, counted(len(runs), "run"))
    number = sum(states.values())
    if view.wishes.pattern:
        facts.append(f"{len(shown)} of {number} with “{view.wishes.pattern}”")
    if view.wishes.keys:
        facts.append(f"by {view.wishes.sort.value}")
    if view.reading is not None and "cpus" in view.reading.unknown:
        facts.append(view.reading.unknown["cpus"])
    badge = "simulated" if view.status.simulated else ""
    right = style.signs.dot.join(word for word in (badge, view.clock) if word)
    name = runs[0].name if len(runs) == 1 else "migctl"
    if not runs:
        facts = ["no runs", "`migctl up` starts one"]
    room = style.columns - width(right) - 2
    name = fit(clean(name, style), max(8, room // 3), style, "middle")
    told = fit(clean(style.signs.dot.join(facts), style), max(0, room - width(name) - 2), style)
    line = f"{style.paint(name, 'bold')}  {told}"
    return sides(line, style.paint(right, "yellow" if badge else "dim"), style).split("\n")[:1]


def _foot(keys: str, style: Style) -> str:
    return style.paint(fit(clean(keys, style), style.columns, style), "dim")


def _words(view: WatchView, shown: Sequence[Row], tags: Tags, style: Style) -> Iterator[list[str]]:
    """Paragraphs: of the selected job everything, then what concerns GPUs, then the others, what is most urgent first."""
    place = selected(shown, view.wishes.selected)
    if place is not None:
        yield from _of_job(shown[place], view, tags, style, whole=True)
    for gpu in view.status.gpus:
        for verdict in view.diagnosis.gpus.get(gpu.uuid, ()):
            yield _paragraph(
                f"! GPU {gpu.index}: {verdict.title}", _told(verdict.message, verdict.hint, style), style, "red", "bold"
            )
    if view.status.drift:
        number = counted(len(view.status.drift), "difference")
        yield hang("!", f"drift: {number} from the records; `migctl status` lists them", style, look=("yellow", "bold"))
    for notice in view.status.notices[:2]:
        yield hang("!", notice.message, style, look=("yellow", "bold"))
    for level in (Level.ALARM, Level.ADVICE):
        for row in shown:
            if row.level is level and (place is None or row is not shown[place]):
                yield from _of_job(row, view, tags, style, whole=False)


def _of_job(row: Row, view: WatchView, tags: Tags, style: Style, *, whole: bool) -> Iterator[list[str]]:
    letter = tags.letter(row.name)
    name = f"{letter} {row.job.name if len(view.status.runs) == 1 else row.name}".strip()
    look = tags.look(row.name)
    told = False
    for verdict in row.verdicts if row.running else ():
        if whole or verdict.level is not Level.STATE:
            told = True
            yield _paragraph(
                f"{name}: {verdict.title}", _told(verdict.message, verdict.hint, style), style, "bold", *look
            )
    if not told and row.words and (whole or not row.running):
        yield hang(f"{name}:", row.words, style, look=("bold", *look))
    elif not told and whole:
        yield hang(
            f"{name}:", "nothing holds it back that is known" if row.reading else "…", style, look=("bold", *look)
        )
    if whole and row.reading is not None:
        unknown = {**row.reading.unknown, **(row.reading.instance.unknown if row.reading.instance else {})}
        for figure, why in unknown.items():
            yield hang(f"{figure.replace('_', ' ')} n/a:", why, style, indent=2, look=("dim",))


def _paragraph(label: str, text: str, style: Style, *looks: str) -> list[str]:
    """A line of its own for what it is, and below it the rest."""
    head = style.paint(fit(clean(label, style), style.columns, style), *looks)
    return [head, *hang("", text, style, indent=2)]


def _told(message: str, hint: str, style: Style) -> str:
    return f"{message} {style.signs.arrow} {hint}" if hint else message


def _within(paragraphs: Sequence[list[str]], lines: int, style: Style) -> list[str]:
    """As many of the paragraphs as there is room for; the last may be cut."""
    kept: list[str] = []
    for paragraph in paragraphs:
        left = lines - len(kept)
        if left <= 0:
            break
        if len(paragraph) > left:
            last = paragraph[left - 1]
            kept += [*paragraph[: left - 1], fit_painted(last, style)]
            break
        kept += paragraph
    return kept


def fit_painted(line: str, style: Style) -> str:
    """The line with a sign at its end that more would follow."""
    room = style.columns - 2
    return f"{line} {style.signs.ellipsis}" if width(line) <= room else line
