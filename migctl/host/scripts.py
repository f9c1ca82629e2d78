"""The scripts of a folder, for a look at what in it may be a training."""

from __future__ import annotations

import os
import stat
from pathlib import Path

MOST = 200
"""Files that are looked into; a folder with more scripts is no project."""
LARGEST_BYTES = 256 << 10


def script_texts(folder: Path) -> dict[str, str]:
    """Name → text of the Python and shell scripts that lie in the folder itself; what cannot be read is left out."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(e.name for e in entries if e.name.endswith((".py", ".sh")) and not e.name.startswith("."))
    except OSError:
        return {}
    texts = {name: _text(folder / name) for name in found[:MOST]}
    return {name: text for name, text in texts.items() if text is not None}


def _text(path: Path) -> str | None:
    """A pipe of that name is not waited for, and names that no text can hold are nobody's training."""
    try:
        str(path).encode()
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST_BYTES:
                return None
            return file.read(LARGEST_BYTES).decode("utf-8", "replace")
    except (OSError, UnicodeEncodeError):
        return None
