"""How to write on one terminal: colour or not, Unicode signs or ASCII, and how wide; read nowhere, passed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_CODES: Mapping[str, str] = {
    "bold": "1",
    "dim": "2",
    "italic": "3",
    "underline": "4",
    "reverse": "7",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
    # Colours of jobs: six that are told apart on dark and on light backgrounds, then the same underlined.
    "job0": "36",
    "job1": "33",
    "job2": "35",
    "job3": "32",
    "job4": "34",
    "job5": "31",
    "job6": "4;36",
    "job7": "4;33",
    "job8": "4;35",
    "job9": "4;32",
    "job10": "4;34",
    "job11": "4;31",
}
JOB_LOOKS = 12
"""How many colours for jobs there are before they begin again."""

LEAST_WIDTH = 20
"""Narrower terminals get lines of this width."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """The signs that pictures are made of; each is one column wide."""

    horizontal: str
    vertical: str
    corners: str
    """Top left, top right, bottom left, bottom right."""
    tees: str
    """Top, bottom."""
    ellipsis: str
    dot: str
    """Between two facts on a line, with its spaces."""
    free: str
    foreign: str
    ours: str
    isolated: str
    reserved: str
    ok: str
    warning: str
    failure: str
    arrow: str
    full: str
    empty: str
    times: str


UNICODE = Signs(
    horizontal="─",
    vertical="│",
    corners="┌┐└┘",
    tees="┬┴",
    ellipsis="…",
    dot=" · ",
    free="·",
    foreign="▒",
    ours="░",
    isolated="×",
    reserved="□",
    ok="✓",
    warning="!",
    failure="✗",
    arrow="→",
    full="━",
    empty="─",
    times="×",
)
ASCII = Signs(
    horizontal="-",
    vertical="|",
    corners="++++",
    tees="++",
    ellipsis="~",
    dot="; ",
    free=".",
    foreign="#",
    ours="%",
    isolated="!",
    reserved="_",
    ok="+",
    warning="!",
    failure="x",
    arrow=">",
    full="=",
    empty="-",
    times="x",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """What the terminal can do."""

    tty: bool = False
    color: bool = False
    unicode: bool = True
    width: int = 80

    @classmethod
    def of(cls, *, tty: bool, environ: Mapping[str, str], encoding: str, width: int, no_color: bool = False) -> Style:
        """Decide from what is known of a stream.

        NO_COLOR (set and not empty) and TERM=dumb turn colour off, FORCE_COLOR turns it on where there is no terminal.

        Args:
            tty: the stream is a terminal.
            environ: the process's environment.
            encoding: of the stream; only UTF encodings carry box signs for certain.
            width: columns.
            no_color: `--no-color`.
        """
        wanted = tty or bool(environ.get("FORCE_COLOR"))
        refused = no_color or bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
        return cls(
            tty=tty,
            color=wanted and not refused,
            unicode=encoding.lower().replace("-", "").replace("_", "").startswith("utf"),
            width=max(LEAST_WIDTH, width),
        )

    @property
    def signs(self) -> Signs:
        """Unicode or ASCII."""
        return UNICODE if self.unicode else ASCII

    @property
    def columns(self) -> int:
        """The width to keep within."""
        return max(LEAST_WIDTH, self.width)

    def paint(self, text: str, *looks: str) -> str:
        """The text with its looks (`bold`, `red`, `job3` …), or as it is without colour."""
        codes = ";".join(_CODES[look] for look in looks)
        return f"\x1b[{codes}m{text}\x1b[0m" if self.color and codes and text else text
