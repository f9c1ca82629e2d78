"""Records, runs, queues and submissions as JSON and back, field by field; what is not exactly one of ours is a ValueError."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache, lru_cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Generic, NewType, TypeVar, cast, get_args, get_origin, get_type_hints

from migctl.core.cpuset import CpuSet
from migctl.core.entries import Queue
from migctl.core.record import Record
from migctl.core.run import Run

if TYPE_CHECKING:
    from migctl.core.submission import Submission

FORMAT = 1
"""Version of the JSON in owner files; raised when an older migctl would misread it."""
_BOUND = 2**63
"""Integers beyond this do not fit SQLite."""

_REMEMBERED = 4096
"""Records, of about 2 KiB each."""

T = TypeVar("T")
Turn = Callable[[object], object]


class TooNew(ValueError):  # noqa: N818 -- says what the text is
    """The text was written by a newer migctl."""


def encode_record(record: Record) -> str:
    """The record as one line of ASCII JSON."""
    return _text("record", _record().encode(record))


def decode_record(text: str | bytes) -> Record:
    """Read what `encode_record` wrote.

    Raises:
        TooNew: written by a newer migctl.
        ValueError: anything else that is not a record; the message says where it is wrong.
    """
    return _decoded((text if isinstance(text, bytes) else text.encode()).rstrip(b"\n"))


@lru_cache(maxsize=_REMEMBERED)
def _decoded(text: bytes) -> Record:
    """A supervisor reads the same records over and over."""
    return _record().decode(_opened(_parsed(text), "record"))


def decode_records(texts: Iterable[str]) -> list[Record]:
    """Read many; of very many none is remembered, and the parser is called once. Raises as `decode_record`."""
    texts = list(texts)
    if len(texts) <= _REMEMBERED // 2:
        return [decode_record(text) for text in texts]
    values = _parsed("[" + ",".join(texts) + "]")
    assert isinstance(values, list), "a text that closes the bracket does not parse with another one around it"
    decode = _record().decode
    return [decode(_opened(value, "record")) for value in values]


def encode_run(run: Run) -> str:
    """The run as one line of ASCII JSON."""
    return _text("run", _run().encode(run))


def decode_run(text: str | bytes) -> Run:
    """Read what `encode_run` wrote. Raises as `decode_record`."""
    return _run().decode(_opened(_parsed(text), "run"))


def encode_queue(queue: Queue) -> str:
    """The queue's notes as one line of ASCII JSON."""
    return _text("queue", _queue().encode(queue))


def decode_queue(text: str | bytes) -> Queue:
    """Read what `encode_queue` wrote. Raises as `decode_record`."""
    return _queue().decode(_opened(_parsed(text), "queue"))


def encode_submission(submission: Submission) -> str:
    """The submission as one line of ASCII JSON."""
    return _text("submission", _submission().encode(submission))


def decode_submission(text: str | bytes) -> Submission:
    """Read what `encode_submission` wrote. Raises as `decode_record`."""
    return _submission().decode(_opened(_parsed(text), "submission"))


def _text(key: str, value: object) -> str:
    return json.dumps({"version": FORMAT, key: value}, separators=(",", ":"), allow_nan=False)


def _parsed(text: str | bytes) -> object:
    try:
        return cast("object", json.loads(text, parse_constant=_no_constant))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number")


def _opened(value: object, key: str) -> object:
    if type(value) is not dict:
        raise ValueError(f"expected a JSON object, got {_shown(value)}")
    version = value.get("version")
    if type(version) is not int or version < 1:
        raise ValueError("without a version number")
    if version > FORMAT:
        raise TooNew(f"has format {version}, this migctl reads up to {FORMAT}")
    if value.keys() != {"version", key}:
        raise ValueError(f"expected the keys version and {key}")
    return value[key]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True, slots=True)
class _Form(Generic[T]):
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
            raise ValueError(f"expected a JSON object, got {_shown(value)}")
        found: dict[str, object] = {}
        for name, item in value.items():
            decode = self.decoders.get(name)
            if decode is None:
                raise ValueError(f"unknown field {_shown(name)}")
            try:
                found[name] = decode(item)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        if not self.required <= found.keys():
            raise ValueError(f"without {', '.join(sorted(self.required - found.keys()))}")
        return self.of(**found)


def _form(of: type[T]) -> _Form[T]:
    """Derive the form from the class's annotations: a field added to a record is stored without being named here."""
    hints = get_type_hints(of)
    encoders: list[tuple[str, Turn, object]] = []
    decoders: dict[str, Turn] = {}
    assert is_dataclass(of)
    for field in fields(of):
        if field.metadata.get("kept", True):
            encode, decoders[field.name] = _leaf(hints[field.name])
            encoders.append((field.name, encode, field.default))
    return _Form(
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
            form: _Form[object] = _form(hint)
            return form.encode, form.decode
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
    forms: dict[str, _Form[object]] = {}
    for part in parts:
        if part is not str:
            if not (isinstance(part, type) and is_dataclass(part)):
                raise TypeError(f"the store has no form for a union with {part}")
            forms[part.__name__] = _form(part)

    def encode(value: object) -> object:
        kind = type(value).__name__
        return value if isinstance(value, str) else {_KIND: kind, **forms[kind].encode(value)}

    def decode(value: object) -> object:
        if texts and type(value) is str:
            return value
        kind = value.get(_KIND) if type(value) is dict else None
        form = forms.get(kind) if type(kind) is str else None
        if type(value) is not dict or form is None:
            raise ValueError(f"expected one of {', '.join(forms)}, got {_shown(value)}")
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
            raise ValueError(f"expected a list, got {_shown(value)}")
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
            raise ValueError(f"expected a list of {len(turns)}, got {_shown(value)}")
        return tuple(decode(item) for (_, decode), item in zip(turns, value, strict=True))

    return encode_row, decode_row


def _same(value: object) -> object:
    return str(value) if isinstance(value, CpuSet) else value


def _value(member: object) -> object:
    assert isinstance(member, Enum)
    return member.value


def _str(value: object) -> object:
    if type(value) is not str:
        raise ValueError(f"expected a text, got {_shown(value)}")
    return value


def _bool(value: object) -> object:
    if type(value) is not bool:
        raise ValueError(f"expected true or false, got {_shown(value)}")
    return value


def _int(value: object) -> object:
    if type(value) is not int or not -_BOUND <= value < _BOUND:
        raise ValueError(f"expected an integer, got {_shown(value)}")
    return value


def _float(value: object) -> object:
    if type(value) is int and -_BOUND <= value < _BOUND:
        return float(value)
    if type(value) is not float or not math.isfinite(value):
        raise ValueError(f"expected a number, got {_shown(value)}")
    return value


def _cpuset(value: object) -> object:
    if type(value) is not str:
        raise ValueError(f"expected a CPU list like 0-3, got {_shown(value)}")
    return CpuSet.parse(value)


_SIMPLE: Mapping[object, Turn] = {str: _str, bool: _bool, int: _int, float: _float, CpuSet: _cpuset}


@cache
def _record() -> _Form[Record]:
    """Made at the first use: deriving it takes longer than reading a few records."""
    return _form(Record)


@cache
def _run() -> _Form[Run]:
    return _form(Run)


@cache
def _queue() -> _Form[Queue]:
    return _form(Queue)


@cache
def _submission() -> _Form[Submission]:
    # Whoever only looks reads no plan.
    from migctl.core.submission import Submission

    return _form(Submission)
