"""The command line as Typer knows it: help, completion, and what to say about a line that is wrong."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Sequence
from enum import Enum
from typing import Annotated, Any

import typer
import typer.core
from typer._click.exceptions import ClickException, NoArgsIsHelpError

from migctl import __version__
from migctl.cli.commands import COMMANDS, HIDDEN
from migctl.cli.common import Common
from migctl.cli.completion import ASKED, command_on_line, completer
from migctl.cli.output import write_json
from migctl.cli.parameters import (
    Argument,
    CommandBody,
    Option,
    Parameter,
    WrongValue,
    parameters,
    placeholder,
    value,
    values_of,
)
from migctl.errors import PlanError

_VERSION = frozenset({"--version", "-V"})


def application(only: str | None = None, *, completing: bool = False) -> typer.Typer:
    """The command line; with `only`, just that command of it, which for a shell that asks is completed too.

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
        add_completion=completing or only is None,
    )
    app.callback()(_root)
    for name, command in COMMANDS.items():
        if only in (None, name) or only not in COMMANDS:
            # Without `short_help` the list of commands cuts each sentence at the terminal's edge instead of wrapping it.
            told = inspect.getdoc(command)
            app.command(name, cls=_Command, hidden=name in HIDDEN, short_help=told)(_for_typer(command))
    return app


class _Command(typer.core.TyperCommand):
    """A command in whose help an argument is called what it is called, without Python's type behind it (Typer 0.27 and later)."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 -- click's own types, under a private name of Typer's
        found = list(super().get_params(ctx))
        for parameter in found:
            if isinstance(parameter, typer.core.TyperArgument):
                vars(parameter)["display_type_rich"] = _no_type
        return found


def _no_type(**_: object) -> None:
    """Nothing."""


def call(words: Sequence[str]) -> int:
    """Run the line through Typer.

    Raises:
        PlanError: the line is wrong.
        KeyboardInterrupt: Ctrl-C.
    """
    if _VERSION & set(words) and set(words) <= {*_VERSION, "--json"} and "--json" in words:
        write_json({"version": 1, "migctl": __version__})
        return 0
    _check_order(words)
    first = words[0] if words and not words[0].startswith("-") else None
    # A shell that completes calls without arguments.
    completing = not words and ASKED in os.environ
    app = application(only=command_on_line(os.environ) if completing else first, completing=completing)
    try:
        result = app(list(words), prog_name="migctl", standalone_mode=False)
    except NoArgsIsHelpError as error:
        # As git and docker do: the help itself, and the exit code of a line that asked for nothing.
        sys.stderr.write(error.format_message() + "\n")
        return PlanError.exit_code
    except (ClickException, WrongValue) as error:
        message = error.format_message() if isinstance(error, ClickException) else str(error)
        command = f"migctl {first}" if first in COMMANDS else "migctl"
        raise PlanError("usage", message, hint=f"{command} --help") from None
    except typer.Abort:
        raise KeyboardInterrupt from None
    return result if isinstance(result, int) else 0


def _check_order(words: Sequence[str]) -> None:
    """Options of every command stand behind it, unlike some of git's and docker's."""
    first, _, _ = words[0].partition("=") if words else ("", "", "")
    if any(first in p.declared.names for p in parameters(Common) if isinstance(p.declared, Option)):
        raise PlanError(
            "usage", f"{first} is an option of the commands and stands behind them", hint=f"migctl COMMAND {words[0]}"
        )


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
    reading: dict[str, Any] = {} if parameter.kind is bool else {"parser": functools.partial(_read, parameter)}
    told = (
        typer.Argument(metavar=declared.metavar, help=declared.help, autocompletion=completer(parameter), **reading)
        if isinstance(declared, Argument)
        else typer.Option(
            *declared.names,
            metavar=placeholder(parameter),
            help=declared.help,
            show_default=bool(parameter.default),
            autocompletion=completer(parameter),
            **reading,
        )
    )
    return inspect.Parameter(
        parameter.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if parameter.required else parameter.default,
        # The words of an enumeration are in its metavar; as an annotation it makes Typer list them again in its messages.
        annotation=Annotated[str | None if issubclass(parameter.kind, Enum) else parameter.annotation, told],
    )


def _read(parameter: Parameter, word: object) -> object:
    """As the quick reader does; a default comes as it is."""
    return value(parameter, word) if isinstance(word, str) else word
