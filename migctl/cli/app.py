"""The command line: one Typer application, and the one place where errors become text and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence

import typer
from typer._click.exceptions import ClickException

from migctl import __version__
from migctl.cli import inspect_commands, job_commands, run_commands, table_commands
from migctl.cli.common import with_common
from migctl.cli.errors import print_error, report_bug
from migctl.errors import MigctlError, PlanError

COMMANDS: Mapping[str, Callable[..., None]] = {
    **run_commands.COMMANDS,
    **inspect_commands.COMMANDS,
    **job_commands.COMMANDS,
    **table_commands.COMMANDS,
}
HIDDEN = frozenset({"ps"})
"""Other names of commands, for the fingers of those who use `docker`."""


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
            app.command(name, hidden=name in HIDDEN)(with_common(command))
    return app


def _root(
    version: bool = typer.Option(False, "--version", "-V", help="Print the version and exit.", is_eager=True),
) -> None:
    if version:
        typer.echo(f"migctl {__version__}")
        raise typer.Exit


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; nothing but a bug of ours leaves as a traceback."""
    as_json = "--json" in arguments
    # A completion script asks about every command; it calls without arguments.
    first = arguments[0] if arguments and not arguments[0].startswith("-") else None
    app = application(only=first)
    try:
        result = app(list(arguments), prog_name="migctl", standalone_mode=False)
    except MigctlError as error:
        print_error(error, as_json=as_json)
        return error.exit_code
    except ClickException as error:
        problem = PlanError("usage", error.format_message(), hint=f"{_command(app, arguments)} --help")
        print_error(problem, as_json=as_json)
        return problem.exit_code
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("interrupted\n")
        return 130
    except BrokenPipeError:
        # The reader (head, less) has gone: nothing more to say, and no message while Python flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001 -- whatever else it is, it is a bug of ours and is reported as one
        report_bug(error, as_json=as_json)
        return 1
    return result if isinstance(result, int) else 0


def _command(app: typer.Typer, arguments: Sequence[str]) -> str:
    first = next((word for word in arguments if not word.startswith("-")), "")
    known = {command.name for command in app.registered_commands}
    return f"migctl {first}" if first in known else "migctl"
