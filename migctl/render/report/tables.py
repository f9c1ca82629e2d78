"""The tables of a report as values: the page and the Markdown write the same ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from migctl.core.runs.record import JobState
from migctl.core.views.report import ReportAttempt, ReportView
from migctl.core.words import counted
from migctl.render.report.charts import charts
from migctl.render.report.frame import Frame, percent
from migctl.render.report.series import watched_s
from migctl.render.report.timeline import SIGNS, gpu_words, occupied, took
from migctl.render.text import duration, gib

MOST_ROWS = 500
"""More are counted, not listed: `--format json` has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows below their headings; the first cell of a row names it."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    """Columns of numbers."""
    more: str = ""
    """What is left out."""


def tiles(frame: Frame) -> tuple[tuple[str, str], ...]:
    """The few numbers that a reader looks for first: what, and how much."""
    view = frame.view
    ends = [last.state for job in view.jobs if (last := view.last(job)) is not None]
    done = sum(state is JobState.SUCCEEDED for state in ends)
    bad = sum(state in (JobState.FAILED, JobState.LOST) for state in ends)
    found = [
        ("state", view.state),
        ("jobs", str(len(view.jobs))),
        ("succeeded", str(done)),
        ("failed or lost", str(bad)),
        ("attempts", str(len(view.attempts))),
        ("duration", duration(frame.span.length_s) if view.attempts else "n/a"),
    ]
    worked = sum(took(a, view.now) or 0.0 for a in view.attempts)
    found.append(("job time", duration(worked)))
    parts = [
        part
        for gpu in view.gpus
        if (part := occupied(gpu, view.attempts, frame.span.begin_s, frame.span.end_s)) is not None
    ]
    if parts:
        found.append(("memory slices held", percent(sum(parts) / len(parts))))
    return tuple(found)


def facts(frame: Frame) -> Table:
    """The run and the machine."""
    view, clock = frame.view, frame.clock
    machine = view.machine
    rows = [
        ("Run", view.name),
        ("Plan file", view.plan_path or "none: made on the command line"),
        ("Strategy and runtime", " · ".join(word for word in (view.strategy, view.runtime) if word) or "n/a"),
        *((("Engine", view.engine),) if view.engine != "local" else ()),
        ("Brought up", clock.full(view.created_at)),
        ("Undone", clock.full(view.ended_at) if view.ended_at is not None else "not yet"),
        ("Report made", f"{clock.full(view.now)} {view.zone}, by migctl {machine.version}"),
        ("Machine" if view.engine == "local" else "Written on", f"{machine.host}, {machine.kernel}"),
        ("Cores", _cores(view)),
        ("RAM", gib(machine.memory_mib, 0)),
    ]
    rows += [(gpu_words(gpu), f"{gib(gpu.memory_mib or None, 0)}, {gpu.uuid}") for gpu in view.gpus if gpu.known]
    rows += [(gpu_words(gpu), "what it is can be told only where it is") for gpu in view.gpus if not gpu.known]
    if view.simulated:
        rows.append(("Simulated", f"the GPUs are simulated ({view.simulated}); figures of GPUs are made up"))
    codes = _codes(view)
    if len(codes) == 1:
        rows.append(("Code", f"{codes.pop()} (git)"))
    seconds = watched_s(view.samples)
    rows.append(
        ("Measured", f"{duration(seconds)} in {counted(len(view.samples), 'sample')}" if view.samples else "nothing")
    )
    return Table(caption="The run and the machine", columns=("What", "Value"), rows=tuple(rows))


def _codes(view: ReportView) -> set[str]:
    """The states of the source that attempts ran, as far as git told."""
    return {str(attempt.code) for attempt in view.attempts if attempt.code is not None}


def _cores(view: ReportView) -> str:
    machine = view.machine
    nodes = f", {counted(machine.nodes, 'NUMA node')}" if machine.nodes > 1 else ""
    return f"{machine.cores}, {counted(machine.logical_cpus, 'logical CPU')}{nodes}"


def jobs_table(frame: Frame) -> Table:
    """A row a job: how it went, with what, and what held it back."""
    held = held_back(frame)
    rows: list[tuple[str, ...]] = []
    waits = {one.job: one for one in frame.view.waiting}
    for job in frame.view.jobs[:MOST_ROWS]:
        last = frame.view.last(job)
        if last is None:
            one = waits[job]
            rows.append((job, state_words(one.state, None), "", "", "", "", "", one.reason))
            continue
        length = took(last, frame.view.now)
        rows.append(
            (
                job,
                state_words(last.state, last.exit_code),
                duration(length) if length is not None else "n/a",
                _place(last),
                str(last.cpus) or "n/a",
                str(last.num_workers) if last.num_workers is not None else "n/a",
                held.get(job, "not known"),
                last.reason or (waits[job].reason if job in waits else ""),
            )
        )
    return Table(
        caption="Jobs, each with its latest attempt",
        columns=("Job", "State", "Took", "GPU instance", "CPUs", "Workers", "Held back by", "Reason"),
        rows=tuple(rows),
        right=frozenset({2, 5}),
        more=_more(len(frame.view.jobs), "job"),
    )


def attempts_table(frame: Frame) -> Table:
    """Every attempt, for those that look for one."""
    clock, several = frame.clock, len(_codes(frame.view)) > 1
    rows = [
        (
            a.job,
            str(a.attempt),
            state_words(a.state, a.exit_code),
            clock.brief(a.started_at),
            clock.brief(a.finished_at) if a.finished_at is not None or a.state.ended else "still running",
            duration(length) if (length := took(a, frame.view.now)) is not None else "n/a",
            _place(a),
            *((str(a.code) if a.code is not None else "",) if several else ()),
            a.reason or "",
        )
        for a in frame.view.attempts[:MOST_ROWS]
    ]
    return Table(
        caption="All attempts",
        columns=(
            "Job",
            "Attempt",
            "State",
            "Began",
            "Ended",
            "Took",
            "GPU instance",
            *(("Code",) if several else ()),
            "Reason",
        ),
        rows=tuple(rows),
        right=frozenset({1, 5}),
        more=_more(len(frame.view.attempts), "attempt"),
    )


def verdicts_table(frame: Frame) -> Table:
    """What was said of the jobs and GPUs while somebody watched."""
    names = {gpu.uuid: gpu_words(gpu) for gpu in frame.view.gpus}
    rows = [
        (
            spell.job or names.get(spell.gpu, spell.gpu),
            spell.title,
            frame.clock.brief(spell.begin_s),
            duration(spell.length_s(frame.span.end_s)),
            spell.message,
            spell.hint,
        )
        for spell in frame.view.verdicts[:MOST_ROWS]
    ]
    return Table(
        caption="Verdicts, in the order in which they began",
        columns=("Job or GPU", "Verdict", "From", "For", "The numbers behind it", "What to change"),
        rows=tuple(rows),
        right=frozenset({3}),
        more=_more(len(frame.view.verdicts), "verdict"),
    )


def plan_table(view: ReportView) -> Table:
    """What the plan says of each job, without values of the environment."""
    rows = [
        (job.name, "\n".join(f"{key}: {value}" for key, value in job.keys) or "n/a: not recorded here")
        for job in view.plan
    ]
    return Table(
        caption="The jobs as the plan gives them; of the environment only the names",
        columns=("Job", "Keys"),
        rows=tuple(rows[:MOST_ROWS]),
        more=_more(len(rows), "job"),
    )


def numbers_table(frame: Frame, jobs: Sequence[str]) -> Table:
    """The numbers of all charts, for those that do not see them."""
    rows: list[tuple[str, ...]] = []
    for job in jobs:
        for chart in charts(frame, job, frame.view.last(job)):
            n = chart.numbers
            rows.append((job, chart.title, *(chart.written(value) for value in (n.least, n.mean, n.most, n.last))))
    return Table(
        caption="What was measured of the jobs",
        columns=("Job", "Figure", "Least", "Mean", "Most", "Last"),
        rows=tuple(rows[: 2 * MOST_ROWS]),
        right=frozenset({2, 3, 4, 5}),
    )


def held_back(frame: Frame) -> dict[str, str]:
    """Job → the verdict that held longest, with its part of the time in which the job ran, all attempts together."""
    lengths: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for spell in frame.view.verdicts:
        if spell.job:
            lengths[spell.job][spell.title] += spell.length_s(frame.span.end_s)
    found: dict[str, str] = {}
    for job, titles in lengths.items():
        title, longest = max(titles.items(), key=lambda item: (item[1], item[0]))
        ran = sum(took(a, frame.view.now) or 0.0 for a in frame.view.attempts if a.job == job)
        part = f" ({percent(min(1.0, longest / ran))} of the time)" if ran else ""
        found[job] = f"{title}{part}"
    return found


def state_words(state: JobState, exit_code: int | None) -> str:
    """A state with its sign and its exit code."""
    code = f" (exit code {exit_code})" if exit_code else ""
    return f"{SIGNS[state]} {state.value}{code}"


def _place(attempt: ReportAttempt) -> str:
    if attempt.placement is None:
        # A cluster tells the profile that it gave, and not where on a GPU that lies.
        return attempt.profile or ("whole GPU" if attempt.gpu_uuid else "none")
    return f"{attempt.profile} at {attempt.placement}"


def _more(number: int, what: str) -> str:
    left = number - MOST_ROWS
    return f"{counted(left, f'more {what}')} left out here; --format json has all" if left > 0 else ""
