"""`down` and `stop`: what they ask of the engine and what they print."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from migctl.cli.common import Common
from migctl.cli.progress import Progress
from migctl.cli.signals import cancelling
from migctl.core.words import counted
from migctl.errors import MigctlError, PlanError, Problems


def take_down(
    common: Common, word: str | None, *, everything: bool, grace_s: float | None, wait_for_s: float = 0.0
) -> None:
    """End and remove one run, or all of them."""
    from migctl.engine import down
    from migctl.engine.clusters import clusterruns
    from migctl.engine.targets import find_run
    from migctl.render.errors_text import notice_lines

    if everything and word is not None:
        raise PlanError("usage", "--all contradicts a run's name")
    session = common.session()
    with session.ledger(write=False) as ledger:
        known = ledger.runs()
        every = everything or (word is None and not known)
        runs = known if every else (find_run(ledger, word, Path.cwd()),)
    results: list[down.DownResult] = []
    problems: list[MigctlError] = []
    with Progress(common) as progress:
        for run in runs:
            name = run.name
            again = f"`migctl down {name}` goes on there."
            with cancelling("skipping the rest of the grace period; Ctrl-C again stops at once", again) as cancel:
                try:
                    if clusterruns.on_cluster(run):
                        gone = clusterruns.take_down(session, run, grace_s=grace_s, cancel=cancel)
                        results.append(down.DownResult(run=name, removed=gone))
                        continue
                    results.append(
                        down.take_down(
                            session,
                            name,
                            grace_s=grace_s,
                            report=progress.event,
                            cancel=cancel,
                            wait_for_s=wait_for_s,
                        )
                    )
                except MigctlError as error:
                    if len(runs) == 1:
                        raise
                    problems.append(error)
    if problems:
        raise Problems(problems)
    if common.json:
        value = {"version": 1, "runs": [{"name": r.run, "removed": list(r.removed)} for r in results]}
        sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")
        return
    if not common.quiet:
        for result in results:
            jobs = counted(len(result.removed), "job")
            sys.stdout.write(f"{result.run}: {jobs} removed, nothing of it is left\n")
        for line in notice_lines(list(dict.fromkeys(n for r in results for n in r.notices)), common.style()):
            sys.stdout.write(f"{line}\n")
        if not results:
            sys.stdout.write("no run is recorded: nothing to remove\n")


def stop_jobs(common: Common, words: list[str], *, grace_s: float | None) -> None:
    """End jobs and keep everything else of them."""
    from migctl.engine import down
    from migctl.engine.clusters import clusterruns
    from migctl.engine.targets import find_jobs, job_names

    session = common.session()
    with session.ledger(write=False) as ledger:
        target = find_jobs(ledger, words, Path.cwd())
        jobs = target.jobs or job_names(ledger, target.run.name)
    with (
        Progress(common) as progress,
        cancelling("skipping the rest of the grace period", "`migctl stop` again") as cancel,
    ):
        if clusterruns.on_cluster(target.run):
            stopped = clusterruns.stop_jobs(session, target.run, jobs, grace_s=grace_s, cancel=cancel)
        else:
            stopped = down.stop_jobs(
                session, target.run.name, jobs, grace_s=grace_s, report=progress.event, cancel=cancel
            )
    if common.json:
        sys.stdout.write(json.dumps({"version": 1, "run": target.run.name, "stopped": list(stopped)}, indent=2) + "\n")
    elif not common.quiet:
        sys.stdout.write(f"stopped: {', '.join(stopped)}\n" if stopped else "none of them was running or waiting\n")
