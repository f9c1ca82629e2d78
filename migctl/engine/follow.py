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
from migctl.engine.session import Session
from migctl.errors import Busy, JobsFailed, MigctlError
from migctl.runtimes.api import Runtime
from migctl.runtimes.bare import with_bare
from migctl.runtimes.logfile import read_log


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
    seen, runtime = see(session, run)
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    chosen = {n: r for n, r in seen.records.items() if not jobs or n in jobs}
    told: queue.SimpleQueue[MigctlError | None] = queue.SimpleQueue()
    for record in chosen.values():
        if record.state.ended:
            on_end(record)

    def one(handle: str) -> None:
        try:
            if runtime.wait(handle, timeout_s) is not None:
                told.put(None)
        except MigctlError as error:
            told.put(error)

    left = {name: r.container_id for name, r in chosen.items() if not r.state.ended and r.container_id is not None}
    for handle in left.values():
        threading.Thread(target=one, args=(handle,), daemon=True).start()
    while left:
        remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            error = told.get(timeout=remaining)
        except queue.Empty:
            raise _still_running(run, left, timeout_s or 0.0) from None
        fresh, _ = see(session, run)
        ended = [name for name in left if fresh.records[name].state.ended]
        if error is not None and not ended:
            # A unit that was removed while we waited is settled above; anything else would be told again and again.
            raise error
        for name in ended:
            chosen[name] = fresh.records[name]
            on_end(chosen[name])
            del left[name]
    unborn = sorted(name for name, record in chosen.items() if not record.state.ended)
    if unborn:
        raise Busy(
            "not-started",
            f"not started: {', '.join(unborn)}: an up is at work, or was interrupted",
            where=f"run {run.name}",
            hint="migctl up starts them",
            data={"jobs": unborn},
        )
    return chosen


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
