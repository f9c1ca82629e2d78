"""The commands that only look: check, plan, status."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from migctl.cli.common import Common
from migctl.cli.parameters import MOST_CORES, Argument, CommandBody, Option
from migctl.cli.run_commands import PlanFile, PlanOption


def check(common: Common, file: PlanFile = None, file_option: PlanOption = None) -> None:
    """Test every precondition of `up`, and say the next step for each that is missing."""
    from migctl.cli.look import show_check
    from migctl.cli.plans import one_of

    show_check(common, one_of(file, file_option))


def plan(
    common: Common,
    file: PlanFile = None,
    file_option: PlanOption = None,
    on: Annotated[
        str | None, Option("--on", metavar="BOARD[xN]", help="Plan for this board instead of this machine.")
    ] = None,
    cores: Annotated[
        int | None,
        Option("--cores", least=1, most=MOST_CORES, help="Plan for so many physical cores instead of this machine's."),
    ] = None,
    root: Annotated[
        Path | None, Option("--root", metavar="DIR", help="Read /sys and /proc topology below DIR.")
    ] = None,
    everything: Annotated[bool, Option("--all", help="List every job instead of folding equal ones.")] = False,
) -> None:
    """Show who would get what: placements, cores, workers, what is idle and what could be added."""
    from migctl.cli.look import show_plan
    from migctl.cli.plans import one_of

    show_plan(common, one_of(file, file_option), on=on, cores=cores, root=root, everything=everything)


def status(
    common: Common,
    run: Annotated[str | None, Argument(metavar="RUN", help="A run's name or its plan file; default: all.")] = None,
    watch: Annotated[
        bool, Option("--watch", help="Go on: every core, GPU and job in one picture, until q or Ctrl-C.")
    ] = False,
    check_drift: Annotated[bool, Option("--check", help="Exit 7 where reality differs from the records.")] = False,
    everything: Annotated[
        bool, Option("--all", help="Ended runs too, and every job instead of folding equal ones.")
    ] = False,
) -> None:
    """Show runs, jobs, instances and cores, whose they are and how they do."""
    from migctl.cli.look import show_status

    show_status(common, run, check_drift=check_drift, everything=everything, watch=watch)


COMMANDS: Mapping[str, CommandBody] = {"check": check, "plan": plan, "status": status, "ps": status}
