"""What a command takes on its line, declared once: the quick reader and Typer both read it from the command's signature."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin

MOST_CORES = 8192
"""Logical CPUs for which Linux can be built on x86 (arch/x86/Kconfig, NR_CPUS with MAXSMP); more belong to no machine."""

LONGEST_S = 366 * 86400
"""Longer waits are a slip of the keyboard, and no clock of the engines takes much longer ones."""

_WHOLE = re.compile(r"[-+]?[0-9]{1,18}")
_NUMBER = re.compile(r"[-+]?([0-9]{1,18}(\.[0-9]{0,18})?|\.[0-9]{1,18})([eE][-+]?[0-9]{1,3})?")
_LONGEST_SHOWN = 60

CommandBody = Callable[..., None]
"""A command: its first parameter is a `Common`, each further one is `Annotated` with an `Argument` or an `Option`."""


class Argument:
    """A word by its position; `metavar` stands for it in usage lines and messages, which put the brackets."""

    def __init__(self, *, metavar: str, help: str) -> None:  # noqa: A002 -- the word Typer and argparse use
        self.metavar = metavar
        self.help = help


class Option:
    """A word by its name; a bool is a switch, everything else takes a value, a number one from `least` to `most`."""

    def __init__(
        self,
        *names: str,
        help: str,  # noqa: A002 -- as above
        metavar: str | None = None,
        least: int | None = None,
        most: int | None = None,
    ) -> None:
        self.names = names
        self.help = help
        self.metavar = metavar
        self.least = least
        self.most = most


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


class WrongValue(Exception):  # noqa: N818 -- becomes a PlanError that also knows the command
    """A word that its parameter does not take; the message is a sentence that begins with the parameter's name."""


def value(parameter: Parameter, text: str) -> bool | int | float | str | Path | Enum:
    """What a word means to its parameter; the one place where words of the command line become values.

    Raises:
        WrongValue: nothing.
    """
    kind, name = parameter.kind, shown_name(parameter)
    if issubclass(kind, Enum):
        if text not in (words := [member.value for member in kind]):
            either = f"{', '.join(words[:-1])} or {words[-1]}"
            named = f"{name} is" if isinstance(parameter.declared, Option) else "the word here is"
            raise WrongValue(f"{named} {either}, not {_shown(text)}")
        return kind(text)
    if kind in (int, float):
        return _number(name, parameter, text)
    if not text and not parameter.many:
        raise WrongValue(f"{name} is empty")
    return Path(text) if kind is Path else text


def _number(name: str, parameter: Parameter, text: str) -> int | float:
    known = parameter.kind is int
    word = "a whole number" if known else "a number of seconds"
    option = parameter.declared if isinstance(parameter.declared, Option) else None
    least, most = (option.least, option.most) if option else (None, None)
    found = (int(text) if known else float(text)) if (_WHOLE if known else _NUMBER).fullmatch(text) else math.nan
    if not math.isfinite(found):
        raise WrongValue(f"{name} is {word}, not {_shown(text)}")
    if least is not None and found < least:
        raise WrongValue(f"{name} is at least {least}, not {_shown(text)}")
    if most is not None and found > most:
        raise WrongValue(f"{name} is at most {most}, not {_shown(text)}")
    return found


def shown_name(parameter: Parameter) -> str:
    """The parameter's name in messages: `--cores`, `FILE`."""
    declared = parameter.declared
    return declared.metavar if isinstance(declared, Argument) else max(declared.names, key=len)


def placeholder(parameter: Parameter) -> str | None:
    """What stands for its value in help: `FILE`, `N`, `docker|process`."""
    kind = parameter.kind
    if parameter.declared.metavar is not None:
        return parameter.declared.metavar
    if issubclass(kind, Enum):
        return "|".join(member.value for member in kind)
    return {int: "N", float: "S", str: "TEXT", Path: "PATH"}.get(kind)


def _shown(text: str) -> str:
    cut = text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"
    return cut if cut and cut.isprintable() and " " not in cut else repr(cut)


def values_of(common: type, given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The common options as their own value, and what is left for the command."""
    names = common.__dataclass_fields__  # type: ignore[attr-defined]  # a dataclass, by its callers
    own = {name: value for name, value in given.items() if name not in names}
    return common(**{name: value for name, value in given.items() if name in names}), own
