"""The command line of a process job's shim: it tells whoever lists processes which job it watches, and on which device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_SCRIPT = "/shim.py"
_ISOLATED = ("-I", "-S")
_WORDS = 6
"""The interpreter, its two options, the script, and two descriptors; what follows is for others to read."""


@dataclass(frozen=True, slots=True)
class Shim:
    """What a shim says of its job; empty where it is of a version that said less."""

    job: str = ""
    """`RUN/JOB`."""
    device: str = ""
    """UUID of a MIG device or GPU."""


def shim_words(run: str, job: str, device: str | None) -> tuple[str, str]:
    """The words that a shim's command line ends with."""
    return f"{run}/{job}", device or ""


def shim_of(words: Sequence[str]) -> Shim | None:
    """What a command line says, if it is a shim's: `python -I -S …/shim.py LOCK READY RUN/JOB DEVICE`."""
    if len(words) < _WORDS or tuple(words[1:3]) != _ISOLATED or not words[3].endswith(_SCRIPT):
        return None
    return Shim(*words[_WORDS : _WORDS + 2])
