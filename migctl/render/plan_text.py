"""`plan` as text: the GPUs, the jobs, the cores, what is idle, what conflicts, and the guide's three ways compared."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.core.allocation import Assignment
from migctl.core.choices import Strategy
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.gpu.mig import Placement
from migctl.core.views.plan import ConflictView, PlanView, Way
from migctl.core.words import counted
from migctl.errors import Busy, MigctlError
from migctl.render.console import Style
from migctl.render.cores import cores
from migctl.render.errors_text import NOTICES, notice_lines
from migctl.render.folding import FOLD_ABOVE, FOLDED_ROWS, Group, fold, limited, names, span
from migctl.render.gantt import gantt
from migctl.render.heading import heading
from migctl.render.layout import layouts
from migctl.render.table import Cell, Column, table
from migctl.render.tags import Tags
from migctl.render.text import gib, hang, page
from migctl.render.waits import waits_by_reason

_STRATEGY = {
    Strategy.MIG: "MIG, one instance a job",
    Strategy.SHARED: "whole GPUs, shared",
    Strategy.SEQUENTIAL: "one after another, whole GPUs",
}
_STEPS = 8
_LINES = 60
"""A folded plan is not longer."""
_CROWDED_NOTICES = 3
_COLUMNS = (
    Column(),
    Column(title="JOB", least=18, cut="middle"),
    Column(title="GPU", right=True, drop=3),
    Column(title="PROFILE", least=14),
    Column(title="PLACE", drop=4),
    Column(title="MEMORY", right=True, drop=2),
    Column(title="CORES", right=True),
    Column(title="CPUS", least=9),
    Column(title="WORKERS", right=True),
    Column(title="THREADS", right=True, drop=5),
    Column(title="BATCH", right=True, drop=1),
)


def plan_text(view: PlanView, style: Style, *, everything: bool = False) -> str:
    """The whole answer, with a newline at its end.

    Args:
        view: what planning found.
        style: the terminal.
        everything: one row a job, however many there are.
    """
    allocation = view.allocation
    tags = Tags.of([(a.job.name, a.job.origin) for a in allocation.assignments])
    crowded = not everything and len(allocation.assignments) + len(allocation.waiting) > FOLD_ABOVE
    above = [heading("plan", view.name, _facts(view), view.simulated, style), layouts(view.gpus, tags, style)]
    below = [
        cores(view.cores, tags, style) if view.cores is not None else [],
        _idle(view, style),
        _waiting(view, style),
        gantt(view.course, view.now, style) if view.course is not None else [],
        _conflict(view.conflict, allocation.blocked, style),
        _ways(view.ways, style),
        _steps(view.steps, style, everything=everything),
        notice_lines(allocation.notices, style, most=_CROWDED_NOTICES if crowded else NOTICES),
    ]
    taken = sum(len(block) + 1 for block in (*above, *below) if block)
    jobs = _jobs(view, tags, style, everything=everything, room=_LINES - taken)
    return page((*above, jobs, *below), style)


def _facts(view: PlanView) -> list[str]:
    allocation = view.allocation
    running, waiting = len(allocation.assignments), len(allocation.waiting)
    if waiting and not running:
        at_once = f"{counted(waiting, 'job')}, none can start now"
    elif waiting:
        at_once = (
            f"{running} of {counted(running + waiting, 'job')} at once, {waiting} {'waits' if waiting == 1 else 'wait'}"
        )
    else:
        at_once = "1 job" if running == 1 else f"{running} jobs, all at once"
    seats = max((a.job.per_instance for a in allocation.assignments), default=1)
    how = f"MIG, up to {seats} jobs an instance" if seats > 1 else _STRATEGY[allocation.strategy]
    facts = [at_once, how, counted(len(view.gpus), "GPU")]
    return [*facts, f"for {view.machine}"] if view.machine else facts


def _jobs(view: PlanView, tags: Tags, style: Style, *, everything: bool, room: int) -> list[str]:
    assignments = view.allocation.assignments
    if not assignments:
        return []
    order = {gpu.uuid: n if gpu.index is None else gpu.index for n, gpu in enumerate(view.gpus)}
    groups = fold(assignments, _alike, everything=everything)
    # Besides the rows: titles, the line of those left out, the total (two lines where it is narrow), and the blank line.
    groups, left = limited(groups, everything=everything, most=max(5, min(FOLDED_ROWS, room - 5)))
    several = len(view.gpus) > 1
    rows = [_row(group, order if several else {}, tags) for group in groups]
    lines = table(_COLUMNS, rows, style)
    if left:
        lines.append(f"  {style.signs.ellipsis} and {counted(left, 'more job')} (--all lists them)")
    return [*lines, *_total(assignments, style)]


def _alike(assignment: Assignment) -> tuple[object, ...]:
    """What must be equal in one folded row; places and CPUs differ by nature."""
    cpu = assignment.cpu
    profile = assignment.profile.name if assignment.profile else ""
    return (
        assignment.job.origin,
        assignment.gpu_name,
        profile,
        assignment.memory_mib,
        cpu.cores,
        cpu.num_workers,
        cpu.threads,
        assignment.batch_size,
    )


def _row(group: Group[Assignment], order: dict[str, int], tags: Tags) -> list[Cell | str]:
    first = group.first
    jobs = [a.job.name for a in group.members]
    cpus = CpuSet(cpu for a in group.members for cpu in a.cpu.cpus)
    name = first.job.name if group.size == 1 else f"{first.job.origin} × {group.size}"
    look = tags.look(first.job.name) if group.size == 1 else ()
    return [
        Cell(tags.range(jobs), ("bold", *look)),
        Cell(name, look),
        span([order[a.gpu_uuid] for a in group.members if a.gpu_uuid in order]),
        first.profile.name if first.profile else "whole GPU",
        _place(group),
        gib(first.memory_mib),
        str(first.cpu.cores),
        str(cpus),
        str(first.cpu.num_workers),
        str(first.cpu.threads),
        "" if first.batch_size is None else str(first.batch_size),
    ]


def _place(group: Group[Assignment]) -> str:
    places: list[Placement] = [a.placement for a in group.members if a.placement is not None]
    return str(places[0]) if len(places) == 1 else ""


def _total(assignments: Sequence[Assignment], style: Style) -> list[str]:
    """The sum that decides whether the CPU drowns: workers and main processes against logical CPUs."""
    workers = sum(a.cpu.num_workers for a in assignments)
    used = CpuSet(cpu for a in assignments for cpu in a.cpu.cpus)
    text = (
        f"in all {counted(workers, 'loader worker')} and {counted(len(assignments), 'main process', 'main processes')} "
        f"on {counted(len(used), 'logical CPU')}"
    )
    plain = all(a.cpu.num_workers == a.cpu.cores for a in assignments)
    rule = "" if plain else ", but where storage or num_workers say otherwise"
    why = f"workers = cores of the job{rule}; threads (OMP_NUM_THREADS, …) = what then fits"
    return [*hang("", text, style, indent=2), *hang("", why, style, indent=2)]


def _idle(view: PlanView, style: Style) -> list[str]:
    idle = view.allocation.idle
    parts: list[str] = []
    if view.allocation.strategy is Strategy.MIG:
        parts += [counted(idle.compute_slices, "compute slice"), counted(idle.memory_slices, "memory slice")]
    parts.append(counted(idle.cores, "core"))
    lines = hang("IDLE  ", ", ".join(parts), style, look=("bold",))
    if view.allocation.strategy is Strategy.MIG:
        more = f"one more of {', '.join(idle.could_add)}" if idle.could_add else "no further instance fits"
        lines += hang("", more if not idle.could_add else f"room for {more}", style, indent=7)
    return lines


def _waiting(view: PlanView, style: Style) -> list[str]:
    allocation = view.allocation
    if not allocation.waiting:
        return []
    lines = hang("WAIT  ", f"{len(allocation.waiting)}: {names(allocation.waiting, 6)}", style, look=("bold",))
    for line in waits_by_reason(view.waits, style):
        lines += hang("why:", line, style, indent=7, look=("dim",))
    if allocation.blocked is not None and (not view.waits or isinstance(allocation.blocked, Busy)):
        lines += hang("why:", allocation.blocked.message, style, indent=7, look=("dim",))
        if allocation.blocked.hint:
            lines += hang("try:", allocation.blocked.hint, style, indent=7, look=("cyan",))
    return lines


def _conflict(conflict: ConflictView | None, blocked: MigctlError | None, style: Style) -> list[str]:
    """What the conflicting jobs need together against what there is, to scale; nothing where it is not about slices."""
    if conflict is None or not conflict.contenders or (blocked is not None and blocked.id == "no-free-core"):
        return []
    memory = sum(c.memory_slices for c in conflict.contenders)
    compute = sum(c.compute_slices for c in conflict.contenders)
    told = []
    if memory > conflict.memory_slices:
        told.append(f"needs {memory} memory slices of {conflict.memory_slices}")
    if compute > conflict.compute_slices:
        told.append(f"needs {compute} compute slices of {conflict.compute_slices}")
    jobs = conflict.jobs
    if not told and blocked is not None and blocked.id == "blocked-by-others":
        told.append("what is there already is in the way")
    elif not told:
        told.append("slices enough, but not side by side where the profiles can start")
    verb = "does not fit" if len(jobs) == 1 else "do not fit at once"
    lines = hang("CONFLICT", f"{names(jobs)} {verb}: {'; '.join(told)}", style, look=("bold",))
    for label, need, there in (
        ("memory", memory, conflict.memory_slices),
        ("compute", compute, conflict.compute_slices),
    ):
        lines.append(_bar(label, need, there, style))
    kinds = fold(
        conflict.contenders,
        lambda c: (c.profile, c.memory_slices, c.compute_slices),
        everything=False,
        above=0,
    )
    for kind in kinds:
        one = kind.first
        text = f"{kind.size} × {one.profile}: {kind.size * one.memory_slices} memory, {kind.size * one.compute_slices} compute"
        lines += hang("", text, style, indent=11)
    return lines


def _bar(label: str, need: int, there: int, style: Style) -> str:
    """Slices to scale: what fits, what is too much, what stays free."""
    words = f"needs {need} of {there}"
    room = max(1, style.columns - 11 - 2 - len(words))
    scale = max(1, min(4, room // max(need, there, 1)))
    inside, over, free = min(need, there), max(0, need - there), max(0, there - need)
    if (inside + over + free) * scale > room:
        return f"  {label:<9}{words}"
    # The end of what there is stays visible as the change of sign, with or without colour.
    bar = style.paint(style.signs.full * (inside * scale), "green")
    bar += style.paint(style.signs.foreign * (over * scale), "red") + style.paint(
        style.signs.free * (free * scale), "dim"
    )
    return f"  {style.paint(f'{label:<9}', 'dim')}{bar}  {words}"


def _ways(ways: Sequence[Way], style: Style) -> list[str]:
    """In the order of effort; what a way costs or why it is not possible stands below it."""
    if not ways:
        return []
    columns = (
        Column(),
        Column(least=14),
        Column(title="AT ONCE", right=True),
        Column(title="CORES", right=True),
        Column(title="WORKERS", right=True),
        Column(title="GPU MEMORY", right=True, drop=1),
    )
    rows: list[list[Cell | str]] = []
    for number, way in enumerate(ways, 1):
        looks = ("bold",) if way.chosen else () if way.possible else ("dim",)
        values = (str(way.at_once), str(way.cores), str(way.num_workers), gib(way.memory_mib))
        mark = style.signs.arrow if way.chosen else " "
        rows.append(
            [Cell(mark, looks), Cell(f"{number} {way.name}", looks), *(values if way.possible else ["n/a"] * 4)]
        )
    title, *lines = table(columns, rows, style)
    told = f"  {style.signs.arrow} this plan" if any(way.chosen for way in ways) else ""
    merged = [f"{style.paint('WAYS  ', 'bold')} to run them, least effort first, per job{told}", title]
    for line, way in zip(lines, ways, strict=True):
        merged.append(line)
        if way.note:
            merged += hang("", way.note, style, indent=7)
    return merged


def _steps(steps: Sequence[str], style: Style, *, everything: bool) -> list[str]:
    if not steps:
        return []
    shown = steps if everything or len(steps) <= _STEPS + 1 else steps[:_STEPS]
    lines = [style.paint("STEPS  of `migctl up`", "bold")]
    for number, step in enumerate(shown, 1):
        lines += hang(f"{number:>3}", step, style, indent=1)
    if len(shown) < len(steps):
        lines.append(
            f"     {style.signs.ellipsis} and {counted(len(steps) - len(shown), 'more step')} (--all lists them)"
        )
    return lines
