"""What the terminal can do, read once."""

from __future__ import annotations

import os
import shutil
from typing import TextIO

from migctl.render.console import Style


def style(stream: TextIO, *, no_color: bool) -> Style:
    """Colour, signs and width for this stream."""
    tty = stream.isatty()
    width = shutil.get_terminal_size((80, 24)).columns if tty or os.environ.get("COLUMNS") else 80
    return Style.of(tty=tty, environ=os.environ, encoding=stream.encoding or "ascii", width=width, no_color=no_color)
