"""The command that writes a first plan: init."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from migctl.cli.common import Common
from migctl.cli.parameters import CommandBody, Option
from migctl.core.choices import Strategy


def init(
    common: Common,
    commands: Annotated[
        list[str] | None,
        Option(
            "--command",
            "-c",
            metavar="LINE",
            help="A training's command line, or a script of this folder; may be repeated.",
        ),
    ] = None,
    runs: Annotated[int | None, Option("--runs", least=1, most=1000, help="Runs of each of them.")] = None,
    image: Annotated[str | None, Option("--image", help="In containers of this image.")] = None,
    strategy: Annotated[Strategy | None, Option("--strategy", help="How they share the GPU.")] = None,
    on: Annotated[
        str | None, Option("--on", metavar="BOARD[xN]", help="For a machine with these GPUs instead of this one.")
    ] = None,
    output: Annotated[Path | None, Option("--output", "-o", help="The file; default plan.yaml, - is stdout.")] = None,
    yes: Annotated[bool, Option("--yes", "-y", help="Ask nothing: take what is proposed.")] = False,
    force: Annotated[bool, Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Look at this machine and folder, ask at most four questions, and write a commented plan that runs."""
    from migctl.cli.init import write_first_plan
    from migctl.core.proposing.proposal import Wishes

    wishes = Wishes(commands=tuple(commands or ()), runs=runs, image=image, runtime=common.runtime, strategy=strategy)
    write_first_plan(common, wishes, output, on=on, asking=not yes, replacing=force)


COMMANDS: Mapping[str, CommandBody] = {"init": init}
