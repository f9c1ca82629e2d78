"""The commands that take up again what a restart or a loss left: resume, adopt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from migctl.cli.common import Common
from migctl.cli.parameters import Argument, CommandBody, Option
from migctl.cli.run_commands import WaitFor

Run = Annotated[str | None, Argument(metavar="RUN", help="A run's name or its plan file.")]


def resume(
    common: Common,
    run: Run = None,
    failed: Annotated[bool, Option("--failed", help="Failed and stopped jobs too, not only lost ones.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Say what would be done, and change nothing.")] = False,
    enable_mig: Annotated[
        bool, Option("--enable-mig", help="Turn MIG mode on where the restart turned it off (idle GPUs only).")
    ] = False,
    wait_for: WaitFor = 0.0,
) -> None:
    """Bring back what a crash or a reboot took of a run: instances, and jobs that had not finished."""
    from migctl.cli.recovery import resume_run

    resume_run(common, run, failed=failed, dry_run=dry_run, enable_mig=enable_mig, wait_for_s=wait_for)


def adopt(
    common: Common,
    run: Annotated[str | None, Argument(metavar="RUN", help="Only this run's leftovers.")] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Say what would become yours again, and change nothing.")
    ] = False,
) -> None:
    """Make your own leftovers yours again after the records were lost: containers, processes, and their GPU instances."""
    from migctl.cli.recovery import adopt_leftovers

    adopt_leftovers(common, run, dry_run=dry_run)


COMMANDS: Mapping[str, CommandBody] = {"resume": resume, "adopt": adopt}
