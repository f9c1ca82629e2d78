"""What all pictures of a report share: one time axis, one colour a job, one width."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from migctl.core.views.report import ReportView
from migctl.render.report.clock import Clock, Span
from migctl.render.report.markup import Markup, joined, tag

WIDTH: Final = 1000
"""Of every picture, in its own units; on the page it is as wide as the page."""
LEFT: Final = 96
"""Room for the words of the rows."""
RIGHT: Final = 12
COLOURS: Final = 10
AXIS: Final = 26
"""Height of the time axis below a picture."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Of one report."""

    view: ReportView
    clock: Clock
    span: Span
    numbers: Mapping[str, int]
    """Job → its place in the plan's order."""

    @classmethod
    def of(cls, view: ReportView) -> Frame:
        """The frame of a report."""
        numbers = {job: number for number, job in enumerate(view.jobs)}
        return cls(view, Clock.of(view), Span.of(view), numbers)

    def colour(self, job: str) -> int:
        """Number of the job's colour in the style sheet."""
        return self.numbers.get(job, 0) % COLOURS

    def x(self, at_s: float) -> float:
        """Where a moment stands."""
        return LEFT + self.span.share(at_s) * (WIDTH - LEFT - RIGHT)

    def axis(self, top: float, bottom: float) -> Markup:
        """Lines at round times through the picture, and their words below it."""
        parts: list[Markup] = []
        for at_s, words in self.span.marks(self.clock):
            x = self.x(at_s)
            parts.append(tag("line", class_="grid", x1=x, x2=x, y1=top, y2=bottom))
            anchor = "end" if x > WIDTH - 40 else "middle"
            parts.append(tag("text", words, class_="tick", x=x, y=bottom + 17, text_anchor=anchor))
        return joined(parts)


def picture(name: str, title: str, description: str, height: float, *parts: Markup, width: int = WIDTH) -> Markup:
    """An SVG with a title and a description for those who do not see it."""
    return tag(
        "svg",
        tag("title", title, id=f"{name}-t"),
        tag("desc", description, id=f"{name}-d"),
        *parts,
        viewBox=f"0 0 {width} {height:g}",
        role="img",
        aria_labelledby=f"{name}-t {name}-d",
        xmlns="http://www.w3.org/2000/svg",
    )


def figure(drawn: Markup, caption: str | Markup) -> Markup:
    """A picture with what it shows in words below it."""
    return tag("figure", tag("div", drawn, class_="scroll"), tag("figcaption", caption))


def cut(words: str, room: float, size: float = 12.0) -> str:
    """The words as far as they have room, in units of a picture; nothing where not even a few letters have."""
    most = int(room / (size * 0.58))
    if len(words) <= most:
        return words
    return f"{words[: most - 1]}…" if most >= 4 else ""


def percent(part: float) -> str:
    """A part of a whole: `94 %`, which stays together on its line."""
    return f"{100 * part:.0f}\u00a0%"
