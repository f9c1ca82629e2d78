"""`up`: what it asks of the engine and what it prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from migctl.cli.common import Common
from migctl.cli.output import write, write_end, write_json, write_log, write_result
from migctl.cli.progress import Progress
from migctl.cli.signals import cancelling, detaching
from migctl.core.plan import Plan
from migctl.core.runs.record import Record
from migctl.engine.converge import UpResult, converge, preview
from migctl.engine.session import Session
from migctl.engine.upoptions import UpOptions
from migctl.errors import PlanError


def bring_up(
    common: Common,
    session: Session,
    plan: Plan,
    options: UpOptions,
    *,
    dry_run: bool,
    wait: bool,
    attach: bool,
    next_steps: Sequence[str] = (),
) -> None:
    """Converge, say what came of it and what to type next, and wait or attach where asked."""
    if attach and common.json:
        raise PlanError("usage", "--attach shows logs, --json one object", hint="migctl up --wait --json")
    if dry_run:
        _show_steps(common, session, plan, options)
        return
    if session.root != Path("/"):
        raise PlanError(
            "other-root",
            "MIGCTL_ROOT points to another machine's tree: only plans can be made for it",
            hint="migctl up --dry-run, or unset MIGCTL_ROOT",
        )
    result = start(common, session, plan, options)
    if common.json and not (wait or attach):
        from migctl.render.up_text import up_json

        write_json(up_json(result.view))
    elif not common.json:
        from migctl.render.up_text import up_text

        style = common.style()
        write(up_text(result.view, style, simulated=session.nvml, quiet=common.quiet, next_steps=next_steps))
    if attach:
        _attach(session, result)
    if wait or attach:
        stay(common, session, result)


def start(common: Common, session: Session, plan: Plan, options: UpOptions) -> UpResult:
    """Converge with progress and signals."""
    again = f"`migctl down {plan.name}` removes what was made, `migctl up` goes on."
    with (
        Progress(common, total=len(plan.jobs)) as progress,
        cancelling("undoing what was made; Ctrl-C again stops at once", again) as cancel,
    ):
        return converge(session, plan, options, progress.event, cancel)


def stay(common: Common, session: Session, result: UpResult) -> None:
    """Until all jobs have ended; exit 8 when one did not succeed."""
    from migctl.engine.follow import verdict, wait

    def ended(record: Record) -> None:
        if not common.json and not common.quiet:
            write_end(record)

    with detaching(f"migctl stop {result.run.name} ends them"):
        records = wait(session, result.run, (), timeout_s=None, on_end=ended)
    failed = verdict(result.run.name, records)
    if common.json:
        from migctl.engine.status import status
        from migctl.render.json_status import status_json

        write_result(status_json(status(session, [result.run.name])), failed)
    elif failed is not None:
        raise failed


def _attach(session: Session, result: UpResult) -> None:
    from migctl.engine.follow import read_logs

    with detaching(f"migctl stop {result.run.name} ends them") as cancel:
        lines = read_logs(session, result.run, (), follow=True, tail=None, timestamps=False, since=None, cancel=cancel)
        write_log(lines, {*result.records, *result.decision.waits})


def _show_steps(common: Common, session: Session, plan: Plan, options: UpOptions) -> None:
    from migctl.engine.planning import steps_in_words

    decision = preview(session, plan, options)
    steps = list(steps_in_words(decision))
    if common.json:
        write_json({"version": 1, "run": plan.name, "steps": steps})
        return
    lines = steps or ["nothing: everything in the plan is there already"]
    write("".join(f"would do  {line}\n" for line in lines))
