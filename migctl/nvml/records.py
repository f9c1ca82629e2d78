# ruff: noqa: ANN401 -- type hints are of no common type
"""Dataclasses from JSON, every field checked against its annotation."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


class MalformedError(ValueError):
    """Data that does not have the shape it should have; the text names the field."""


def record(kind: type[T], data: object, where: str) -> T:
    """An object of the dataclass `kind` from a JSON object that has exactly its fields.

    Raises:
        MalformedError: a field is missing, unknown, or of another type.
    """
    if not isinstance(data, dict):
        raise MalformedError(f"{where} is not an object")
    wanted = _hints(cast("Any", kind))
    if strange := sorted(set(data) ^ set(wanted)):
        raise MalformedError(f"{where}.{strange[0]} is {'missing' if strange[0] in wanted else 'unknown'}")
    return kind(**{name: _value(hint, data[name], f"{where}.{name}") for name, hint in wanted.items()})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _value(hint: Any, value: object, where: str) -> object:
    if type(value) is hint and hint in (int, bool, str) and (hint is not int or cast("int", value) >= 0):
        return value  # most fields, at a tenth of the cost: a state is read often
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is list and isinstance(value, list):
        return [_value(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value)]
    if origin is dict and isinstance(value, dict):
        return {str(key): _value(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    if origin in (Union, UnionType) and value is None and NoneType in arguments:
        return None
    if origin in (Union, UnionType):
        return _value(next(a for a in arguments if a is not NoneType), value, where)
    if origin is Literal and value in arguments:
        return value
    if origin is None and is_dataclass(hint):
        return record(cast("type[object]", hint), value, where)
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return value
    raise MalformedError(f"{where} is {str(value)[:40]!r}, not {getattr(hint, '__name__', hint)}")
