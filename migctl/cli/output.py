"""Writes results: text for people, one JSON object for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable

from migctl.core.record import Record


def write_json(value: object) -> None:
    """One object on stdout."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def write(text: str) -> None:
    """Text on stdout, at once: a pipe's reader sees what has happened so far."""
    sys.stdout.write(text)
    sys.stdout.flush()


def write_end(record: Record) -> None:
    """A job has ended: its name, how, and its exit code."""
    code = "" if record.exit_code is None else f" (exit code {record.exit_code})"
    write(f"{record.job}: {record.state.value}{code}\n")


def write_log(lines: Iterable[tuple[str, bytes]], names: Collection[str]) -> None:
    """Log lines as they come: one job's bytes as they are, several jobs' with their names."""
    width = max((len(name) for name in names), default=0)
    for job, line in lines:
        prefix = b"" if len(names) == 1 else f"{job:<{width}} | ".encode()
        sys.stdout.buffer.write(prefix + line + b"\n")
        sys.stdout.buffer.flush()
