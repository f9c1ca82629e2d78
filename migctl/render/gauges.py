"""Small pictures of figures: a bar of one sign for a share, and a line of them for how it went."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.render.console import Style

_BARS = "▁▂▃▄▅▆▇█"
_DIGITS = "0123456789"
UNKNOWN = "?"


def bar(share: float | None, style: Style) -> str:
    """One sign for a part of 1: a block as high as the part, without Unicode the tenths; `?` where it is not known."""
    if share is None:
        return UNKNOWN
    signs = _BARS if style.unicode else _DIGITS
    return signs[min(len(signs) - 1, max(0, int(share * len(signs))))]


def sparkline(shares: Sequence[float | None], columns: int, style: Style) -> str:
    """The last of these, one sign each, the newest at the right; a gap where one is not known."""
    return "".join(" " if share is None else bar(share, style) for share in shares[-columns:]).rjust(columns)
