"""The command line as Typer knows it: help, completion, and what to say about a line that is wrong."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer._click.exceptions import ClickException

from migctl import __version__
from migctl.cli.commands import COMMANDS, HIDDEN
from migctl.cli.common import Common
from migctl.cli.parameters import Argument, CommandBody, Parameter, parameters, values_of
from migctl.errors import PlanError


def application(only: str | None = None) -> typer.Typer:
    """The command line; with `only`, just that command of it.

    Typer builds a validator for every parameter of every command it knows, which costs more than most commands do.
    """
    app = typer.Typer(
        name="migctl",
        help="Run several deep-learning trainings on one NVIDIA machine: GPU instances (MIG), CPU cores and loader "
        "workers from one plan file.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        add_completion=only is None,
    )
    app.callback()(_root)
    for name, command in COMMANDS.items():
        if only in (None, name) or only not in COMMANDS:
            app.command(name, hidden=name in HIDDEN)(_for_typer(command))
    return app


def call(words: Sequence[str]) -> int:
    """Run the line through Typer.

    Raises:
        PlanError: the line is wrong.
        KeyboardInterrupt: Ctrl-C.
    """
    # A completion script asks about every command; it calls without arguments.
    first = words[0] if words and not words[0].startswith("-") else None
    app = application(only=first)
    try:
        result = app(list(words), prog_name="migctl", standalone_mode=False)
    except ClickException as error:
        command = f"migctl {first}" if first in COMMANDS else "migctl"
        raise PlanError("usage", error.format_message(), hint=f"{command} --help") from None
    except typer.Abort:
        raise KeyboardInterrupt from None
    return result if isinstance(result, int) else 0


def _root(
    version: bool = typer.Option(False, "--version", "-V", help="Print the version and exit.", is_eager=True),
) -> None:
    if version:
        typer.echo(f"migctl {__version__}")
        raise typer.Exit


def _for_typer(command: CommandBody) -> CommandBody:
    """The command with a signature that Typer reads: its own parameters, then the common ones."""
    taken = [signed(parameter) for parameter in (*parameters(command), *parameters(Common))]

    @functools.wraps(command)
    def wrapper(**given: Any) -> None:  # noqa: ANN401 -- typer has checked them against the signature
        common, own = values_of(Common, given)
        command(common, **own)

    wrapper.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]  # read by typer
    wrapper.__annotations__ = {p.name: p.annotation for p in taken}
    return wrapper


def signed(parameter: Parameter) -> inspect.Parameter:
    """The parameter as Typer reads it from a signature."""
    declared = parameter.declared
    told = (
        typer.Argument(metavar=declared.metavar, help=declared.help)
        if isinstance(declared, Argument)
        else typer.Option(*declared.names, metavar=declared.metavar, help=declared.help)
    )
    return inspect.Parameter(
        parameter.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if parameter.required else parameter.default,
        annotation=Annotated[parameter.annotation, told],
    )
