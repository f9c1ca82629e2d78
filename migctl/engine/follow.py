"""Wait for jobs and read their logs; changes nothing."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from migctl.core.choices import RuntimeName
from migctl.core.handing import sole_owners
from migctl.core.observed import Observed
from migctl.core.record import JobState, Record
from migctl.core.run import Run
from migctl.core.settle import settle
from migctl.engine.endings import explain
from migctl.engine.observe import Look, known_gpus
from migctl.engine.queued import Waiting, waiting
from migctl.engine.session import Session
from migctl.engine.supervisor import is_supervised
from migctl.engine.targets import job_names
from migctl.errors import Busy, JobsFailed, MigctlError
from migctl.runtimes.api import Runtime
from migctl.runtimes.bare import with_bare
from migctl.runtimes.logfile import read_log

QUEUE_LOOK_S = 0.5
"""So often it is looked whether the queue has moved, by the time of one file."""


def see(session: Session, run: Run) -> tuple[Look, Runtime]:
    """The run as it is now; without the driver its units alone tell, and of its instances nothing is concluded."""
    runtime = session.runtime(RuntimeName(run.runtime))
    with session.ledger(write=False) as ledger:
        records = ledger.records(run.name)
        units = runtime.units(run.name, [str(ledger.folder(r.run, r.job, r.attempt)) for r in records])
        boot_now, gpus, _ = known_gpus(session)
        observed = Observed(boot_id=boot_now, gpus=gpus, units=with_bare(units, records, boot_now))
        settled = sole_owners({r.job: settle(r, observed) for r in records})
        told = explain(settled, runtime=runtime, ledger=ledger, gpus=gpus, now=session.now)
    return Look(observed=observed, records=told), runtime


def wait(
    session: Session,
    run: Run,
    jobs: Sequence[str],
    *,
    timeout_s: float | None,
    on_end: Callable[[Record], None] = lambda _: None,
) -> Mapping[str, Record]:
    """Block until these jobs have ended, and return their settled records.

    Raises:
        Busy: not within `timeout_s` seconds, and the jobs go on; or one of them was never started.
        MigctlError: the runtime does not tell any more.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    told: queue.SimpleQueue[MigctlError | None] = queue.SimpleQueue()
    watched: set[str] = set()
    chosen: dict[str, Record] = {}
    error: MigctlError | None = None

    def one(runtime: Runtime, handle: str) -> None:
        try:
            if runtime.wait(handle, timeout_s) is not None:
                told.put(None)
        except MigctlError as problem:
            told.put(problem)

    while True:
        known = len(chosen)
        seen, runtime = see(session, run)
        with session.ledger(write=False) as ledger:
            names = jobs or job_names(ledger, run.name)
            waits = waiting(ledger, run.name, seen.records.values())
            mark = ledger.submissions.waits_revision(run.name)
        for name in names:
            ended = _ended(run, name, seen.records.get(name), waits.get(name))
            if ended is not None and name not in chosen:
                chosen[name] = ended
                on_end(ended)
        left = {name: r for name in names if name not in chosen and (r := seen.records.get(name)) is not None}
        queued = [name for name in names if name not in chosen and name in waits]
        alive = {name: r.container_id for name, r in left.items() if not r.state.ended and r.container_id is not None}
        if error is not None and len(chosen) == known:
            # A unit that was removed while we waited is settled above; anything else would be told again and again.
            raise error
        if not alive and not queued:
            unborn = sorted(set(names) - chosen.keys())
            if unborn:
                raise _not_started(run, unborn)
            return {name: chosen[name] for name in names}
        if queued and not is_supervised(session):
            raise _unsupervised(run, queued)
        for handle in set(alive.values()) - watched:
            watched.add(handle)
            threading.Thread(target=one, args=(runtime, handle), daemon=True).start()
        try:
            error = _next(session, run, told, deadline, mark if queued else None)
        except queue.Empty:
            raise _still_running(run, [*alive, *queued], timeout_s or 0.0) from None


