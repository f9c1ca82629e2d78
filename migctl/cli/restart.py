"""`restart`: what it asks of the engine and what it prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from migctl.cli.common import Common
from migctl.cli.output import write, write_json
from migctl.cli.progress import Progress
from migctl.cli.signals import cancelling
from migctl.core.words import counted
from migctl.errors import PlanError


def restart_jobs(common: Common, words: Sequence[str], *, grace_s: float | None) -> None:
    """End jobs, and run each again as its next attempt."""
    from migctl.cli.plans import plan_of
    from migctl.cli.up import start
    from migctl.engine.clusters.clusterruns import refuse_cluster
    from migctl.engine.lockwaits import MACHINE_S
    from migctl.engine.restart import put_back
    from migctl.engine.targets import find_jobs
    from migctl.engine.upoptions import UpOptions

    session = common.session()
    with session.ledger(write=False) as ledger:
        target = find_jobs(ledger, words, Path.cwd())
        refuse_cluster(target.run, "restart")
        jobs = target.jobs or tuple(record.job for record in ledger.records(target.run.name))
    name = target.run.name
    if not jobs:
        raise PlanError("not-begun", f"no job of {name} has begun yet", where=f"run {name}", hint="migctl status")
    plan = plan_of(common, session, target.run)
    with (
        Progress(common) as progress,
        cancelling("skipping the rest of the grace period", f"`migctl restart` again goes on; see {name}.") as cancel,
    ):
        anywhere = put_back(session, plan, jobs, grace_s=grace_s, report=progress.event, cancel=cancel)
    quiet = replace(common, quiet=True)
    result = start(quiet if common.json else common, session, plan, UpOptions(jobs=anywhere, wait_for_s=MACHINE_S))
    waits = result.decision.waits
    begun = {job: result.records[job] for job in jobs if job in result.records and job not in waits}
    waiting = [job for job in jobs if job in waits]
    if common.json:
        told = [{"name": job, "attempt": r.attempt, "state": r.state.value} for job, r in begun.items()]
        write_json({"version": 1, "run": name, "restarted": told, "waiting": waiting})
    elif not common.quiet:
        which = ", ".join(f"{job} (attempt {record.attempt})" for job, record in begun.items())
        write(f"{name}: restarted: {which}\n" if begun else "")
        for job in waiting:
            write(f"{name}: {job} waits: {waits[job]}\n")
        others = [job for job in result.started if job not in jobs]
        write(f"{name}: {counted(len(others), 'waiting job')} started as well\n" if others else "")
