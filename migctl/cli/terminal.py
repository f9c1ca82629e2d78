"""What the terminal can do, read once."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import TextIO

from migctl.render.console import Style


def style(stream: TextIO, environ: Mapping[str, str], *, no_color: bool) -> Style:
    """Colour, signs and width for this stream (NO_COLOR, FORCE_COLOR, TERM, COLUMNS are respected)."""
    tty = stream.isatty()
    colour = (tty or bool(environ.get("FORCE_COLOR"))) and not no_color and not environ.get("NO_COLOR")
    encoding = (stream.encoding or "ascii").lower().replace("-", "")
    return Style(
        tty=tty,
        color=colour and environ.get("TERM") != "dumb",
        unicode=encoding.startswith("utf"),
        width=shutil.get_terminal_size((80, 24)).columns if tty or environ.get("COLUMNS") else 80,
    )
