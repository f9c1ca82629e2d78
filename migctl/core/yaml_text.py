"""Plain values as YAML text for people: block style, comments, and quotes where a reader could take a word for something else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Union

Value = Union[str, int, bool, None, Sequence["Value"], Mapping[str, "Value"], "Noted", "Lines"]
"""What can be written; a `Noted` carries comments, a `Lines` is text in a literal block."""

_WIDTH = 110
"""Lists of words that fit into a line of this width stand in one."""

# Plain words: no sign of YAML's own, no digit or sign at the start, no blank or comma anywhere (flow lists).
_PLAIN = re.compile(r"(?:--?)?[A-Za-z_/](?:[A-Za-z0-9_./@+=-]|:(?=[A-Za-z0-9_./-]))*|\.{1,2}/[A-Za-z0-9_./@+-]*|\.")
# YAML 1.1's other words for truth values and nothing, https://yaml.org/type/
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")
_NOT_IN_BLOCK = re.compile("[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Noted:
    """A value with comments: lines above it, and one beside it."""

    value: Value
    above: tuple[str, ...] = ()
    beside: str = ""


@dataclass(frozen=True, slots=True)
class Lines:
    """Text of several lines that stays readable as such, e.g. a script."""

    text: str


def document(value: Value, above: Sequence[str] = ()) -> str:
    """One document, with comment lines before it; ends with a newline."""
    value, more, _ = _bare(value)
    written = [*(comment(line) for line in (*above, *more)), *_block(value, "")]
    return "".join(f"{line}\n" for line in written)


def scalar(value: str | int | bool | None) -> str:
    """A single value as it is written in a block or in a list in brackets."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


def comment(line: str) -> str:
    """One comment line of any text: nothing in it ends the comment."""
    # A line break would end it, and what may not stand in YAML may not stand in its comments either.
    return f"# {_NOT_IN_BLOCK.sub(chr(0xFFFD), ' '.join(line.splitlines()))}".rstrip()


def _block(value: Value, indent: str) -> Iterator[str]:
    value, _, _ = _bare(value)
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _entry(f"{scalar(key)}:", item, indent, below=indent + "  ")
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from _item(item, indent)
    else:
        yield indent + _inline(value)


def _entry(head: str, value: Value, indent: str, *, below: str) -> Iterator[str]:
    """`key: value`, on one line where it fits."""
    value, above, beside = _bare(value)
    for line in above:
        yield indent + comment(line)
    tail = f"  {comment(beside)}" if beside else ""
    if isinstance(value, Lines):
        yield f"{indent}{head} {_literal_head(value.text)}{tail}"
        yield from (
            f"{below}{line}".rstrip(" ") if not line else f"{below}{line}" for line in _literal_lines(value.text)
        )
    elif (inline := _in_one_line(value, len(indent) + len(head))) is not None:
        yield f"{indent}{head} {inline}{tail}"
    else:
        yield f"{indent}{head}{tail}"
        yield from _block(value, below)


def _item(value: Value, indent: str) -> Iterator[str]:
    value, above, beside = _bare(value)
    for line in above:
        yield indent + comment(line)
    if isinstance(value, Mapping) and value:
        # The first key stands beside the dash.
        lines = list(_block(value, indent + "  "))
        first = next(n for n, line in enumerate(lines) if not line.lstrip().startswith("# "))
        yield from lines[:first]
        yield f"{indent}- {lines[first].removeprefix(indent + '  ')}" + (f"  {comment(beside)}" if beside else "")
        yield from lines[first + 1 :]
    else:
        yield from _entry("-", value, indent, below=indent + "  ")


def _bare(value: Value) -> tuple[Value, tuple[str, ...], str]:
    above: tuple[str, ...] = ()
    beside = ""
    while isinstance(value, Noted):
        above, beside, value = (*above, *value.above), beside or value.beside, value.value
    if isinstance(value, Lines) and not _is_literal(value.text):
        value = value.text
    return value, above, beside


def _in_one_line(value: Value, used: int) -> str | None:
    if isinstance(value, Mapping):
        return None if value else "{}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        if not all(item is None or isinstance(item, str | int) for item in value):
            return None
        written = _inline(value)
        return written if used + len(written) < _WIDTH else (None if value else "[]")
    return _inline(value)


def _inline(value: Value) -> str:
    if value is None or isinstance(value, str | int):
        return scalar(value)
    if isinstance(value, Sequence):
        return f"[{', '.join(_inline(item) for item in value)}]"
    raise TypeError(f"{type(value).__name__} is not written in one line")


def _is_literal(text: str) -> bool:
    body = text.removesuffix("\n")
    return bool(body) and not text.endswith("\n\n") and text[0] not in " \t\n" and not _NOT_IN_BLOCK.search(text)


def _literal_head(text: str) -> str:
    return "|" if text.endswith("\n") else "|-"


def _literal_lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


Plain = str | int | bool | None | Sequence["Plain"] | Mapping[str, "Plain"]
"""A value without comments, as JSON has them."""


def plain(value: Value) -> Plain:
    """The value without its comments, with text as plain text."""
    while isinstance(value, Noted):
        value = value.value
    if isinstance(value, Lines):
        return value.text
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    return value
