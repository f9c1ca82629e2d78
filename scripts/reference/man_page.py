"""The manual page migctl(1), of the commands' own declarations and of the README's tables."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from migctl import __version__
from migctl.cli.commands import COMMANDS, HIDDEN
from migctl.cli.common import Common
from migctl.cli.parameters import Argument, CommandBody, Option, Parameter, parameters, placeholder

ROOT = Path(__file__).parents[2]


def page() -> str:
    """The page in the man macros of roff."""
    return (
        "\n".join([*_head(), *_commands(), *_common(), *_exit_status(), *_environment(), *_files(), *_examples()])
        + "\n"
    )


def _head() -> list[str]:
    return [
        ".\\\" Written by scripts/docs from the commands' declarations; do not edit.",
        f'.TH MIGCTL 1 "" "migctl {__version__}" "User Commands"',
        ".SH NAME",
        "migctl \\- run several trainings on one NVIDIA machine: GPU instances, cores and workers from one plan file",
        ".SH SYNOPSIS",
        ".B migctl",
        ".I command",
        "[\\fIoptions\\fR] [\\fIarguments\\fR]",
        ".SH DESCRIPTION",
        _text(
            "A plan file says which trainings shall run. up gives each a GPU instance (MIG) of its own, CPU cores of its own, and "
            "the number of data loader workers that these cores can carry; status shows what holds each training back; down "
            "removes exactly what up made. What does not fit at once waits. "
            "FILE defaults to ./plan.yaml or ./migctl.yaml; RUN is a run's "
            "name or its plan file, JOB a job's name or RUN/JOB."
        ),
        ".SH COMMANDS",
    ]


def _commands() -> Iterator[str]:
    for name, command in COMMANDS.items():
        if name in HIDDEN:
            continue
        yield f'.SS "{_text(_usage(name, command))}"'
        yield _text(" ".join((inspect.getdoc(command) or "").split()))
        for parameter in parameters(command):
            yield from _told(parameter)


def _usage(name: str, command: CommandBody) -> str:
    words = [f"migctl {name}"]
    for parameter in parameters(command):
        if isinstance(parameter.declared, Argument):
            word = parameter.declared.metavar + (" …" if parameter.many else "")
            words.append(word if parameter.required else f"[{word}]")
    return " ".join(words)


def _told(parameter: Parameter) -> Iterator[str]:
    declared = parameter.declared
    yield ".TP"
    if isinstance(declared, Option):
        value = "" if parameter.kind is bool else f" \\fI{_text(placeholder(parameter) or '')}\\fR"
        yield ", ".join(f"\\fB{_text(word)}\\fR" for word in sorted(declared.names, key=len)) + value
    else:
        yield f"\\fI{_text(declared.metavar)}\\fR"
    yield _text(declared.help)


def _common() -> Iterator[str]:
    yield ".SH COMMON OPTIONS"
    yield "Every command has these; they stand behind it."
    for parameter in parameters(Common):
        yield from _told(parameter)


def _exit_status() -> Iterator[str]:
    yield ".SH EXIT STATUS"
    for code, means in _rows("exit code"):
        yield from (".TP", f"\\fB{_text(code)}\\fR", _text(means))


def _environment() -> Iterator[str]:
    yield ".SH ENVIRONMENT"
    for names, means in _rows("variable"):
        yield from (".TP", f"\\fB{_text(names)}\\fR", _text(means))


def _files() -> list[str]:
    told = [
        ("plan.yaml, migctl.yaml", "the plan of a folder"),
        ("/etc/migctl/policy.yaml", "what the administrator lets users do"),
        ("/run/migctl", "locks and claims of everybody on the machine"),
        ("/var/lib/migctl, $XDG_STATE_HOME/migctl", "records and logs of root, and of any other user"),
    ]
    return [".SH FILES", *(line for name, means in told for line in (".TP", f"\\fI{_text(name)}\\fR", _text(means)))]


def _examples() -> list[str]:
    told = [
        ("migctl init --yes", "writes a first plan for this machine and folder"),
        ("migctl plan --on a100-40gb --cores 16", "plans for a machine that is elsewhere"),
        ("migctl up --wait && migctl down", "runs all jobs, and takes everything away when all have succeeded"),
        ("migctl run -p 1g.5gb -- python train.py", "one training without a plan file"),
    ]
    return [
        ".SH EXAMPLES",
        *(line for words, means in told for line in (".TP", f"\\fB{_text(words)}\\fR", _text(means))),
    ]


def _rows(first: str) -> list[tuple[str, str]]:
    """A table of the README whose first heading is this."""
    table = (ROOT / "README.md").read_text("utf-8").split(f"| {first} |")[1].split("\n\n")[0]
    rows = [re.split(r"(?<!\\)\|", line.strip("|"))[:2] for line in table.splitlines()[2:]]
    return [(cell.strip().replace("`", ""), rest.strip().replace("`", "")) for cell, rest in rows]


def _text(text: str) -> str:
    """Text as roff takes it for nothing but text."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq").replace("…", "...")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
