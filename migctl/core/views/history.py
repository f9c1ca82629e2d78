"""The answer to `history`: runs that were and are, and every attempt of their jobs. Times are Unix seconds."""

from __future__ import annotations

from dataclasses import dataclass

from migctl.core.code import Code
from migctl.core.runs.record import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """One attempt of a job, as it was recorded last."""

    job: str
    attempt: int
    state: JobState
    exit_code: int | None = None
    reason: str | None = None
    profile: str | None = None
    num_workers: int | None = None
    started_at: float | None = None
    finished_at: float | None = None
    code: Code | None = None
    """The state of its source when it started, as far as git tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """One run with all attempts of its jobs, those of a job in their order."""

    name: str
    plan_path: str = ""
    runtime: str = ""
    strategy: str = ""
    created_at: float | None = None
    ended_at: float | None = None
    """When `down` had undone it; `None`: it is still there."""
    attempts: tuple[AttemptView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryView:
    """The answer to `history`, the latest run first."""

    now: float
    runs: tuple[PastRun, ...]
