"""Which jobs of a run ran other code than its first: their source was edited while they waited."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from migctl.core.code import Code
from migctl.core.runs.record import Record
from migctl.errors import Notice

_MOST: Final = 4


@dataclass(frozen=True, slots=True)
class _Ran:
    job: str
    started_at: float
    code: Code


def other_code(run: str, records: Iterable[Record]) -> Notice | None:
    """What to say of a run whose jobs did not all run the same code; nothing where they did."""
    ran = [_Ran(r.job, r.started_at, r.code) for r in records if r.code is not None and r.started_at is not None]
    in_time = sorted(ran, key=lambda one: (one.started_at, one.job))
    strays = [one for one in in_time[1:] if not one.code.same(in_time[0].code)]
    if not strays:
        return None
    first = in_time[0]
    groups: dict[str, list[str]] = {}
    for one in strays:
        groups.setdefault(str(one.code), []).append(one.job)
    parts = [f"{_listed(jobs)}: {code}" for code, jobs in list(groups.items())[:_MOST]]
    if len(groups) > _MOST:
        parts.append(f"and {len(groups) - _MOST} other states")
    return Notice(
        "other-code",
        f"not all jobs of {run} ran the same code: {first.job} ran {first.code}; {'; '.join(parts)}",
        hint="snapshot: true runs all of them on a copy of the source taken at up",
        where=f"run {run}",
    )


def _listed(jobs: Sequence[str]) -> str:
    shown = ", ".join(jobs[:_MOST])
    return shown if len(jobs) <= _MOST else f"{shown} and {len(jobs) - _MOST} more"
