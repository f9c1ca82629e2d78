"""Which run and which jobs the words on the command line mean."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from migctl.core.runs.run import Run
from migctl.errors import PlanError
from migctl.store.ledger import Ledger

PLAN_NAMES = ("plan.yaml", "migctl.yaml")


@dataclass(frozen=True, slots=True)
class Target:
    """A run, and some of its jobs (empty: all)."""

    run: Run
    jobs: tuple[str, ...] = ()


def find_run(ledger: Ledger, word: str | None, folder: Path) -> Run:
    """RUN = a name or a plan file; nothing = the only run, else the run of the plan in this folder.

    Raises:
        PlanError: no such run, or several would do.
    """
    runs = ledger.runs()
    names = [run.name for run in runs]
    if word is not None:
        by_name = next((run for run in runs if run.name == word), None)
        path = str((folder / word).resolve())
        found = by_name or next((run for run in runs if run.plan_path and run.plan_path == path), None)
        if found is None:
            raise _ended_run(ledger, word, path) or unknown_run(word, names)
        return found
    if len(runs) == 1:
        return runs[0]
    here = {str((folder / name).resolve()) for name in PLAN_NAMES}
    local = [run for run in runs if run.plan_path in here]
    if len(local) == 1:
        return local[0]
    if not runs:
        raise PlanError("no-run", "no run is recorded", hint="migctl up plan.yaml")
    raise PlanError("which-run", f"several runs are there: {', '.join(names)}", hint="name one of them")


def find_jobs(ledger: Ledger, words: Sequence[str], folder: Path) -> Target:
    """JOB = a job's name or RUN/JOB; a word may also be a run, which means all its jobs.

    Raises:
        PlanError: unknown names, or jobs of several runs.
    """
    if not words:
        return Target(find_run(ledger, None, folder))
    targets = [_one(ledger, word, folder) for word in words]
    if len({target.run.name for target in targets}) > 1:
        raise PlanError("several-runs", "these jobs belong to several runs", hint="name jobs of one run at a time")
    jobs = tuple(dict.fromkeys(job for target in targets for job in target.jobs))
    return Target(targets[0].run, () if any(not target.jobs for target in targets) else jobs)


def _one(ledger: Ledger, word: str, folder: Path) -> Target:
    run_name, slash, job = word.partition("/")
    runs = ledger.runs()
    if slash and any(run.name == run_name for run in runs):
        run = find_run(ledger, run_name, folder)
        there = job_names(ledger, run.name)
        if job not in there:
            raise unknown_job(job, there)
        return Target(run, (job,))
    names = {run.name: job_names(ledger, run.name) for run in runs}
    having = [run for run in runs if word in names[run.name]]
    if len(having) == 1:
        return Target(having[0], (word,))
    if len(having) > 1:
        listed = ", ".join(f"{run.name}/{word}" for run in having)
        raise PlanError("which-job", f"several runs have a job {word}: {listed}", hint=f"write {having[0].name}/{word}")
    if any(run.name == word for run in runs) or Path(word).suffix in {".yaml", ".yml"}:
        return Target(find_run(ledger, word, folder))
    ended = None if slash else _ended_run(ledger, word, None)
    raise ended or unknown_job(word, [name for run in runs for name in names[run.name]])


def job_names(ledger: Ledger, run: str) -> tuple[str, ...]:
    """All jobs of a run: in the queue's order, and those that are no longer in it."""
    queue = ledger.submissions.queue(run)
    recorded = [record.job for record in ledger.records(run)]
    if not recorded and queue is None and (cluster := ledger.submissions.cluster(run)) is not None:
        return tuple(job.name for job in cluster.jobs)
    return tuple(dict.fromkeys((*(queue.names if queue is not None else ()), *recorded)))


def _ended_run(ledger: Ledger, word: str, path: str | None) -> PlanError | None:
    """Whoever names a run that was taken down shall not read that it never was."""
    past = [run for run in ledger.runs(ended=True) if run.ended_at is not None]
    run = next((r for r in past if r.name == word), None) or next(
        (r for r in past if path and r.plan_path == path), None
    )
    if run is None:
        return None
    return PlanError(
        "run-ended",
        f"{run.name} was taken down: nothing of it is left but its history",
        where=f"run {run.name}",
        hint=f"migctl history {run.name}, migctl logs {run.name}, or migctl report {run.name}",
        data={"run": run.name},
    )


def unknown_job(name: str, known: Sequence[str]) -> PlanError:
    """There is no such job."""
    near = difflib.get_close_matches(name, known, 1)
    there = f"; there are {', '.join(known[:12])}{' …' if len(known) > 12 else ''}" if known else "; no run is recorded"
    return PlanError(
        "unknown-job", f"no job is called {name}{there}", hint=f"did you mean {near[0]}?" if near else "migctl status"
    )


def unknown_run(name: str, known: Sequence[str]) -> PlanError:
    """There is no such run."""
    near = difflib.get_close_matches(name, known, 1)
    there = f"; there {'is' if len(known) == 1 else 'are'} {', '.join(known)}" if known else "; no run is recorded"
    return PlanError(
        "unknown-run",
        f"no run is called {name}{there}",
        hint=f"did you mean {near[0]}?" if near else "migctl status --all",
    )
