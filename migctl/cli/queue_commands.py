"""The commands for what waits: hold, release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from migctl.cli.common import Common
from migctl.cli.parameters import Argument, CommandBody

Jobs = Annotated[
    list[str] | None, Argument(metavar="RUN or JOB", help="A run, or waiting jobs of one; default: the run.")
]


def hold(common: Common, jobs: Jobs = None) -> None:
    """Start nothing more of a run, or none of these jobs; what runs goes on."""
    from migctl.cli.queue import change

    change(common, jobs or [], holding=True)


def release(common: Common, jobs: Jobs = None) -> None:
    """Undo hold; also after a failure or a restart that held the run."""
    from migctl.cli.queue import change

    change(common, jobs or [], holding=False)


COMMANDS: Mapping[str, CommandBody] = {"hold": hold, "release": release}
