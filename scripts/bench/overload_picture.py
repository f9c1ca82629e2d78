"""The picture of the proof: bars with the spread of the rounds, as SVG that reads on light and on dark pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

PANELS = (
    ("total_per_s", "samples/s in total", "more is better"),
    ("watched_per_s", "samples/s, slowest or light", "more is better"),
    ("p95_ms", "p95 of the batch time", "less is better"),
    ("memory_mib", "memory", "less is better"),
)
MOST = 3.0
"""Where the axes end; a longer bar is cut and says its number."""
LABEL_W, PANEL_W, GAP, BAR_H, GROUP_GAP, TOP = 310, 170, 48, 15, 24, 64
BY_HAND, OWN, TEXT, LINE = "#9aa5b1", "#2f7d4f", "#1f2933", "#d5dbe1"


@dataclass(frozen=True, slots=True)
class Bar:
    """One arrangement: for each figure how many times the naive one it is (median, least, most)."""

    label: str
    own: bool
    """Whether migctl did it."""
    times: Mapping[str, tuple[float, float, float]]


@dataclass(frozen=True, slots=True)
class Group:
    """One situation."""

    title: str
    bars: tuple[Bar, ...]


def text(x: float, y: float, words: str, *, size: int = 11, weight: str = "normal", anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
        f'fill="{TEXT}">{escape(words)}</text>'
    )


def bar(x: float, y: float, times: tuple[float, float, float] | None, colour: str) -> list[str]:
    """A bar from `x` on, its whisker, and its number."""
    if times is None:
        return [text(x + 4, y + 11, "n/a", size=10)]
    median, least, most = (min(value, MOST) / MOST * PANEL_W for value in times)
    middle = y + (BAR_H - 3) / 2
    return [
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{median:.1f}" height="{BAR_H - 3}" fill="{colour}"/>',
        f'<line x1="{x + least:.1f}" y1="{middle:.1f}" x2="{x + most:.1f}" y2="{middle:.1f}" stroke="{TEXT}"/>',
        text(x + max(most, median) + 4, y + 10, f"{times[0]:.2f}", size=10),
    ]


def picture(groups: Sequence[Group], caption: str) -> str:
    """The whole picture."""
    width = LABEL_W + len(PANELS) * (PANEL_W + GAP) + 20
    y: float = TOP
    parts: list[str] = []
    for group in groups:
        parts.append(text(12, y + 11, group.title, weight="bold"))
        y += BAR_H + 2
        for one in group.bars:
            parts.append(text(24, y + 10, one.label))
            for number, (figure, _, _) in enumerate(PANELS):
                x = LABEL_W + number * (PANEL_W + GAP)
                parts += bar(x, y, one.times.get(figure), OWN if one.own else BY_HAND)
            y += BAR_H
        y += GROUP_GAP - BAR_H
    head: list[str] = []
    for number, (_, title, better) in enumerate(PANELS):
        x = LABEL_W + number * (PANEL_W + GAP)
        naive = x + PANEL_W / MOST
        head += [
            text(x, 24, title, weight="bold"),
            text(x, 40, better, size=10),
            f'<line x1="{x}" y1="{TOP - 10}" x2="{x}" y2="{y}" stroke="{LINE}"/>',
            f'<line x1="{naive:.1f}" y1="{TOP - 10}" x2="{naive:.1f}" y2="{y}" stroke="{TEXT}" stroke-dasharray="3 3"/>',
            text(naive, TOP - 13, "naive = 1", size=9, anchor="middle"),
        ]
    legend = [
        f'<rect x="12" y="14" width="12" height="12" fill="{OWN}"/>',
        text(30, 24, "migctl"),
        f'<rect x="92" y="14" width="12" height="12" fill="{BY_HAND}"/>',
        text(110, 24, "careful, by hand"),
        text(12, y + 22, caption, size=10),
    ]
    height = y + 36
    size = f'width="{width}" height="{height:.0f}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width} {height:.0f}" font-family="sans-serif">',
            f'<rect {size} fill="#ffffff"/>',
            *legend,
            *head,
            *parts,
            "</svg>",
            "",
        ]
    )
