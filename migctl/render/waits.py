"""Jobs that wait, together by what they wait for."""

from __future__ import annotations

from collections.abc import Mapping

from migctl.render.console import Style
from migctl.render.folding import names
from migctl.render.text import clean

_MOST = 6
"""Reasons that are told."""


def waits_by_reason(waits: Mapping[str, str], style: Style) -> list[str]:
    """`a, b and 5 more: no room: needs 2g.10gb`, a line a reason."""
    groups: dict[str, list[str]] = {}
    for job, why in waits.items():
        groups.setdefault(why, []).append(job)
    lines = [
        f"{names([clean(job, style) for job in jobs])}: {clean(why, style)}"
        for why, jobs in list(groups.items())[:_MOST]
    ]
    rest = list(groups.values())[_MOST:]
    if rest:
        lines.append(f"{style.signs.ellipsis} and {sum(map(len, rest))} more for {len(rest)} other reasons")
    return lines
