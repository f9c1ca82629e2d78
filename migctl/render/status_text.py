"""`status` as text: every run with its jobs, every GPU with its instances, the cores, and what has drifted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.runs.record import JobState
from migctl.core.views.status import JobView, RunView, StatusView
from migctl.core.words import counted
from migctl.render.console import Style
from migctl.render.cores import cores
from migctl.render.errors_text import notice_lines
from migctl.render.folding import FOLD_ABOVE, Group, fold, limited, span
from migctl.render.heading import heading
from migctl.render.layout import layouts
from migctl.render.status_gpus import gpu_pictures, key, present, tags_of
from migctl.render.table import Cell, Column, table
from migctl.render.tags import Tags
from migctl.render.text import clean, duration, fit, hang, page, sides, width

_LOOKS: Mapping[JobState, tuple[str, ...]] = {
    JobState.QUEUED: ("dim",),
    JobState.STARTING: ("cyan",),
    JobState.RUNNING: ("green",),
    JobState.SUCCEEDED: (),
    JobState.FAILED: ("red", "bold"),
    JobState.STOPPED: ("yellow",),
    JobState.LOST: ("red", "bold"),
}
_ORDER = (
    JobState.RUNNING,
    JobState.STARTING,
    JobState.FAILED,
    JobState.LOST,
    JobState.STOPPED,
    JobState.QUEUED,
    JobState.SUCCEEDED,
)
"""What runs first, then what went wrong."""
_COLUMNS = (
    Column(),
    Column(title="JOB", least=18, cut="middle"),
    Column(title="TRY", right=True),
    Column(title="STATE"),
    Column(title="SINCE", drop=3),
    Column(title="ID", drop=6),
    Column(title="NODE", drop=4, least=6),
    Column(title="GPU", right=True, drop=2),
    Column(title="PROFILE", least=14),
    Column(title="PLACE", drop=4),
    Column(title="CPUS", least=7),
    Column(title="WORKERS", right=True, drop=1),
    Column(title="EXPECTED", drop=5),
)
_RUNS = 6
"""Runs with a table of their jobs; more runs than that are one line each."""
_DRIFT = 8


def status_text(view: StatusView, style: Style, *, everything: bool = False) -> str:
    """The whole answer, with a newline at its end.

    Args:
        view: what was found; `view.now` is the time that durations count to.
        style: the terminal.
        everything: one row a job, however many there are.
    """
    jobs = present(view.runs)
    tags = tags_of(jobs)
    blocks = [
        heading("status", "", [], view.simulated, style) if view.simulated else [],
        *_runs(view, tags, style, everything=everything),
        layouts(gpu_pictures(view.gpus, jobs), tags, style),
        cores(view.cores, tags, style) if view.cores is not None else [],
        _drift(view.drift, style, everything=everything),
        notice_lines(view.notices, style),
    ]
    return page(blocks, style)


def _runs(view: StatusView, tags: Tags, style: Style, *, everything: bool) -> list[list[str]]:
    if not view.runs:
        return [[f"no runs{style.signs.dot}`migctl up` starts one"]]
    order = {gpu.uuid: gpu.index for gpu in view.gpus}
    if len(view.runs) > _RUNS and not everything:
        return [_short(view, style)]
    # Rows of one run: all of them share a screen.
    above = max(4, FOLD_ABOVE // len(view.runs))
    blocks: list[list[str]] = []
    for run in view.runs:
        block = _head(run, view, style)
        groups = fold(run.jobs, _alike, everything=everything, above=above)
        shown, left = _shown(groups, above, everything=everything)
        rows = [_row(group, view, run, order if len(order) > 1 else {}, tags) for group in shown]
        block += _with_reasons(
            table(_COLUMNS, rows, style), shown, style, whole=len(run.jobs) <= FOLD_ABOVE or everything
        )
        if left:
            block.append(f"  {style.signs.ellipsis} and {counted(left, 'more job')} (--all lists them)")
        blocks.append(block)
    return blocks


def _shown(groups: Sequence[Group[JobView]], above: int, *, everything: bool) -> tuple[list[Group[JobView]], int]:
    """The groups for the table, in their order; where some have to be left out, what runs or went wrong stays."""
    order = sorted(range(len(groups)), key=lambda n: (_ORDER.index(groups[n].first.state), n))
    _, left = limited(groups, everything=everything, above=above, most=above * 2 // 3)
    if not left:
        return list(groups), 0
    kept = set(order[: above * 2 // 3])
    out = sum(group.size for n, group in enumerate(groups) if n not in kept)
    return [group for n, group in enumerate(groups) if n in kept], out


def _head(run: RunView, view: StatusView, style: Style) -> list[str]:
    """`lr-sweep  running` and its facts."""
    states = Counter(job.state for job in run.jobs)
    facts = [f"{states[state]} {state.value}" for state in _ORDER if states[state]]
    facts += [run.strategy] if run.strategy else []
    where = run.runtime if run.engine == "local" else run.engine
    facts += [where] if where else []
    facts += [f"of {run.owner}"] if run.owner else []
    facts += [f"since {duration(view.now - run.created_at)}"] if run.created_at is not None else []
    facts += [_end(run.ends_at, view.now)] if run.ends_at is not None else []
    state = style.paint(clean(run.state, style), *_state_looks(run.state))
    badge = ""
    if run.simulated and not view.simulated:
        badge = style.paint("simulated", "yellow", "bold")
    name = style.paint(fit(clean(run.name, style), style.columns - 24, style, "middle"), "bold")
    return [*sides(f"{name}  {state}", badge, style).split("\n"), *hang("", style.signs.dot.join(facts), style)]


def _state_looks(word: str) -> tuple[str, ...]:
    return next((looks for state, looks in _LOOKS.items() if state.value == word), ())


def _short(view: StatusView, style: Style) -> list[str]:
    """Many runs: a line each."""
    columns = (
        Column(title="RUN", least=10, cut="middle"),
        Column(title="STATE"),
        Column(title="JOBS", least=12),
        Column(title="OWNER", drop=1, least=4),
        Column(title="SINCE", drop=2),
    )
    rows: list[list[Cell | str]] = []
    for run in view.runs[:20]:
        states = Counter(job.state for job in run.jobs)
        jobs = ", ".join(f"{states[state]} {state.value}" for state in _ORDER if states[state])
        since = "" if run.created_at is None else duration(view.now - run.created_at)
        rows.append([Cell(run.name, ("bold",)), Cell(run.state, _state_looks(run.state)), jobs, run.owner, since])
    lines = table(columns, rows, style)
    if len(view.runs) > 20:
        lines.append(f"  {style.signs.ellipsis} and {counted(len(view.runs) - 20, 'more run')}")
    return [*lines, "  `migctl status RUN` shows one run's jobs, --all shows all"]


def _alike(job: JobView) -> tuple[object, ...]:
    return (job.origin or job.name, job.state, job.exit_code, job.reason, job.profile, job.num_workers)


def _row(
    group: Group[JobView], view: StatusView, run: RunView, order: Mapping[str, int], tags: Tags
) -> list[Cell | str]:
    first = group.first
    keys = [key(view.runs, run, job) for job in group.members]
    look = tags.look(keys[0]) if group.size == 1 else ()
    state = first.state.value
    if first.exit_code:
        state += f" ({first.exit_code})"
    cpus = CpuSet(cpu for job in group.members for cpu in job.cpus)
    name = first.name if group.size == 1 else f"{first.origin or first.name} × {group.size}"
    return [
        Cell(tags.range(keys), ("bold", *look)),
        Cell(name, look),
        str(first.attempt) if group.size == 1 and first.attempt > 1 else "",
        Cell(state, _LOOKS[first.state]),
        _since(group, view.now),
        (first.cluster_id or "") if group.size == 1 else "",
        (first.node or "") if group.size == 1 else "",
        span([order[uuid] for job in group.members if (uuid := job.gpu_uuid or "") in order]),
        first.profile or ("whole GPU" if first.gpu_uuid or first.cluster_id else ""),
        str(first.placement) if group.size == 1 and first.placement is not None else "",
        str(cpus),
        _workers(group),
        _expected(group, view.now),
    ]


def _expected(group: Group[JobView], now: float) -> str:
    """When it ends, or starts; of several the last one."""
    spans = [job.expected for job in group.members if job.expected is not None]
    if group.first.state is JobState.QUEUED:
        starts = [span.start for span in spans if span.start is not None]
        return f"starts in {duration(max(starts) - now)}" if len(starts) == group.size else ""
    ends = [span.end for span in spans if span.end is not None]
    return _end(max(ends), now) if len(ends) == group.size else ""


def _end(at: float, now: float) -> str:
    return f"ends in {duration(at - now)}" if at >= now else f"overdue {duration(now - at)}"


def _workers(group: Group[JobView]) -> str:
    """Those alive of those planned, where the processes are seen: `3 of 4`."""
    first = group.first
    if first.num_workers is None:
        return ""
    alive = first.pinning.workers if first.pinning is not None and group.size == 1 else None
    return str(first.num_workers) if alive is None else f"{alive} of {first.num_workers}"


def _since(group: Group[JobView], now: float) -> str:
    """How long it has been in this state; for several the longest run, or the last end."""
    times = [t for job in group.members if (t := job.finished_at if job.state.ended else job.started_at) is not None]
    if not times:
        return ""
    return f"{duration(now - max(times))} ago" if group.first.state.ended else duration(now - min(times))


def _with_reasons(lines: list[str], groups: Sequence[Group[JobView]], style: Style, *, whole: bool) -> list[str]:
    """The table with a job's reason below its row, in one line where there are many."""
    if not lines:
        return []
    title, *rows = lines
    merged = [title]
    for row, group in zip(rows, groups, strict=True):
        merged.append(row)
        if group.first.reason:
            reason = hang("why:", group.first.reason, style, indent=5, look=("dim",))
            if len(reason) > 1 and not whole:
                reason = [f"{reason[0]} {style.signs.ellipsis}" if width(reason[0]) + 2 <= style.columns else reason[0]]
            merged += reason
    return merged


def _drift(drift: Sequence[str], style: Style, *, everything: bool) -> list[str]:
    """Differences between the records and the machine."""
    if not drift:
        return []
    shown = drift if everything else drift[:_DRIFT]
    lines = [style.paint("DRIFT  the machine differs from the records", "bold", "yellow")]
    for line in shown:
        lines += hang("!", line, style, indent=2, look=("yellow",))
    if len(drift) > len(shown):
        lines.append(f"  {style.signs.ellipsis} and {counted(len(drift) - len(shown), 'more')} (--all lists them)")
    return lines
