"""Looking back: what runs there were, how each attempt ended, and forgetting those that are over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from migctl.core.runs.record import Record
from migctl.core.runs.run import Run
from migctl.core.views.history import AttemptView, HistoryView, PastRun
from migctl.engine.clusters import clusterruns
from migctl.engine.follow import see, split_lines
from migctl.engine.session import Session
from migctl.engine.targets import Target, find_jobs, unknown_run
from migctl.errors import Busy, MigctlError, PlanError
from migctl.host.claims import drop_claim, store_name
from migctl.runtimes.logfile import read_log
from migctl.store.ledger import Ledger


def history(session: Session, word: str | None, folder: Path) -> HistoryView:
    """Every run that is not forgotten, or one of them, with all attempts; changes nothing.

    Args:
        word: a run's name or its plan file.
        folder: that a plan file is relative to.

    Raises:
        PlanError: there is no such run.
    """
    with session.ledger(write=False) as ledger:
        runs = ledger.runs(ended=True) if word is None else (found_run(ledger, word, folder),)
        past = [_past(run, tuple(_attempt(r) for r in all_attempts(session, ledger, run))) for run in runs]
    past.sort(key=lambda run: run.created_at or 0.0, reverse=True)
    return HistoryView(now=session.now(), runs=tuple(past))


def forget(session: Session, word: str, folder: Path) -> str:
    """Remove everything that is kept of an ended run, its logs too; returns its name.

    Raises:
        PlanError: there is no such run, or it has not ended: nothing was removed.
        Busy: another migctl is at it.
    """
    with session.ledger(write=False) as ledger:
        name = found_run(ledger, word, folder).name
    _forget(session, name)
    return name


def prune(session: Session) -> tuple[tuple[str, ...], tuple[MigctlError, ...]]:
    """Forget every ended run; returns those that are forgotten, and why others are not."""
    with session.ledger(write=False) as ledger:
        ended = [run.name for run in ledger.runs(ended=True) if run.ended_at is not None]
    gone: list[str] = []
    problems: list[MigctlError] = []
    for name in ended:
        try:
            _forget(session, name)
        except PlanError:
            continue  # it was brought up again meanwhile
        except MigctlError as error:
            problems.append(error)
            continue
        gone.append(name)
    return tuple(gone), tuple(problems)


def _forget(session: Session, name: str) -> None:
    with session.ledger(write=True, removing=True) as ledger, session.run_lock(name):
        run = ledger.run(name, ended=True)
        if run is None:
            raise Busy("run-gone", f"{name} was forgotten just now", where=f"run {name}")
        if run.ended_at is None:
            raise PlanError(
                "run-not-ended",
                f"{name} has not ended: its jobs, instances and logs are still there",
                where=f"run {name}",
                hint=f"migctl down {name}, then migctl rm {name}",
            )
        ledger.forget_run(name)
        drop_claim(session.paths.run, session.caller, name, store_name(session.paths.state))


def found_run(ledger: Ledger, word: str, folder: Path) -> Run:
    """The run of this name, living or ended, else the one of this plan file.

    Raises:
        PlanError: there is no such run.
    """
    runs = ledger.runs(ended=True)
    path = str((folder / word).resolve())
    named = next((run for run in runs if run.name == word), None)
    found = named or next((run for run in runs if run.plan_path and run.plan_path == path), None)
    if found is None:
        raise unknown_run(word, [run.name for run in runs])
    return found


def find_logs(ledger: Ledger, words: Sequence[str], folder: Path) -> Target:
    """The run and the jobs whose logs are meant: of the living runs, else of one that is undone, whose logs are kept.

    Raises:
        PlanError: as `find_jobs`.
    """
    try:
        return find_jobs(ledger, words, folder)
    except PlanError as living:
        found = _ended(ledger, words, folder)
        if found is None:
            raise living from None
        return found


def _ended(ledger: Ledger, words: Sequence[str], folder: Path) -> Target | None:
    """What the words mean among the runs that are undone; without words the last one, where nothing lives."""
    over = [run for run in ledger.runs(ended=True) if run.ended_at is not None]
    if not words:
        last = max(over, key=lambda run: run.ended_at or 0.0, default=None)
        return Target(last) if last is not None and not ledger.runs() else None
    chosen: list[tuple[Run, str]] = []
    for word in words:
        name, _, job = word.partition("/")
        path = str((folder / word).resolve())
        named = [(run, "") for run in over if run.name == word or (run.plan_path and run.plan_path == path)]
        named += [(run, job) for run in over if run.name == name and job in past_jobs(ledger, run)]
        if not named:
            return None
        chosen.append(named[0])
    if len({run.name for run, _ in chosen}) > 1:
        raise PlanError("several-runs", "these jobs belong to several runs", hint="name jobs of one run at a time")
    return Target(chosen[0][0], tuple(dict.fromkeys(job for _, job in chosen)) if all(job for _, job in chosen) else ())


def past_jobs(ledger: Ledger, run: Run) -> tuple[str, ...]:
    """The jobs of an ended run that have begun."""
    cluster = ledger.submissions.cluster(run.name)
    if cluster is not None:
        return tuple(job.name for job in cluster.jobs)
    return tuple(dict.fromkeys(record.job for record in ledger.history(run.name)))


def read_logs(
    session: Session, run: Run, jobs: Sequence[str], *, tail: int | None, since: float | None
) -> Iterator[tuple[str, bytes]]:
    """Lines of the logs that are kept of an ended run, of each job's last attempt, with the job's name."""
    with session.ledger(write=False) as ledger:
        last = {record.job: record.attempt for record in sorted(ledger.history(run.name), key=lambda r: r.attempt)}
        files = [(job, ledger.folder(run.name, job, last[job]) / "log") for job in jobs or past_jobs(ledger, run)]
    for job, file in files:
        # As of a process: its lines have no times, so only the file's tells whether anything is newer.
        old = since is not None and file.exists() and file.stat().st_mtime < since
        yield from ((job, line) for line in split_lines(read_log(str(file), tail=0 if old else tail)))


def _past(run: Run, attempts: tuple[AttemptView, ...]) -> PastRun:
    return PastRun(
        name=run.name,
        plan_path=run.plan_path,
        runtime=run.runtime,
        strategy=run.strategy,
        created_at=run.created_at,
        ended_at=run.ended_at,
        attempts=attempts,
    )


def all_attempts(session: Session, ledger: Ledger, run: Run) -> tuple[Record, ...]:
    """Every attempt of a run, by job and number: those that are over, and the others as they are now."""
    if clusterruns.on_cluster(run):
        return (*ledger.history(run.name), *clusterruns.attempts(session, ledger, run))
    over = {(record.job, record.attempt): record for record in ledger.history(run.name)}
    now = {(record.job, record.attempt): record for record in _present(session, ledger, run).values()}
    return tuple(record for _, record in sorted({**over, **now}.items()))


def _present(session: Session, ledger: Ledger, run: Run) -> Mapping[str, Record]:
    """The attempts that are not over, as they are now; where nothing answers, as they were recorded."""
    recorded = {record.job: record for record in ledger.records(run.name)}
    if all(record.state.ended for record in recorded.values()):
        return recorded
    try:
        return see(session, run)[0].records
    except MigctlError:
        return recorded


def _attempt(record: Record) -> AttemptView:
    return AttemptView(
        job=record.job,
        attempt=record.attempt,
        state=record.state,
        exit_code=record.exit_code,
        reason=record.reason,
        profile=record.profile,
        num_workers=record.num_workers,
        started_at=record.started_at,
        finished_at=record.finished_at,
        code=record.code,
    )
