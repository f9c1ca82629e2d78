"""The first lines of an answer: what it is about, its facts, and whether the GPUs are simulated."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.render.console import Style
from migctl.render.text import clean, fit, hang, sides, width


def heading(kind: str, name: str, facts: Sequence[str], simulated: str, style: Style) -> list[str]:
    """`plan lr-sweep    simulated (sim:a100-40gb)`, and below it the facts."""
    label = f"simulated ({simulated})" if simulated else ""
    if width(label) > style.columns // 2:
        label = "simulated"
    badge = style.paint(clean(label, style), "yellow", "bold") if label else ""
    room = style.columns - width(kind) - 1 - (width(label) + 2 if label else 0)
    title = style.paint(fit(clean(name, style), max(8, room), style, "middle"), "bold") if name else ""
    line = sides(f"{style.paint(kind, 'dim' if name else 'bold')} {title}".rstrip(), badge, style)
    return [*line.split("\n"), *(hang("", style.signs.dot.join(facts), style) if facts else [])]
