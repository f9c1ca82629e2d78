"""`logs`, `wait` and `exec`: what they ask of the engine and what they print."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from migctl.cli.common import Common
from migctl.cli.output import write_end, write_json, write_log, write_result
from migctl.cli.signals import detaching
from migctl.core.runs.record import Record
from migctl.errors import PlanError

_AGO = re.compile(r"^(\d+(?:\.\d+)?)(s|m|h|d)$")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def show_logs(
    common: Common, words: Sequence[str], *, follow: bool, tail: int | None, since: str | None, timestamps: bool
) -> None:
    """Print the jobs' output; one job's bytes as they are, several with their names."""
    from migctl.engine import follow as runs
    from migctl.engine import past
    from migctl.engine.clusters import clusterruns
    from migctl.engine.targets import job_names

    if follow and common.json:
        raise PlanError(
            "usage",
            "--follow shows lines as they come, --json one object",
            hint="migctl logs --json, or migctl logs --follow",
        )
    session = common.session()
    with session.ledger(write=False) as ledger:
        target = past.find_logs(ledger, words, Path.cwd())
        run, on_cluster = target.run, clusterruns.on_cluster(target.run)
        follow = follow and run.ended_at is None
        begun = tuple(record.job for record in ledger.records(run.name)) or past.past_jobs(ledger, run)
        names = target.jobs or (job_names(ledger, run.name) if follow or on_cluster else begun)
    after = since_time(since, time.time()) if since else None
    with detaching(f"migctl stop {run.name} ends them") as cancel:
        if run.ended_at is not None and not on_cluster:
            lines = past.read_logs(session, run, target.jobs, tail=tail, since=after)
        else:
            lines = (clusterruns if on_cluster else runs).read_logs(
                session,
                run,
                target.jobs,
                follow=follow,
                tail=tail,
                timestamps=timestamps,
                since=after,
                cancel=cancel,
            )
        if common.json:
            write_json(_logs_json(run.name, names, lines))
        else:
            write_log(lines, names)


def _logs_json(run: str, names: Sequence[str], lines: Iterable[tuple[str, bytes]]) -> dict[str, object]:
    """`logs --json`: the lines of each job; bytes that are no UTF-8 are replaced."""
    said: dict[str, list[str]] = {name: [] for name in names}
    for job, line in lines:
        said[job].append(line.decode("utf-8", "replace"))
    return {"version": 1, "run": run, "jobs": [{"name": name, "lines": said[name]} for name in names]}


def since_time(text: str, now: float) -> float:
    """Unix seconds of `10m` (ago) or an ISO date.

    Raises:
        PlanError: it is neither.
    """
    ago = _AGO.match(text)
    if ago:
        return now - float(ago[1]) * _SECONDS[ago[2]]
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise PlanError("usage", f"--since {text!r} is no time", hint="write 10m, 2h or 2026-11-30T08:00") from None


def wait_for(common: Common, words: Sequence[str], *, timeout_s: float | None) -> None:
    """Wait, name each job as it ends, and fail when one failed."""
    from migctl.engine import follow
    from migctl.engine.clusters import clusterruns
    from migctl.engine.targets import find_jobs

    session = common.session()
    with session.ledger(write=False) as ledger:
        target = find_jobs(ledger, words, Path.cwd())
    run = target.run

    def ended(record: Record) -> None:
        if not common.json and not common.quiet:
            write_end(record)

    with detaching(f"migctl stop {run.name} ends them"):
        wait = clusterruns.wait if clusterruns.on_cluster(run) else follow.wait
        records = wait(session, run, target.jobs, timeout_s=timeout_s, on_end=ended)
    failed = follow.verdict(run.name, records)
    if common.json:
        jobs = [{"name": r.job, "state": r.state.value, "exit_code": r.exit_code} for r in records.values()]
        write_result({"version": 1, "run": run.name, "jobs": jobs}, failed)
    elif failed is not None:
        raise failed


def run_beside(common: Common, word: str, command: Sequence[str]) -> None:
    """Run a command beside a job and leave with its exit code."""
    from migctl.engine.clusters.clusterruns import refuse_cluster
    from migctl.engine.follow import see
    from migctl.engine.targets import find_jobs

    session = common.session()
    with session.ledger(write=False) as ledger:
        target = find_jobs(ledger, [word], Path.cwd())
    refuse_cluster(target.run, "exec")
    seen, runtime = see(session, target.run)
    if len(target.jobs) != 1:
        raise PlanError("usage", f"{word} is a run; exec needs one job", hint=f"migctl exec {word}/JOB")
    record = seen.records[target.jobs[0]]
    if record.state.value != "running" or record.container_id is None:
        raise PlanError(
            "not-running", f"{record.job} does not run: it is {record.state.value}", hint=f"migctl logs {record.job}"
        )
    code = runtime.exec(record.container_id, command or ["sh"], tty=sys.stdin.isatty() and sys.stdout.isatty())
    sys.exit(code)
