"""Text for a terminal: made harmless, measured in columns, cut and wrapped."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from migctl.render.console import Style

_SGR = re.compile(r"\x1b\[[0-9;]*m")
"""Only what `Style.paint` writes; everything else of that kind is escaped by `clean`."""

_PARTS = re.compile(r"\x1b\[[0-9;]*m|.", re.DOTALL)

_TYPED = "sudo --preserve-env="
"""How a line begins that is to be typed as it stands; half of it, copied, would run too."""

_ASCII: Mapping[int, str] = {
    ord(sign): plain
    for sign, plain in {
        "…": "...", "·": "-", "–": "-", "—": "-", "−": "-", "×": "x", "÷": "/", "→": "->", "≥": ">=", "≤": "<=",
        "‘": "'", "’": "'", "“": '"', "”": '"', "µ": "u", "\u00a0": " ", "≈": "~", "∩": "and", "▸": ">", "↳": ">",
    }.items()
}  # fmt: skip

WIDEST = 100
"""What is drawn or set at the right edge goes no further: the eye would have to travel."""

Cut = Literal["end", "middle"]


def clean(text: str, style: Style) -> str:
    r"""The text as one harmless line: control, format and surrogate characters become visible escapes.

    A job's output or a file name must not be able to move the cursor, colour the screen or turn the reading direction.
    Without Unicode, typographic signs get their ASCII likeness and other characters become `\uXXXX`.
    """
    if not style.unicode:
        text = text.translate(_ASCII)
        if not text.isascii():
            text = text.encode("ascii", "backslashreplace").decode("ascii")
    if text.isascii() and text.isprintable():
        return text
    return "".join(visible(char) for char in text)


def visible(char: str) -> str:
    """One character, or its escape where it is one that is not seen or that changes what is seen."""
    if char == "\t":
        return " "
    # The two joiners are part of ordinary words in some scripts.
    if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") and char not in "\u200c\u200d":
        return char.encode("unicode_escape", "surrogatepass").decode("ascii")
    return char


def width(text: str) -> int:
    """Columns that the text takes; Korean and other wide characters take two, combining marks none."""
    if text.isascii() and "\x1b" not in text:
        return len(text)
    return sum(_width(char) for char in _SGR.sub("", text))


def _width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def fit(text: str, columns: int, style: Style, cut: Cut = "end") -> str:
    """The text (without looks) in at most so many columns; what is left out is marked."""
    if width(text) <= columns:
        return text
    mark = style.signs.ellipsis
    room = columns - 1
    if room < 0:
        return ""
    if cut == "end":
        return _head(text, room).rstrip() + mark
    # Names of a sweep differ at their end: two thirds go to the end only where the beginning still says something.
    tail = _tail(text, room // 2)
    return _head(text, room - width(tail)) + mark + tail


def _head(text: str, columns: int) -> str:
    taken = 0
    for position, char in enumerate(text):
        taken += _width(char)
        if taken > columns:
            return text[:position]
    return text


def _tail(text: str, columns: int) -> str:
    taken = 0
    for position in range(len(text) - 1, -1, -1):
        taken += _width(text[position])
        if taken > columns:
            return text[position + 1 :]
    return text


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """The text (looks allowed) filled with spaces to so many columns."""
    space = " " * max(0, columns - width(text))
    return space + text if right else text + space


def wrap(text: str, columns: int, style: Style) -> list[str]:
    """The text cleaned and broken between words; a word that is too long is broken inside. At least one line."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        # A run of blanks counts as one, except at the beginning, where it is somebody's indent.
        for word in clean(paragraph, style).split():
            if line and width(line) + 1 + width(word) <= columns:
                line = f"{line} {word}"
                continue
            if line:
                lines.append(line)
            while width(word) > columns:
                head = _head(word, columns) or word[0]
                lines.append(head)
                word = word[len(head) :]
            line = word
        lines.append(line)
    return lines


def _folded(text: str, columns: int, style: Style) -> list[str]:
    """A line that is to be typed as it stands stays whole, however narrow the terminal."""
    return [clean(text, style)] if text.startswith(_TYPED) else wrap(text, columns, style)


def hang(label: str, text: str, style: Style, *, indent: int = 0, look: tuple[str, ...] = ()) -> list[str]:
    """`label text` wrapped so that further lines stand under the text; the label alone gets the look."""
    label = clean(label, style)
    left = indent + width(label) + (1 if label else 0)
    room = max(10, style.columns - left)
    first, *rest = [line for part in text.split("\n") for line in _folded(part, room, style)]
    lead = f"{' ' * indent}{style.paint(label, *look)}{' ' if label else ''}"
    return [f"{lead}{first}".rstrip(), *(f"{' ' * left}{line}" for line in rest)]


def clip(line: str, style: Style) -> str:
    """The finished line (looks allowed) in the terminal's width: what a picture cannot shrink is cut at the right."""
    if width(line) <= style.columns or _TYPED in line:
        return line
    kept: list[str] = []
    taken = 0
    for part in _PARTS.findall(line):
        if part.startswith("\x1b"):
            kept.append(part)
            continue
        if taken + _width(part) > style.columns - 1:
            break
        taken += _width(part)
        kept.append(part)
    return "".join(kept).rstrip() + style.signs.ellipsis + ("\x1b[0m" if "\x1b" in line else "")


def page(blocks: Iterable[Sequence[str]], style: Style) -> str:
    """Blocks of lines with a blank line between them and a newline at the end; empty blocks are left out."""
    return "\n\n".join("\n".join(clip(line, style) for line in block) for block in blocks if block) + "\n"


def sides(left: str, right: str, style: Style) -> str:
    """Two texts (looks allowed) at both ends of a line; the right one moves up, or goes, where there is no room."""
    gap = min(WIDEST, style.columns) - width(left) - width(right)
    if not right:
        return left
    if gap < 2 and width(left) + 2 + width(right) <= style.columns:
        gap = 2
    return f"{left}{' ' * gap}{right}" if gap >= 2 else f"{left}\n{right}"


def gib(mib: int | None, digits: int = 1) -> str:
    """MiB as `4.8 GiB`; unknown is `n/a`."""
    return "n/a" if mib is None else f"{mib / 1024:.{digits}f} GiB"


def duration(seconds: float) -> str:
    """`8s`, `12m`, `2h 13m`, `3d 4h`: two units at most, rounded down; a clock that went back counts as 0."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 60:
        return f"{minutes}m"
    if hours < 24:
        return f"{hours}h {minutes % 60}m" if minutes % 60 else f"{hours}h"
    return f"{days}d {hours % 24}h" if hours % 24 else f"{days}d"
