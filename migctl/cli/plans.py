"""Finds and reads the plan file that a command is about."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from migctl.cli.common import Common
from migctl.core.clusters import EngineName
from migctl.errors import PlanError

if TYPE_CHECKING:
    from migctl.core.plan import Plan

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
    plan = read_plan(common, environ, file)
    if plan.engine is not EngineName.LOCAL:
        raise PlanError(
            "not-available-yet",
            f"engine: {plan.engine} is not available yet",
            where=plan.place("engine"),
            hint=f"migctl export {plan.engine} writes what the cluster takes",
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
