"""What a command takes on its line, declared once: the quick reader and Typer both read it from the command's signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin

CommandBody = Callable[..., None]
"""A command: its first parameter is a `Common`, each further one is `Annotated` with an `Argument` or an `Option`."""


class Argument:
    """A word by its position."""

    def __init__(self, *, metavar: str, help: str) -> None:  # noqa: A002 -- the word Typer and argparse use
        self.metavar = metavar
        self.help = help


class Option:
    """A word by its name; a bool is a switch, everything else takes a value."""

    def __init__(self, *names: str, help: str, metavar: str | None = None) -> None:  # noqa: A002 -- as above
        self.names = names
        self.help = help
        self.metavar = metavar


@dataclass(frozen=True, slots=True, eq=False)
class Parameter:
    """One parameter of a command."""

    name: str
    declared: Argument | Option
    kind: type[bool | int | float | str | Path | Enum]
    many: bool
    required: bool
    default: object
    annotation: object
    """As written, for Typer."""


def parameters(declaring: type | CommandBody) -> tuple[Parameter, ...]:
    """Every `Annotated` parameter of a command, or of the dataclass of the common ones, in order."""
    return tuple(
        _parameter(p)
        for p in inspect.signature(declaring, eval_str=True).parameters.values()
        if get_origin(p.annotation) is Annotated
    )


def _parameter(signed: inspect.Parameter) -> Parameter:
    written, declared = get_args(signed.annotation)
    kinds = [k for k in get_args(written) if k is not NoneType] if isinstance(written, UnionType) else [written]
    (kind,) = kinds
    many = get_origin(kind) is list
    required = signed.default is inspect.Parameter.empty
    return Parameter(
        name=signed.name,
        declared=declared,
        kind=get_args(kind)[0] if many else kind,
        many=many,
        required=required,
        default=None if required else signed.default,
        annotation=written,
    )


def values_of(common: type, given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The common options as their own value, and what is left for the command."""
    names = common.__dataclass_fields__  # type: ignore[attr-defined]  # a dataclass, by its callers
    own = {name: value for name, value in given.items() if name not in names}
    return common(**{name: value for name, value in given.items() if name in names}), own
