"""Wait for jobs and read their logs; changes nothing."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from migctl.core.choices import RuntimeName
from migctl.core.record import Record
from migctl.core.run import Run
from migctl.engine.observe import Look, look
from migctl.engine.session import Session
from migctl.errors import Busy, JobsFailed
from migctl.runtimes.api import Runtime


def see(session: Session, run: Run) -> tuple[Look, Runtime]:
    """The run as it is now."""
    ledger = session.ledger(write=False)
    runtime = session.runtime(RuntimeName(run.runtime))
    with session.driver() as driver:
        return look(session, driver, runtime, ledger, run.name), runtime


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
        Busy: not within `timeout_s` seconds; the jobs go on.
    """
    seen, runtime = see(session, run)
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    chosen = {n: r for n, r in seen.records.items() if not jobs or n in jobs}
    ended: queue.SimpleQueue[str] = queue.SimpleQueue()
    running = [r for r in chosen.values() if not r.state.ended and r.container_id is not None]
    for record in chosen.values():
        if record.state.ended:
            on_end(record)

    def one(record: Record) -> None:
        runtime.wait(record.container_id or "", timeout_s)
        ended.put(record.job)

    for record in running:
        threading.Thread(target=one, args=(record,), daemon=True).start()
    left = {record.job for record in running}
    while left:
        remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            left.discard(ended.get(timeout=remaining))
        except queue.Empty:
            raise Busy(
                "wait-timeout",
                f"still running after {timeout_s:g} s: {', '.join(sorted(left))}",
                hint=f"they go on; migctl wait {run.name} waits again, migctl stop ends them",
                data={"jobs": sorted(left)},
            ) from None
        fresh, _ = see(session, run)
        for name in [
            n for n, r in fresh.records.items() if n in chosen and r.state.ended and not chosen[n].state.ended
        ]:
            chosen[name] = fresh.records[name]
            on_end(chosen[name])
            left.discard(name)
    return chosen


def verdict(run: str, records: Mapping[str, Record]) -> None:
    """Raise JobsFailed unless all of them succeeded."""
    bad = [record for record in records.values() if record.state.ended and record.state.value != "succeeded"]
    if not bad:
        return
    texts = [f"{r.job} {r.state.value}" + (f" ({r.reason})" if r.reason else "") for r in bad]
    raise JobsFailed(
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
    ledger = session.ledger(write=False)
    lines: queue.Queue[tuple[str, bytes] | None] = queue.Queue(maxsize=1000)
    chosen = [r for n, r in seen.records.items() if not jobs or n in jobs]

    def one(record: Record) -> None:
        try:
            if record.container_id is not None:
                chunks = runtime.logs(record.container_id, follow=follow, tail=tail, timestamps=timestamps, since=since)
            else:
                chunks = saved(ledger.folder(record.run, record.job, record.attempt) / "log", tail)
            for line in split_lines(chunks):
                lines.put((record.job, line))
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
        else:
            yield item


def saved(path: Path, tail: int | None) -> Iterator[bytes]:
    """A saved log's bytes; nothing where none was saved."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    if tail is not None:
        data = b"".join(data.splitlines(keepends=True)[-tail:] if tail else [])
    yield data


def split_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Whole lines without their newline; what a progress bar rewrites with carriage returns stays in the line."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
    if rest:
        yield rest
