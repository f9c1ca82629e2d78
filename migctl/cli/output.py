"""Writes results: text for people, one JSON object for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Mapping

from migctl.core.runs.record import Record
from migctl.errors import MigctlError

_MOST_INDENTED = 1 << 20
"""Characters: more is read by no person, and indenting takes as long as everything before it."""


def write_json(value: object) -> None:
    """One object on stdout."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) < _MOST_INDENTED:
        text = json.dumps(value, ensure_ascii=False, indent=2)
    sys.stdout.write(text + "\n")


def write_result(value: Mapping[str, object], failed: MigctlError | None) -> None:
    """The answer of a command that may have found a failure: one object, with `errors` in it then.

    Raises:
        SystemExit: with the failure's exit code.
    """
    if failed is None:
        write_json(value)
        return
    from migctl.render.json_errors import errors_json

    write_json({**value, "errors": errors_json(failed)["errors"]})
    raise SystemExit(failed.exit_code)


def write(text: str) -> None:
    """Text on stdout, at once: a pipe's reader sees what has happened so far."""
    sys.stdout.write(text)
    sys.stdout.flush()


def write_end(record: Record) -> None:
    """A job has ended: its name, how, and its exit code."""
    code = "" if record.exit_code is None else f" (exit code {record.exit_code})"
    write(f"{record.job}: {record.state.value}{code}\n")


def write_log(lines: Iterable[tuple[str, bytes]], names: Collection[str]) -> None:
    """Log lines as they come: one job's bytes as they are, several jobs' with their names.

    On a terminal several jobs' lines are tamed, so that each stays behind its name.
    """
    from migctl.render.log_lines import tame

    width = max((len(name) for name in names), default=0)
    alone = len(names) == 1
    tamed = not alone and sys.stdout.isatty()
    for job, line in lines:
        prefix = b"" if alone else f"{job:<{width}} | ".encode()
        sys.stdout.buffer.write(prefix + (tame(line) if tamed else line) + b"\n")
        sys.stdout.buffer.flush()
