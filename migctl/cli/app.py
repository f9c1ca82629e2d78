"""Runs one command line, and is the one place where errors become text and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from migctl.cli.errors import print_error, report_bug
from migctl.cli.streams import Unwritten
from migctl.errors import MigctlError


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; nothing but a bug of ours leaves as a traceback."""
    as_json = "--json" in arguments
    code = 0
    try:
        try:
            return _call(arguments)
        except MigctlError as error:
            code = error.exit_code
            print_error(error, as_json=as_json)
            return code
    except Unwritten:
        return code  # what that means is said where the streams are closed
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except Exception as error:  # noqa: BLE001 -- whatever else it is, it is a bug of ours and is reported as one
        report_bug(error, as_json=as_json)
        return 1


def _call(arguments: Sequence[str]) -> int:
    from migctl.cli.commands import COMMANDS
    from migctl.cli.common import Common
    from migctl.cli.line import NotPlain, read
    from migctl.cli.parameters import parameters, values_of

    command = COMMANDS.get(arguments[0]) if arguments else None
    try:
        if command is None:
            raise NotPlain
        given = read((*parameters(command), *parameters(Common)), arguments[1:])
    except NotPlain:
        from migctl.cli.application import call

        return call(arguments)
    common, own = values_of(Common, given)
    command(common, **own)
    return 0
