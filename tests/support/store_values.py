"""Records and runs for tests of the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from migctl.core.runs.record import JobState, Record
from migctl.core.runs.run import Run
from migctl.store.ledger import Ledger

NOW = 1_800_000_000.0


def record(job: str = "a", *, run: str = "sweep", state: JobState = JobState.RUNNING, revision: int = 1) -> Record:
    return Record(
        run=run,
        job=job,
        token=f"token-{job}",
        runtime="docker",
        strategy="mig",
        state=state,
        digest="d" * 64,
        spec='{"image": "trainer"}',
        revision=revision,
        created_at=NOW,
    )


def later(value: Record, **changes: object) -> Record:
    return replace(value, revision=value.revision + 1, **changes)  # type: ignore[arg-type]  # names are the caller's


def run(name: str = "sweep") -> Run:
    return Run(
        name=name,
        plan_path=f"/plans/{name}.yaml",
        owner_uid=0,
        runtime="docker",
        strategy="mig",
        created_at=NOW,
    )


def writing(state: Path, now: Callable[[], float] = lambda: NOW) -> Ledger:
    return Ledger.open(state, write=True, now=now)


def reading(state: Path) -> Ledger:
    return Ledger.open(state, write=False, now=lambda: NOW)


def filled(state: Path) -> tuple[Record, Record]:
    """A run with a running and a queued job."""
    running, queued = record("a"), record("b", state=JobState.QUEUED)
    with writing(state) as ledger:
        ledger.save_run(run())
        ledger.save([running, queued], durable=False)
    return running, queued
