"""HTML and SVG as values: what is not markup already is escaped, so that no text of a job can become part of the page."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

from migctl.render.text import visible

_VOID: Final = frozenset({"br", "hr", "meta", "line", "rect", "path", "use", "circle", "stop", "col"})
"""Elements that are written without an end."""


class Markup(str):
    """Text that is HTML already; only `tag` and `joined` make it."""

    __slots__ = ()


Child = str | Markup | None
Value = str | int | float | None


def text(value: str) -> Markup:
    """Any text as harmless text of the page: control characters and those that turn the reading direction become visible."""
    if not (value.isascii() and value.isprintable()):
        value = "".join(char if char == "\n" else visible(char) for char in value)
    return Markup(escape(value, quote=True))


def tag(name: str, *children: Child | Iterable[Child], **attributes: Value) -> Markup:
    """One element. Children that are plain text are escaped; `None` is left out, of children and attributes.

    Args:
        name: of the element.
        attributes: `class_` is `class`, `stroke_width` is `stroke-width`; SVG's `viewBox` is written as it is.
    """
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID and not children:
        return Markup(f"<{name}{words}>" if name in ("br", "hr", "meta", "col") else f"<{name}{words}/>")
    return Markup(f"<{name}{words}>{joined(*children)}</{name}>")


def joined(*children: Child | Iterable[Child]) -> Markup:
    """Several pieces behind one another."""
    parts: list[str] = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, Markup):
            parts.append(child)
        elif isinstance(child, str):
            parts.append(text(child))
        else:
            parts.append(joined(*child))
    return Markup("".join(parts))


def number(value: str | float) -> str:
    """A coordinate with at most two digits behind the point; text as it is."""
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)
