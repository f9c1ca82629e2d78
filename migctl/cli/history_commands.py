"""The commands that look back: history, rm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from migctl.cli.common import Common
from migctl.cli.parameters import Argument, CommandBody, Option


def history(
    common: Common,
    run: Annotated[
        str | None, Argument(metavar="RUN", help="A run, living or ended, with all its attempts; default: all runs.")
    ] = None,
    prune: Annotated[bool, Option("--prune", help="Forget every ended run and remove its logs.")] = False,
) -> None:
    """List past runs, and every attempt of their jobs: when, and how it ended."""
    from migctl.cli.history import show_history

    show_history(common, run, prune=prune)


def rm(
    common: Common,
    run: Annotated[str, Argument(metavar="RUN", help="An ended run's name or its plan file.")],
) -> None:
    """Forget an ended run, and remove its logs."""
    from migctl.cli.history import forget_run

    forget_run(common, run)


COMMANDS: Mapping[str, CommandBody] = {"history": history, "rm": rm}
