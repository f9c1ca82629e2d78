"""Reads a plain command line without Typer, whose loading takes longer than most commands do; leaves every other line to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from migctl.cli.parameters import Option, Parameter, WrongValue, value


class NotPlain(Exception):  # noqa: N818 -- no error: the line goes to Typer
    """This line needs Typer: help, a mistake to be told, or a spelling this reader does not know."""


def read(known: Sequence[Parameter], words: Sequence[str]) -> dict[str, Any]:
    """The value of every parameter, as Typer gives it for the same words.

    Raises:
        NotPlain: the line is not of the plain kind, right or wrong.
    """
    options = {name: p for p in known if isinstance(p.declared, Option) for name in p.declared.names}
    values: dict[str, Any] = {p.name: p.default for p in known}
    positions: list[str] = []
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        if word == "--":
            positions += reversed(rest)
            break
        if not word.startswith("-"):
            positions.append(word)
            continue
        name, equals, text = word.partition("=") if word.startswith("--") else (word, "", "")
        option = options.get(name)
        if option is None or option.many:
            raise NotPlain(word)
        if option.kind is bool:
            if equals:
                raise NotPlain(word)
            values[option.name] = True
            continue
        if not equals:
            text = rest.pop() if rest else ""
        if not text or text.startswith("-"):
            raise NotPlain(word)
        values[option.name] = _value(option, text)
    return values | _by_position([p for p in known if not isinstance(p.declared, Option)], positions)


def _by_position(arguments: Sequence[Parameter], words: Sequence[str]) -> dict[str, Any]:
    """The arguments in their order; one that takes many takes all that are left, so it is the last."""
    values: dict[str, Any] = {}
    left = list(words)
    for argument in arguments:
        if argument.many:
            taken, left = left, []
        else:
            taken, left = left[:1], left[1:]
        if "" in taken or (argument.required and not taken):
            raise NotPlain(argument.name)
        if taken:
            found = [_value(argument, word) for word in taken]
            values[argument.name] = found if argument.many else found[0]
    if left:
        raise NotPlain(left[0])
    return values


def _value(parameter: Parameter, text: str) -> object:
    try:
        return value(parameter, text)
    except WrongValue as wrong:
        raise NotPlain(text) from wrong
