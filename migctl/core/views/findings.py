"""The answer to `check`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How a finding of `check` is to be taken; names are part of the JSON contract."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One precondition of `up`, tested."""

    id: str
    level: Level
    message: str
    hint: str | None = None
    containers_only: bool = False
    """Concerns containers: jobs as processes do without it."""
