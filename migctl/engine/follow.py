"""Wait for jobs and read their logs; changes nothing."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from migctl.core.choices import RuntimeName
from migctl.core.queueing.handing import sole_owners
from migctl.core.runs.observed import Observed
from migctl.core.runs.record import JobState, Record
from migctl.core.runs.run import Run
from migctl.core.runs.settle import settle
from migctl.engine.endings import explain
from migctl.engine.observe import Look, known_gpus
from migctl.engine.queueing.queued import Waiting, is_open, waiting
from migctl.engine.queueing.supervisor import is_supervised
from migctl.engine.session import Session
from migctl.engine.targets import job_names
from migctl.errors import Busy, JobsFailed, MigctlError
from migctl.runtimes.api import Runtime
from migctl.runtimes.bare import with_bare
from migctl.runtimes.logfile import read_log

QUEUE_LOOK_S = 0.5
"""So often it is looked whether the queue has moved, by the time of one file."""
CLOSING_LOOK_S = 0.1
"""So often it is looked whether a supervisor has made up its mind about an end."""
DECISION_S = 30.0
"""One that has not done so by then, as its log cannot be saved, is not waited for."""


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
            supervised = is_open(ledger, run.name) and is_supervised(session)
        open_ends = [
            name
            for name in names
            if name not in chosen and name not in waits and supervised and _may_go_on(seen.records.get(name))
        ]
        for name in names:
            ended = _ended(run, name, seen.records.get(name), waits.get(name)) if name not in open_ends else None
            if ended is not None and name not in chosen:
                chosen[name] = ended
                on_end(ended)
        left = {name: r for name in names if name not in chosen and (r := seen.records.get(name)) is not None}
        queued = [name for name in names if name not in chosen and name in waits]
        alive = {name: r.container_id for name, r in left.items() if not r.state.ended and r.container_id is not None}
        if error is not None and len(chosen) == known:
            # A unit that was removed while we waited is settled above; anything else would be told again and again.
            raise error
        if not alive and not queued and not open_ends:
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
            error = _next(session, run, told, deadline, mark if queued else None, quick=bool(open_ends))
        except queue.Empty:
            raise _still_running(run, [*alive, *queued, *open_ends], timeout_s or 0.0) from None


def _next(
    session: Session,
    run: Run,
    told: queue.SimpleQueue[MigctlError | None],
    deadline: float | None,
    mark: tuple[int, int] | None,
    *,
    quick: bool,
) -> MigctlError | None:
    """Until a job ends, or (with `mark`) the queue has moved since; `quick`: or a moment has passed.

    Raises:
        queue.Empty: the deadline is over.
    """
    while True:
        remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
        if quick and (remaining is None or remaining > CLOSING_LOOK_S):
            with suppress(queue.Empty):
                return told.get(timeout=CLOSING_LOOK_S)
            return None
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


def _may_go_on(record: Record | None) -> bool:
    """Whether the supervisor is about to start the job, or has not yet said whether one that ended is run once more."""
    if record is None:
        return False
    if not record.state.ended:
        return record.container_id is None
    if record.closed or not record.state.unsuccessful:
        return False
    return time.time() - (record.finished_at or 0.0) < DECISION_S


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
    """Lines of the jobs' logs with the job's name, as they come; a removed container's from its saved file.

    Who follows a run that has a queue sees the jobs that start later, and further attempts, too.

    Raises:
        Busy: none of the jobs that are named has begun.
    """
    lines: queue.Queue[tuple[str, bytes] | MigctlError | None] = queue.Queue(maxsize=1000)
    begun: set[tuple[str, int]] = set()

    def fresh() -> list[tuple[str, Iterator[bytes]]]:
        """The logs of what has begun since the last look."""
        seen, runtime = see(session, run)
        found: list[tuple[str, Iterator[bytes]]] = []
        with session.ledger(write=False) as ledger:
            for name, record in seen.records.items():
                if (jobs and name not in jobs) or (name, record.attempt) in begun or not _has_begun(record):
                    continue
                begun.add((name, record.attempt))
                if record.container_id is not None:
                    chunks = runtime.logs(
                        record.container_id, follow=follow, tail=tail, timestamps=timestamps, since=since
                    )
                else:
                    chunks = read_log(str(ledger.folder(run.name, name, record.attempt) / "log"), tail=tail)
                found.append((name, chunks))
        return found

    def one(name: str, chunks: Iterator[bytes]) -> None:
        try:
            for line in split_lines(chunks):
                lines.put((name, line))
        except MigctlError as error:
            lines.put(error)
        finally:
            lines.put(None)

    def more() -> int:
        """Begin to read them; returns how many."""
        found = fresh()
        for log in found:
            threading.Thread(target=one, args=log, daemon=True).start()
        return len(found)

    mark = _mark(session, run) if follow else None
    if not follow:
        logs = fresh()
        if jobs and not logs:
            raise _no_log_yet(jobs)
        for name, chunks in logs:
            for line in split_lines(chunks):
                if cancel.is_set():
                    return
                yield name, line
        return
    open_ends = more()
    if jobs and not open_ends and mark is None:
        raise _no_log_yet(jobs)
    while not cancel.is_set():
        if not open_ends and mark is None:
            # What began since the last look, when the queue was still open.
            open_ends = more()
            if not open_ends:
                return
        try:
            item = lines.get(timeout=QUEUE_LOOK_S)
        except queue.Empty:
            now = _mark(session, run) if mark is not None else None
            if now != mark:
                mark = now
                open_ends += more()
            continue
        if item is None:
            open_ends -= 1
        elif isinstance(item, MigctlError):
            raise item
        else:
            yield item


def _has_begun(record: Record) -> bool:
    return record.container_id is not None or record.state.ended


def _mark(session: Session, run: Run) -> tuple[int, int] | None:
    """What changes when the queue moves; nothing where no job will start any more."""
    with session.ledger(write=False) as ledger:
        if not is_open(ledger, run.name) or not is_supervised(session):
            return None
        return ledger.submissions.waits_revision(run.name) or (0, 0)


def _no_log_yet(jobs: Sequence[str]) -> Busy:
    which = f"{jobs[0]} has" if len(jobs) == 1 else f"{', '.join(jobs)} have"
    return Busy(
        "no-log-yet",
        f"{which} not begun: there is no log yet",
        hint=f"migctl logs -f {jobs[0]} shows it from its start; migctl status says why it waits",
        data={"jobs": list(jobs)},
    )


def split_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Whole lines without their newline; what a progress bar rewrites with carriage returns stays in the line."""
    begun: list[bytes] = []  # joined once: a log without a newline is read in a time that grows with its length only
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        begun.append(first)
        if others:
            yield b"".join(begun)
            yield from others[:-1]
            begun = [others[-1]]
    if rest := b"".join(begun):
        yield rest
