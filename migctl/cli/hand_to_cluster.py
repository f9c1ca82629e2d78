"""`up` for a plan whose jobs run on a cluster: what it asks of the engine and what it prints."""

from __future__ import annotations

import sys

from migctl.cli.common import Common
from migctl.cli.output import write, write_end, write_json, write_log, write_result
from migctl.cli.signals import cancelling, detaching
from migctl.core.plan import Plan
from migctl.core.runs.record import Record
from migctl.core.runs.run import Run
from migctl.engine.clusters.clusteradvance import advancing
from migctl.engine.clusters.clusterup import hand_over as give
from migctl.engine.clusters.clusterup import preview
from migctl.engine.session import Session
from migctl.engine.upoptions import UpOptions
from migctl.errors import PlanError
from migctl.render.cluster_text import handed_json, handed_text


def hand_over(
    common: Common, session: Session, plan: Plan, options: UpOptions, *, dry_run: bool, wait: bool, attach: bool
) -> None:
    """Hand the jobs over, say what came of it, and wait or attach where asked."""
    if attach and common.json:
        raise PlanError("usage", "--attach shows logs, --json one object", hint="migctl up --wait --json")
    if dry_run:
        show(common, session, plan, options)
        return

    def report(text: str) -> None:
        if common.verbose and not common.json:
            sys.stderr.write(f"{text}\n")

    again = f"`migctl down {plan.name}` ends what was handed over."
    with cancelling("taking back what was handed over; Ctrl-C again stops at once", again) as cancel:
        result = give(session, plan, options, report, cancel)
    staying = wait or attach
    if common.json and not staying:
        write_json(handed_json(result.run, result.cluster, result.choice, result.notices, begun=result.begun))
    elif not common.json:
        text = handed_text(
            result.run,
            result.cluster,
            result.turns,
            result.choice,
            result.notices,
            common.style(),
            quiet=common.quiet,
            begun=result.begun,
        )
        write(text)
    if not staying:
        return
    with advancing(session, result.run):
        if attach:
            _attach(session, result.run)
        _stay(common, session, result.run)


def show(common: Common, session: Session, plan: Plan, options: UpOptions) -> None:
    """What would be handed over; nothing is changed."""
    result = preview(session, plan, options)
    if common.json:
        write_json(handed_json(result.run, result.cluster, result.choice, result.notices, would=True))
        return
    write(
        handed_text(
            result.run,
            result.cluster,
            result.turns,
            result.choice,
            result.notices,
            common.style(),
            quiet=common.quiet,
            would=True,
        )
    )


def _attach(session: Session, run: Run) -> None:
    from migctl.engine.clusters.clusterruns import read_logs
    from migctl.engine.targets import job_names

    with session.ledger(write=False) as ledger:
        names = job_names(ledger, run.name)
    with detaching(f"migctl stop {run.name} ends them") as cancel:
        lines = read_logs(session, run, (), follow=True, tail=None, timestamps=False, since=None, cancel=cancel)
        write_log(lines, names)


def _stay(common: Common, session: Session, run: Run) -> None:
    """Until all jobs have ended; exit 8 when one did not succeed."""
    from migctl.engine.clusters.clusterruns import wait
    from migctl.engine.follow import verdict

    def ended(record: Record) -> None:
        if not common.json and not common.quiet:
            write_end(record)

    with detaching(f"migctl stop {run.name} ends them"):
        records = wait(session, run, (), timeout_s=None, on_end=ended)
    failed = verdict(run.name, records)
    if common.json:
        from migctl.engine.status import status
        from migctl.render.json_status import status_json

        write_result(status_json(status(session, [run.name])), failed)
    elif failed is not None:
        raise failed
