"""Finds and reads the plan file that a command is about."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from migctl.cli.common import Common
from migctl.core.choices import RuntimeName
from migctl.core.cluster.clusters import EngineName
from migctl.errors import PlanError

if TYPE_CHECKING:
    from migctl.core.plan import Plan
    from migctl.core.runs.run import Run
    from migctl.engine.session import Session

STANDARD_INPUT = Path("-")


def one_of(file: Path | None, file_option: Path | None) -> Path | None:
    """The plan file, which may be given by its place or by `-f`.

    Raises:
        PlanError: both are given.
    """
    if file is not None and file_option is not None:
        raise PlanError(
            "usage",
            f"{file} and --file {file_option} are two plan files",
            hint="name one; each plan has a run of its own",
        )
    return file if file is not None else file_option


def load_plan(common: Common, environ: Mapping[str, str], file: Path | None) -> Plan:
    """The plan for this machine, with the command line's runtime in place of its own; `-` is standard input.

    Raises:
        Problems: every mistake of the file.
        PlanError: its jobs are meant for a cluster.
    """
    return for_this_machine(read_plan(common, environ, file))


def for_this_machine(plan: Plan) -> Plan:
    """The plan itself, if the local engine can run it.

    Raises:
        PlanError: its jobs are meant for a cluster.
    """
    if plan.engine is not EngineName.LOCAL:
        raise PlanError(
            "on-a-cluster",
            f"the plan's jobs run on {plan.engine}, and this command is for jobs of this machine",
            where=plan.place("engine"),
            hint="migctl up --dry-run shows what would be handed over; status, logs, wait, stop and down work there",
        )
    return plan


def read_plan(common: Common, environ: Mapping[str, str], file: Path | None, *, engine: str | None = None) -> Plan:
    """The plan, wherever its jobs shall run.

    Args:
        common: its runtime stands in place of the plan's.
        environ: the caller's environment.
        file: `-` is standard input, `None` the plan of this folder.
        engine: stands in place of the plan's; a plan for a cluster may mount what is not on this machine.

    Raises:
        Problems: every mistake of the file.
    """
    from migctl import planfile

    if file == STANDARD_INPUT:
        return planfile.load_stream(sys.stdin.buffer, Path(), environ, runtime=common.runtime, engine=engine)
    path = file if file is not None else planfile.find(Path())
    return planfile.load(path, environ, runtime=common.runtime, engine=engine)


def plan_of(common: Common, session: Session, run: Run) -> Plan:
    """The plan of a run that is there, as it was submitted, in the environment of then; else its file, for the jobs that it has.

    Args:
        session: gets that environment: the file may be another by now, or gone.

    Raises:
        PlanError: it was made on the command line and not submitted.
    """
    with session.ledger(write=False) as ledger:
        there = {record.job for record in ledger.records(run.name)}
        submission = ledger.submissions.submission(run.name)
    if submission is not None:
        session.environ = {**dict(submission.environ), **_own(session.environ)}
        return submission.plan
    if not run.plan_path:
        raise PlanError(
            "no-plan-file",
            f"the run {run.name} was made on the command line, and its environment is recorded nowhere",
            where=f"run {run.name}",
            hint=f"migctl down {run.name}, then the same migctl run again",
        )
    plan = load_plan(replace(common, runtime=RuntimeName(run.runtime)), session.environ, Path(run.plan_path))
    return replace(plan, name=run.name, jobs=tuple(job for job in plan.jobs if job.name in there))


def _own(environ: Mapping[str, str]) -> dict[str, str]:
    """What tells who calls and where everything lies: of this call, not of the one that submitted."""
    return {name: value for name, value in environ.items() if name.startswith(("MIGCTL_", "SUDO_"))}
