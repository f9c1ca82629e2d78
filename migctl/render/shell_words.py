"""Words of a POSIX shell that mean exactly their text, whatever is in it; what is known only at the start becomes a variable."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from migctl.core.handover import Reference, parts

_SPECIAL = re.compile(r'([\\"$`])')
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def word(text: str) -> str:
    """One word. `${MIGCTL_…}` in it stays a variable, everything else is quoted."""
    pieces = list(parts(text))
    if not pieces:
        return "''"
    return "".join(_variable(piece) if isinstance(piece, Reference) else shlex.quote(piece) for piece in pieces)


def words(texts: Iterable[str]) -> str:
    """Several words with blanks between them."""
    return " ".join(map(word, texts))


def is_name(text: str) -> bool:
    """Whether a shell can have a variable of this name."""
    return _NAME.fullmatch(text) is not None


def comment(text: str) -> str:
    """A comment line; a line break in it would end the comment."""
    return f"# {' '.join(text.splitlines())}".rstrip()


def wrapped(head: str, rest: Iterable[str], width: int = 120) -> str:
    """A command over several lines, broken with backslashes between words or groups of words."""
    lines = [head]
    for part in rest:
        # Nothing is joined to a word that spans lines itself: its end would be hard to find.
        if len(lines[-1]) + len(part) + 3 > width or "\n" in lines[-1] or "\n" in part:
            lines.append(f"    {part}")
        else:
            lines[-1] += f" {part}"
    return " \\\n".join(lines)


def here_document(text: str, mark: str = "END") -> tuple[str, str]:
    """A mark that is no line of the text, and the text with its last line ended."""
    lines = set(text.splitlines())
    number = 0
    chosen = mark
    while chosen in lines:
        number += 1
        chosen = f"{mark}{number}"
    return chosen, text if text.endswith("\n") else f"{text}\n"


def _variable(reference: Reference) -> str:
    if not reference.sign:
        return f'"${{{reference.name}}}"'
    escaped = _SPECIAL.sub(r"\\\1", reference.word)
    return f'"${{{reference.name}:{reference.sign}{escaped}}}"'
