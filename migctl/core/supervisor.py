"""The command line of a process job's supervisor: it tells whoever lists processes which job it watches, and on which device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_SCRIPT = "/shim.py"
_ISOLATED = ("-I", "-S")
_WORDS = 6
"""The interpreter, its two options, the script, and two descriptors; what follows is for others to read."""


@dataclass(frozen=True, slots=True)
class Supervised:
    """What a supervisor says of its job; empty where it is of a version that said less."""

    job: str = ""
    """`RUN/JOB`."""
    device: str = ""
    """UUID of a MIG device or GPU."""


def told_words(run: str, job: str, device: str | None) -> tuple[str, str]:
    """The words that a supervisor's command line ends with."""
    return f"{run}/{job}", device or ""


def supervised(words: Sequence[str]) -> Supervised | None:
    """What a command line says, if it is a supervisor's: `python -I -S …/shim.py LOCK READY RUN/JOB DEVICE`."""
    if len(words) < _WORDS or tuple(words[1:3]) != _ISOLATED or not words[3].endswith(_SCRIPT):
        return None
    return Supervised(*words[_WORDS : _WORDS + 2])