def _next(
    session: Session,
    run: Run,
    told: queue.SimpleQueue[MigctlError | None],
    deadline: float | None,
    mark: tuple[int, int] | None,
) -> MigctlError | None:
    """Until a job ends, or (with `mark`) the queue has moved since.

    Raises:
        queue.Empty: the deadline is over.
    """
    while True:
        remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
        if mark is None:
            return told.get(timeout=remaining)
        pause = QUEUE_LOOK_S if remaining is None else min(QUEUE_LOOK_S, remaining)
        try:
            return told.get(timeout=pause)
        except queue.Empty:
            if remaining is not None and remaining <= pause:
                raise
        with session.ledger(write=False) as ledger:
            if ledger.submissions.waits_revision(run.name) != mark or not is_supervised(session):
                return None


def _ended(run: Run, name: str, record: Record | None, wait: Waiting | None) -> Record | None:
    """How the job ended, if it has and is not to be run again; of one that was taken out of the queue, that."""
    if wait is None:
        return record if record is not None and record.state.ended else None
    if wait.state is JobState.QUEUED:
        return None
    return Record(
        run=run.name,
        job=name,
        token="",
        runtime=run.runtime,
        strategy=run.strategy,
        state=wait.state,
        digest="",
        spec="",
        reason=wait.reason,
    )


def _not_started(run: Run, names: Sequence[str]) -> Busy:
    return Busy(
        "not-started",
        f"not started: {', '.join(names)}: an up is at work, or was interrupted",
        where=f"run {run.name}",
        hint="migctl up starts them",
        data={"jobs": list(names)},
    )


def _unsupervised(run: Run, names: Sequence[str]) -> Busy:
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return Busy(
        "not-supervised",
        f"{shown} {'waits' if len(names) == 1 else 'wait'}, and nobody supervises {run.name}",
        where=f"run {run.name}",
        hint=f"migctl resume {run.name}",
        data={"jobs": list(names)},
    )


def _still_running(run: Run, jobs: Iterable[str], timeout_s: float) -> Busy:
    names = sorted(jobs)
    return Busy(
        "wait-timeout",
        f"still running after {timeout_s:g} s: {', '.join(names)}",
        hint=f"they go on; migctl wait {run.name} waits again, migctl stop ends them",
        data={"jobs": names},
    )


def verdict(run: str, records: Mapping[str, Record]) -> JobsFailed | None:
    """What is to be said unless all of them succeeded."""
    bad = [record for record in records.values() if record.state is not JobState.SUCCEEDED]
    if not bad:
        return None
    texts = [f"{r.job} {r.state.value}" + (f" ({r.reason})" if r.reason else "") for r in bad]
    return JobsFailed(
        "jobs-failed",
        f"{len(bad)} of {len(records)} jobs did not succeed: {'; '.join(texts)}",
        where=f"run {run}",
        hint=f"migctl logs {run}/{bad[0].job}",
        data={"jobs": [r.job for r in bad]},
    )


def read_logs(
    session: Session,
    run: Run,
    jobs: Sequence[str],
    *,
    follow: bool,
    tail: int | None,
    timestamps: bool,
    since: float | None,
    cancel: threading.Event,
) -> Iterator[tuple[str, bytes]]:
    """Lines of the jobs' logs with the job's name, as they come; a removed container's from its saved file."""
    seen, runtime = see(session, run)
    with session.ledger(write=False) as ledger:
        folders = {r.job: ledger.folder(r.run, r.job, r.attempt) for r in seen.records.values()}
    lines: queue.Queue[tuple[str, bytes] | MigctlError | None] = queue.Queue(maxsize=1000)
    chosen = [r for n, r in seen.records.items() if not jobs or n in jobs]

    def one(record: Record) -> None:
        try:
            if record.container_id is not None:
                chunks = runtime.logs(record.container_id, follow=follow, tail=tail, timestamps=timestamps, since=since)
            else:
                chunks = read_log(str(folders[record.job] / "log"), tail=tail)
            for line in split_lines(chunks):
                lines.put((record.job, line))
        except MigctlError as error:
            lines.put(error)
        finally:
            lines.put(None)

    for record in chosen:
        threading.Thread(target=one, args=(record,), daemon=True).start()
    open_ends = len(chosen)
    while open_ends and not cancel.is_set():
        try:
            item = lines.get(timeout=0.5)
        except queue.Empty:
            continue
        if item is None:
            open_ends -= 1
        elif isinstance(item, MigctlError):
            raise item
        else:
            yield item


def split_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Whole lines without their newline; what a progress bar rewrites with carriage returns stays in the line."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
    if rest:
        yield rest
