"""How a training tells its progress: one line of text, on its standard output or in a file."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

FILE_VARIABLE = "MIGCTL_SAMPLES_FILE"
"""Names the file that a tuned job may append its lines to; absent where there is none."""

_LINE = re.compile(r"migctl: samples=(?P<samples>[0-9]{1,18})(?P<rest>(?: [a-z_]+=[^ ]+)*)\s*")


@dataclass(frozen=True, slots=True)
class Progress:
    """What a line says of the process that wrote it."""

    samples: int
    """Finished since its start."""
    wait_s: float | None = None
    """Seconds since its start in which it waited for data; `None` = it does not tell."""


def parse(line: str) -> Progress | None:
    """The progress in a line; `None` for every other output, a line that is not finished included.

    A progress bar that shares the stream leaves its text and a carriage return before ours.
    """
    found = _LINE.fullmatch(line.rpartition("\r")[2] or line.rstrip("\r").rpartition("\r")[2])
    if found is None:
        return None
    values = dict(word.split("=", 1) for word in found["rest"].split())
    return Progress(samples=int(found["samples"]), wait_s=_seconds(values.get("wait")))


def _seconds(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
