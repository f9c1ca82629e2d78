"""The command line: one Typer application, and the one place where errors become text and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer
from typer._click.exceptions import ClickException

from migctl import __version__
from migctl.cli import inspect_commands, job_commands, run_commands, table_commands
from migctl.cli.errors import print_error, report_bug
from migctl.errors import MigctlError, PlanError

app = typer.Typer(
    name="migctl",
    help="Run several deep-learning trainings on one NVIDIA machine: GPU instances (MIG), CPU cores and loader "
    "workers from one plan file.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", "-V", help="Print the version and exit.", is_eager=True),
) -> None:
    if version:
        typer.echo(f"migctl {__version__}")
        raise typer.Exit


for family in (run_commands, inspect_commands, job_commands, table_commands):
    family.register(app)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; nothing but a bug of ours leaves as a traceback."""
    as_json = "--json" in arguments
    try:
        result = app(list(arguments), standalone_mode=False)
    except MigctlError as error:
        print_error(error, as_json=as_json)
        return error.exit_code
    except ClickException as error:
        problem = PlanError("usage", error.format_message(), hint=f"{_command(arguments)} --help")
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


def _command(arguments: Sequence[str]) -> str:
    first = next((word for word in arguments if not word.startswith("-")), "")
    known = {command.name for command in app.registered_commands}
    return f"migctl {first}" if first in known else "migctl"
