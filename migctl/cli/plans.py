"""Finds and reads the plan file that a command is about."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from migctl.cli.common import Common
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
    """The plan, with the command line's runtime in place of its own; `-` is standard input.

    Raises:
        Problems: every mistake of the file.
    """
    from migctl import planfile

    if file == STANDARD_INPUT:
        return planfile.load_stream(sys.stdin.buffer, Path(), environ, runtime=common.runtime)
    path = file if file is not None else planfile.find(Path())
    return planfile.load(path, environ, runtime=common.runtime)
