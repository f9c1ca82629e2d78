"""What the terminal can do, read once."""

from __future__ import annotations

import os
from typing import TextIO

from migctl.render.console import Style


def style(stream: TextIO, *, no_color: bool) -> Style:
    """Colour, signs and width for this stream."""
    tty = stream.isatty()
    width = _columns() if tty or os.environ.get("COLUMNS") else 80
    return Style.of(tty=tty, environ=os.environ, encoding=stream.encoding or "ascii", width=width, no_color=no_color)


def _columns() -> int:
    """As `shutil.get_terminal_size`, which takes longer to load than all else here."""
    said = os.environ.get("COLUMNS", "")
    if said.isascii() and said.isdigit() and int(said) > 0:
        return int(said)
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:
        return 80
