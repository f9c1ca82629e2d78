"""`history` as text and as JSON: a line a run, or one run with every attempt of its jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from migctl.core.runs.record import JobState
from migctl.core.views.history import AttemptView, HistoryView, PastRun
from migctl.core.words import counted
from migctl.render.console import Style
from migctl.render.json_values import VERSION, Json, code_json
from migctl.render.table import Cell, Column, table
from migctl.render.text import clean, duration, hang, page

_RUNS = (
    Column(title="RUN", least=10, cut="middle"),
    Column(title="BEGAN"),
    Column(title="ENDED"),
    Column(title="JOBS", least=12),
    Column(title="ATTEMPTS", right=True, drop=1),
)
_ATTEMPTS = (
    Column(title="JOB", least=12, cut="middle"),
    Column(title="TRY", right=True),
    Column(title="STATE"),
    Column(title="BEGAN"),
    Column(title="TOOK", right=True),
    Column(title="PROFILE", drop=2),
    Column(title="WORKERS", right=True, drop=1),
)
_WRONG = (JobState.FAILED, JobState.LOST)


def history_text(view: HistoryView, style: Style, *, attempts: bool) -> str:
    """The whole answer, with a newline at its end.

    Args:
        view: durations count to its time.
        style: the terminal.
        attempts: every attempt of every job, instead of a line a run.
    """
    if not view.runs:
        return f"no runs{style.signs.dot}`migctl up` starts one\n"
    if attempts:
        return page([_run(run, view.now, style) for run in view.runs], style)
    rows: list[list[Cell | str]] = [
        [Cell(run.name, ("bold",)), *_times(run, view.now), _jobs(run), str(len(run.attempts))] for run in view.runs
    ]
    over = sum(run.ended_at is not None for run in view.runs)
    below = ["`migctl history RUN` lists a run's attempts"]
    below += [f"`migctl history --prune` forgets {counted(over, 'ended run')} and what is kept of them"] if over else []
    return page([table(_RUNS, rows, style), [f"  {line}" for line in below]], style)


def _times(run: PastRun, now: float) -> list[str]:
    began = f"{duration(now - run.created_at)} ago" if run.created_at is not None else "n/a"
    return [began, f"{duration(now - run.ended_at)} ago" if run.ended_at is not None else "not yet"]


def _jobs(run: PastRun) -> str:
    """How the last attempt of each job ended."""
    last = {attempt.job: attempt.state for attempt in run.attempts}
    states = Counter(last.values())
    return ", ".join(f"{states[state]} {state.value}" for state in JobState if states[state])


def _run(run: PastRun, now: float, style: Style) -> list[str]:
    began, ended = _times(run, now)
    facts = [f"began {began}", f"ended {ended}" if run.ended_at is not None else "not ended"]
    facts += [word for word in (run.strategy, run.runtime, clean(run.plan_path, style)) if word]
    head = [style.paint(clean(run.name, style), "bold"), *hang("", style.signs.dot.join(facts), style)]
    return [*head, *_with_reasons(run.attempts, now, style)]


def _with_reasons(attempts: Sequence[AttemptView], now: float, style: Style) -> list[str]:
    rows = [_row(attempt, now) for attempt in attempts]
    if not rows:
        return ["  no attempt"]
    title, *lines = table(_ATTEMPTS, rows, style)
    told = [title]
    for line, attempt in zip(lines, attempts, strict=True):
        told.append(line)
        if attempt.reason:
            told += hang("why:", attempt.reason, style, indent=5, look=("dim",))
    return told


def _row(attempt: AttemptView, now: float) -> list[Cell | str]:
    state = attempt.state.value + (f" ({attempt.exit_code})" if attempt.exit_code else "")
    began = f"{duration(now - attempt.started_at)} ago" if attempt.started_at is not None else ""
    return [
        attempt.job,
        str(attempt.attempt),
        Cell(state, ("red", "bold") if attempt.state in _WRONG else ()),
        began,
        _took(attempt),
        attempt.profile or "",
        str(attempt.num_workers) if attempt.num_workers is not None else "",
    ]


def _took(attempt: AttemptView) -> str:
    if attempt.started_at is None or attempt.finished_at is None:
        return ""
    return duration(attempt.finished_at - attempt.started_at)


def history_json(view: HistoryView) -> Json:
    """`history --json`."""
    return {
        "version": VERSION,
        "runs": [
            {
                "name": run.name,
                "plan_path": run.plan_path or None,
                "runtime": run.runtime or None,
                "strategy": run.strategy or None,
                "created_at": run.created_at,
                "ended_at": run.ended_at,
                "attempts": [_attempt_json(attempt) for attempt in run.attempts],
            }
            for run in view.runs
        ],
    }


def _attempt_json(attempt: AttemptView) -> Json:
    return {
        "job": attempt.job,
        "attempt": attempt.attempt,
        "state": attempt.state.value,
        "exit_code": attempt.exit_code,
        "reason": attempt.reason,
        "profile": attempt.profile,
        "num_workers": attempt.num_workers,
        "started_at": attempt.started_at,
        "finished_at": attempt.finished_at,
        "code": code_json(attempt.code),
    }
