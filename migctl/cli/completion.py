"""What a shell completes: the names of runs, jobs, profiles and boards, each chosen by the placeholder of its word.

Typer makes the shells' scripts and speaks with them; they call migctl without arguments, and with the line in the environment.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Final

from migctl.cli.parameters import Argument, Parameter
from migctl.errors import MigctlError

ASKED: Final = "_MIGCTL_COMPLETE"
"""Set by the shells' scripts; the name is Typer's, made of the program's."""

_FORGETTING: Final = ("rm",)
"""These take only runs that are undone."""
_LOOKING_BACK: Final = ("history", "logs", "report", *_FORGETTING)

Completer = Callable[[str], list[str]]
"""From the beginning of a word to the words that it can become; Typer leaves out those that begin otherwise."""


def command_on_line(environ: Mapping[str, str]) -> str | None:
    """The command whose words are completed, so that no other needs to be made; `None`: the command itself is."""
    told = environ.get("_TYPER_COMPLETE_ARGS")
    if told is None:
        words, at = environ.get("COMP_WORDS", "").split("\n"), environ.get("COMP_CWORD", "")
        finished = words[: int(at)] if at.isascii() and at.isdigit() else []
    else:
        try:
            words = shlex.split(told)
        except ValueError:
            words = told.split()
        finished = words if told.endswith(" ") else words[:-1]
    return finished[1] if len(finished) > 1 and not finished[1].startswith("-") else None


def completer(parameter: Parameter) -> Completer | None:
    """What completes a parameter's word; `None`: the shell itself, with files."""
    kind, declared = parameter.kind, parameter.declared
    if issubclass(kind, Enum):
        words = [member.value for member in kind]
        return lambda incomplete: words  # noqa: ARG005 -- Typer asks all in the same way
    if not isinstance(declared, Argument) and "--profile" in declared.names:
        return _quietly(_profiles)
    known = {"RUN": _runs, "JOB": _jobs, "RUN or JOB": _jobs, "BOARD": _boards, "BOARD[xN]": _boards}
    found = known.get(declared.metavar or "")
    return _quietly(found) if found is not None else None


def _quietly(names: Completer) -> Completer:
    """A state directory that cannot be read completes nothing, and says nothing in the middle of somebody's line."""

    def complete(incomplete: str) -> list[str]:
        try:
            return names(incomplete)
        except (MigctlError, OSError):
            return []

    return complete


def _records() -> dict[str, tuple[str, ...]]:
    """Run → its jobs, those that wait too; runs that are undone only for the commands that look back."""
    from migctl.engine.session import Session
    from migctl.engine.targets import job_names

    command = command_on_line(os.environ)
    session = Session(environ=dict(os.environ), root=Path("/"))
    with session.ledger(write=False) as ledger:
        runs = [
            run
            for run in ledger.runs(ended=command in _LOOKING_BACK)
            if run.ended_at is not None or command not in _FORGETTING
        ]
        return {run.name: job_names(ledger, run.name) for run in runs}


def _runs(incomplete: str) -> list[str]:  # noqa: ARG001 -- as above
    return list(_records())


def _jobs(incomplete: str) -> list[str]:
    """Jobs by their own name where one run has it, runs, and behind a slash the jobs of that run."""
    records = _records()
    if "/" in incomplete:
        return [f"{run}/{job}" for run, jobs in records.items() for job in jobs]
    times = Counter(job for jobs in records.values() for job in jobs)
    single = [job for job, count in times.items() if count == 1]
    return [*records, *single, *(f"{run}/{job}" for run, jobs in records.items() for job in jobs if times[job] > 1)]


def _boards(incomplete: str) -> list[str]:  # noqa: ARG001 -- as above
    from migctl.nvml.models import boards

    return list(boards())


def _profiles(incomplete: str) -> list[str]:  # noqa: ARG001 -- as above
    """Of the simulated boards, else of every board: asking the driver would open the GPUs at the press of a key."""
    from migctl.nvml.models import boards, parse_boards, resolve_board

    kind, _, spec = os.environ.get("MIGCTL_NVML", "").partition(":")
    there = [slot.board for slot in parse_boards(spec)] if kind == "sim" else [resolve_board(key) for key in boards()]
    return list(dict.fromkeys(profile.name for board in there for profile in board.profiles))
