"""Finds and reads the plan file that a command is about."""

from __future__ import annotations

from pathlib import Path

from migctl.cli.common import Common
from migctl.core.plan import Plan
from migctl.engine.session import Session


def load_plan(common: Common, session: Session, file: Path | None) -> Plan:
    """The plan, with the command line's runtime in place of its own.

    Raises:
        Problems: every mistake of the file.
    """
    from migctl import planfile

    path = file if file is not None else planfile.find(Path())
    return planfile.load(path, session.environ, runtime=common.runtime)
