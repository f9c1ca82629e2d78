"""Errors on their way out: text on stderr, or one JSON object on stdout."""

from __future__ import annotations

import json
import os
import sys
import traceback

from migctl.errors import MigctlError


def print_error(error: MigctlError, *, as_json: bool) -> None:
    """Say what is wrong, where, why, and what to do next."""
    error = _with_sudo(error)
    if as_json:
        from migctl.render.json_errors import errors_json

        sys.stdout.write(json.dumps(errors_json(error), ensure_ascii=False, indent=2) + "\n")
        return
    from migctl.cli.terminal import style
    from migctl.render.errors_text import error_text

    sys.stderr.write(error_text(error, style(sys.stderr, no_color="--no-color" in sys.argv)) + "\n")


def _with_sudo(error: MigctlError) -> MigctlError:
    """What root may do is said as the whole line to type: this very command, with what sudo must hand on."""
    if os.geteuid() == 0 or not any(one.data.get("needs_root") for one in error.all):
        return error
    from migctl.host.sudo import sudo_line

    line = sudo_line(os.environ)
    for one in error.all:
        if one.data.get("needs_root"):
            one.hint = f"{line}\nor {one.hint}" if one.hint else line
    return error


def report_bug(error: BaseException, *, as_json: bool) -> None:
    """A bug of ours: the traceback, ready for a report."""
    if as_json:
        problem = {
            "id": "bug",
            "message": f"{type(error).__name__}: {error}",
            "where": None,
            "hint": "please report it with the text on stderr",
            "exit_code": 1,
        }
        sys.stdout.write(json.dumps({"version": 1, "errors": [problem]}, indent=2) + "\n")
    sys.stderr.write("this is a bug in migctl; please report it with the text below\n")
    traceback.print_exception(error, file=sys.stderr)
