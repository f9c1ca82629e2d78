"""How frozen dataclasses look as JSON, derived from their annotations, and checked field by field when they are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from operator import attrgetter
from types import NoneType, UnionType
from typing import Generic, NewType, TypeVar, cast, get_args, get_origin, get_type_hints

from migctl.core.cpu.cpuset import CpuSet

_BOUND = 2**63
"""Integers beyond this do not fit SQLite."""

T = TypeVar("T")
Turn = Callable[[object], object]


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """How a frozen dataclass looks as a JSON object: fields that have their default value are left out."""

    of: type[T]
    values: Callable[[object], Sequence[object]]
    """Of all fields that are kept, in the order of `encoders`."""
    encoders: Sequence[tuple[str, Turn, object]]
    """Name, encoder and default."""
    decoders: Mapping[str, Turn]
    required: frozenset[str]
    """Fields without a default."""

    def encode(self, value: object) -> dict[str, object]:
        return {
            name: encode(item)
            for (name, encode, default), item in zip(self.encoders, self.values(value), strict=True)
            if item is not default and item != default
        }

    def decode(self, value: object) -> T:
        if type(value) is not dict:
            raise ValueError(f"expected a JSON object, got {shown(value)}")
        found: dict[str, object] = {}
        for name, item in value.items():
            decode = self.decoders.get(name)
            if decode is None:
                raise ValueError(f"unknown field {shown(name)}")
            try:
                found[name] = decode(item)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        if not self.required <= found.keys():
            raise ValueError(f"without {', '.join(sorted(self.required - found.keys()))}")
        return self.of(**found)


def form(of: type[T]) -> Form[T]:
    """Derive the form from the class's annotations: a field added to a record is stored without being named here."""
    hints = get_type_hints(of)
    encoders: list[tuple[str, Turn, object]] = []
    decoders: dict[str, Turn] = {}
    assert is_dataclass(of)
    for field in fields(of):
        if field.metadata.get("kept", True):
            encode, decoders[field.name] = _leaf(hints[field.name])
            encoders.append((field.name, encode, field.default))
    return Form(
        of=cast("type[T]", of),
        values=_values([name for name, _, _ in encoders]),
        encoders=encoders,
        decoders=decoders,
        required=frozenset(name for name, _, default in encoders if default is MISSING),
    )


def _values(names: Sequence[str]) -> Callable[[object], Sequence[object]]:
    if len(names) > 1:
        return cast("Callable[[object], Sequence[object]]", attrgetter(*names))
    return lambda value: [getattr(value, name) for name in names]


def _leaf(hint: object) -> tuple[Turn, Turn]:
    """Encoder and decoder of one field type; a type that is not provided for fails in the first test."""
    if isinstance(hint, NewType):
        return _leaf(hint.__supertype__)
    if get_origin(hint) is UnionType:
        return _optional(hint)
    if get_origin(hint) is tuple:
        return _sequence(hint)
    if get_origin(hint) is frozenset:
        return _set(hint)
    if isinstance(hint, type):
        if hint in _SIMPLE:
            return _same, _SIMPLE[hint]
        if issubclass(hint, Enum):
            return _value, hint
        if is_dataclass(hint):
            inner: Form[object] = form(hint)
            return inner.encode, inner.decode
    raise TypeError(f"the store has no form for {hint}")


def _optional(hint: object) -> tuple[Turn, Turn]:
    parts = [part for part in get_args(hint) if part is not NoneType]
    encode, decode = _leaf(parts[0]) if len(parts) == 1 else _one_of(parts)
    return (
        lambda value: None if value is None else encode(value),
        lambda value: None if value is None else decode(value),
    )


_KIND = "is"
"""Key that tells which dataclass of a union an object is."""


def _one_of(parts: Sequence[object]) -> tuple[Turn, Turn]:
    """A union of dataclasses, which the object names, and text, which is itself."""
    texts = str in parts
    forms: dict[str, Form[object]] = {}
    for part in parts:
        if part is not str:
            if not (isinstance(part, type) and is_dataclass(part)):
                raise TypeError(f"the store has no form for a union with {part}")
            forms[part.__name__] = form(part)

    def encode(value: object) -> object:
        kind = type(value).__name__
        return value if isinstance(value, str) else {_KIND: kind, **forms[kind].encode(value)}

    def decode(value: object) -> object:
        if texts and type(value) is str:
            return value
        kind = value.get(_KIND) if type(value) is dict else None
        form = forms.get(kind) if type(kind) is str else None
        if type(value) is not dict or form is None:
            raise ValueError(f"expected one of {', '.join(forms)}, got {shown(value)}")
        return form.decode({name: item for name, item in value.items() if name != _KIND})

    return encode, decode


def _sequence(hint: object) -> tuple[Turn, Turn]:
    part, *rest = get_args(hint)
    return _all_of(*_leaf(part)) if rest == [...] else _row(get_args(hint))


def _all_of(encode: Turn, decode: Turn) -> tuple[Turn, Turn]:
    def encode_all(value: object) -> object:
        assert isinstance(value, tuple)
        return [encode(item) for item in value]

    def decode_all(value: object) -> object:
        if type(value) is not list:
            raise ValueError(f"expected a list, got {shown(value)}")
        return tuple(decode(item) for item in value)

    return encode_all, decode_all


def _set(hint: object) -> tuple[Turn, Turn]:
    """A set of texts or numbers, in order."""
    encode, decode = _all_of(*_leaf(get_args(hint)[0]))

    def encode_set(value: object) -> object:
        assert isinstance(value, frozenset)
        return encode(tuple(sorted(value)))

    return encode_set, lambda value: frozenset(cast("tuple[object, ...]", decode(value)))


def _row(parts: Sequence[object]) -> tuple[Turn, Turn]:
    """A tuple of fixed length."""
    turns = [_leaf(part) for part in parts]

    def encode_row(value: object) -> object:
        assert isinstance(value, tuple)
        return [encode(item) for (encode, _), item in zip(turns, value, strict=True)]

    def decode_row(value: object) -> object:
        if type(value) is not list or len(value) != len(turns):
            raise ValueError(f"expected a list of {len(turns)}, got {shown(value)}")
        return tuple(decode(item) for (_, decode), item in zip(turns, value, strict=True))

    return encode_row, decode_row


def _same(value: object) -> object:
    return str(value) if isinstance(value, CpuSet) else value


def _value(member: object) -> object:
    assert isinstance(member, Enum)
    return member.value


def _str(value: object) -> object:
    if type(value) is not str:
        raise ValueError(f"expected a text, got {shown(value)}")
    return value


def _bool(value: object) -> object:
    if type(value) is not bool:
        raise ValueError(f"expected true or false, got {shown(value)}")
    return value


def _int(value: object) -> object:
    if type(value) is not int or not -_BOUND <= value < _BOUND:
        raise ValueError(f"expected an integer, got {shown(value)}")
    return value


def _float(value: object) -> object:
    if type(value) is int and -_BOUND <= value < _BOUND:
        return float(value)
    if type(value) is not float or not math.isfinite(value):
        raise ValueError(f"expected a number, got {shown(value)}")
    return value


def _cpuset(value: object) -> object:
    if type(value) is not str:
        raise ValueError(f"expected a CPU list like 0-3, got {shown(value)}")
    return CpuSet.parse(value)


_SIMPLE: Mapping[object, Turn] = {str: _str, bool: _bool, int: _int, float: _float, CpuSet: _cpuset}
