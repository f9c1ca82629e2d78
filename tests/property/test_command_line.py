"""The quick reader of command lines gives what Typer gives, or leaves the line to it."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from migctl.cli import application
from migctl.cli.commands import COMMANDS
from migctl.cli.common import Common
from migctl.cli.line import NotPlain, read
from migctl.cli.parameters import Argument, Parameter, parameters
from migctl.core.choices import RuntimeName, Storage


def known(name: str) -> tuple[Parameter, ...]:
    return (*parameters(COMMANDS[name]), *parameters(Common))


def by_typer(name: str) -> tuple[typer.Typer, dict[str, Any]]:
    """An application with this command alone, which notes what it was called with."""
    seen: dict[str, Any] = {}
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)

    def note(**values: Any) -> None:
        seen.update(values)

    taken = [application.signed(parameter) for parameter in known(name)]
    note.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    note.__annotations__ = {p.name: p.annotation for p in taken}
    app.command(name)(note)
    return app, seen


TYPER = {name: by_typer(name) for name in COMMANDS}
VALUES = st.sampled_from(
    [
        "7",
        "0",
        "-1",
        "1.5",
        "1e3",
        "",
        "-",
        "a",
        "a.yaml",
        "./x y",
        "hdd",
        "HDD",
        "process",
        "nan",
        "1_0",
        "٣",
        "é",
        "=",
        "a=b",
        "+5",
    ]
)


@st.composite
def lines(draw: st.DrawFn) -> tuple[str, list[str]]:
    name = draw(st.sampled_from(sorted(COMMANDS)))
    names = [n for p in known(name) if not isinstance(p.declared, Argument) for n in p.declared.names]
    word = st.one_of(
        VALUES,
        st.sampled_from(names),
        st.builds("{}={}".format, st.sampled_from(names), VALUES),
        st.builds("{}{}".format, st.sampled_from(names), VALUES),
        st.sampled_from(["--", "-h", "--help", "-qv", "--nope", "-z"]),
    )
    return name, draw(st.lists(word, max_size=6))


@settings(deadline=None)  # the first line of each command makes Typer build its validators
@given(lines())
def test_a_plain_line_means_what_typer_says_it_means(line: tuple[str, list[str]]) -> None:
    name, words = line
    try:
        quick = read(known(name), words)
    except NotPlain:
        return
    app, seen = TYPER[name]
    seen.clear()

    app(words, standalone_mode=False)

    assert quick == {key: value or None if value == [] else value for key, value in seen.items()}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("up", {}),
        ("up a.yaml --wait", {"file": Path("a.yaml"), "wait": True}),
        ("up -f a.yaml --wait-for 2.5 -q", {"file_option": Path("a.yaml"), "wait_for": 2.5, "quiet": True}),
        ("status lr --check --json", {"run": "lr", "check_drift": True, "json": True}),
        ("ps --runtime=process", {"runtime": RuntimeName.PROCESS}),
        ("workers --cores 8 --storage hdd", {"cores": 8, "storage": Storage.HDD}),
        ("logs a b/c --tail 5", {"jobs": ["a", "b/c"], "tail": 5}),
        ("exec job -- python -m x --json", {"job": "job", "command": ["python", "-m", "x", "--json"]}),
        ("run -p 1g.5gb -- sleep 1", {"profile": "1g.5gb", "command": ["sleep", "1"]}),
    ],
)
def test_the_lines_of_every_day_are_plain(words: str, told: dict[str, object]) -> None:
    name, *rest = words.split()
    defaults = {p.name: p.default for p in known(name)}

    assert read(known(name), rest) == defaults | told


@pytest.mark.parametrize(
    "words",
    [
        "up --help",
        "up -qv",
        "up a b",
        "up --nope",
        "exec",
        "run",
        "up --wait=yes",
        "up --wait-for",
        "up --wait-for -1",
        "workers --cores x",
        "up --runtime podman",
    ],
)
def test_help_and_mistakes_are_left_to_typer(words: str) -> None:
    name, *rest = words.split()

    with pytest.raises(NotPlain):
        read(known(name), rest)
