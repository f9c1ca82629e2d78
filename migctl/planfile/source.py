"""The text of a plan file and the places in it."""

from __future__ import annotations

import os
import re
import stat
import time
from bisect import bisect_right
from difflib import get_close_matches
from pathlib import Path

from migctl.core.secrets import concealed, without_values
from migctl.errors import PlanError, Where

LARGEST_BYTES = 1 << 20
"""More than any plan written by hand or by a generator for one machine needs."""

_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_BREAKS = "\r\n\x85\u2028\u2029"
_NOT_YAML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that are not allowed in a YAML stream (YAML 1.2.2, 5.1)."""
_LONGEST_EXCERPT = 240
_MOST_NAMES = 5
_PATIENCE_S = 1.0


class Source:
    """A text and its name in messages; turns offsets into places, whose lines are told without the secrets in them.

    Args:
        text: all of it.
        name: of the file, as the user named it.
        private: its lines are variables, none of whose values is told.
    """

    __slots__ = ("_shown", "_starts", "name", "text")

    def __init__(self, text: str, name: str, *, private: bool = False) -> None:
        self.text = text
        self.name = name
        self._shown = without_values if private else concealed
        self._starts: list[int] | None = None

    @property
    def starts(self) -> list[int]:
        """Offset of each line's first character."""
        if self._starts is None:
            self._starts = [0, *(found.end() for found in _BREAK.finditer(self.text))]
        return self._starts

    def where(self, offset: int) -> Where:
        """The place of a character."""
        line = bisect_right(self.starts, offset)
        start = self.starts[line - 1]
        column = offset - start + 1
        # As much of the line as is needed to tell whether it is too long: a file may be one line with thousands of places.
        end = min(self.starts[line] if line < len(self.starts) else len(self.text), start + _LONGEST_EXCERPT + 2)
        excerpt = self.text[start:end].rstrip(_BREAKS)
        if len(excerpt) > _LONGEST_EXCERPT:
            excerpt = excerpt[:_LONGEST_EXCERPT] if column <= _LONGEST_EXCERPT else ""
        return Where(self.name, line, column, self._shown(excerpt))

    def line(self, offset: int) -> int:
        """The number of the line that a character stands in, from 1."""
        return bisect_right(self.starts, offset)

    def find(self, text: str, start: int, end: int) -> int:
        """Offset of `text` between two offsets, else `start`: escapes and folds can hide it."""
        found = self.text.find(text, start, end)
        return start if found < 0 else found


def read(path: Path, name: str, *, kind: str = "plan file", private: bool = False) -> Source:
    """Read a text file of limited size, or a pipe (`<(…)` of a shell) that somebody writes to.

    Args:
        path: the file.
        name: of it in messages.
        kind: what it is in messages.
        private: as of `Source`.

    Raises:
        PlanError: it is not there, not readable, too large or not UTF-8 text, or a pipe without a writer.
    """
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            pipe = stat.S_ISFIFO(os.fstat(file.fileno()).st_mode)
            data = _begun(file.fileno(), name) if pipe else b""
            os.set_blocking(file.fileno(), True)
            data += file.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        raise PlanError(
            "file-not-found", f"the {kind} {name} does not exist", where=name, hint=_nearest(path, name)
        ) from None
    except IsADirectoryError:
        raise PlanError(
            "file-not-found",
            f"{name} is a folder, not a {kind}",
            where=name,
            hint=f"name the file: {name.rstrip('/')}/plan.yaml",
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise PlanError("file-unreadable", f"the {kind} {name} cannot be read: {reason}", where=name) from None
    return decode(data, name, kind=kind, private=private)


def _without_waiting(path: str, flags: int) -> int:
    """Opening a pipe would otherwise wait for a writer, for ever if none comes (fifo(7))."""
    return os.open(path, flags | os.O_NONBLOCK)


def _begun(descriptor: int, name: str) -> bytes:
    """The first bytes of a pipe, or none yet from somebody who has it open, as a shell's `<(…)` has before us.

    A pipe without a writer reads as ended (pipe(7)), so that is waited out for a moment.

    Raises:
        PlanError: nobody came.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            if data := os.read(descriptor, LARGEST_BYTES):
                return data
        except BlockingIOError:
            return b""
        if time.monotonic() > deadline:
            hint = "write to it at the same time, or name a file"
            raise PlanError("file-unreadable", f"{name} is a pipe that nobody writes to", where=name, hint=hint)
        time.sleep(0.02)


def _nearest(path: Path, name: str) -> str:
    """A file of a similar name beside it, else where to look."""
    try:
        there = [other.name for other in path.parent.iterdir() if other.suffix in (".yaml", ".yml", ".json")]
    except OSError:
        return f"there is no folder {path.parent} either; the name starts at {Path.cwd()}"
    near = get_close_matches(path.name, there, n=1)
    if near:
        return f"did you mean {name.removesuffix(path.name)}{near[0]}?"
    listed = ", ".join(sorted(there)[:_MOST_NAMES])
    return (
        f"in that folder there {'are' if len(there) > 1 else 'is'} {listed}" if there else f"look at: ls {path.parent}"
    )


def decode(data: bytes, name: str, *, kind: str = "plan file", private: bool = False) -> Source:
    """Bytes to text; arguments as of `read`.

    Raises:
        PlanError: over 1 MiB, not UTF-8, or with control characters.
    """
    if len(data) > LARGEST_BYTES:
        raise PlanError(
            "file-too-large",
            f"the {kind} is larger than 1 MiB",
            where=name,
            hint="use `matrix` instead of repeating jobs",
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
        raise PlanError(
            "not-utf8",
            f"the {kind} is not UTF-8 text: byte 0x{data[error.start]:02x} at offset {error.start}",
            where=Where(name, line, column),
            hint="save it as UTF-8",
        ) from None
    return checked(text, name, kind=kind, private=private)


def checked(text: str, name: str, *, kind: str = "plan file", private: bool = False) -> Source:
    """Text without byte order mark and without characters that YAML does not allow.

    Raises:
        PlanError: there is a control character or a lone surrogate, or it is over 1 MiB.
    """
    source = Source(text.removeprefix("\ufeff"), name, private=private)
    if found := _NOT_YAML.search(source.text):
        where = source.where(found.start())
        place = Where(name, where.line, where.column, _NOT_YAML.sub("\ufffd", where.excerpt))
        raise PlanError(
            "control-character",
            f"the {kind} holds the character U+{ord(found[0]):04X}, which text files may not hold",
            where=place,
            hint="delete it" if ord(found[0]) else "the file is not text, or is UTF-16: save it as UTF-8",
        )
    if len(source.text) > LARGEST_BYTES or len(source.text.encode()) > LARGEST_BYTES:
        raise PlanError(
            "file-too-large",
            f"the {kind} is larger than 1 MiB",
            where=name,
            hint="use `matrix` instead of repeating jobs",
        )
    return source
