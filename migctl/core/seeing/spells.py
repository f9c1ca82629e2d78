"""How long each verdict held: what began and ended of a run, paired."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from migctl.core.seeing.tracks import Said


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """One verdict over one stretch of time; Unix seconds."""

    job: str
    """Nothing where it is of a GPU."""
    gpu: str
    """UUID; nothing where it is of a job."""
    kind: str
    title: str
    message: str
    """The numbers as they were when it began."""
    hint: str
    begin_s: float
    end_s: float | None
    """`None`: it was never said to be over; then its job's end is the end."""

    def length_s(self, now_s: float) -> float:
        """Its length; an open one lasts to `now_s`."""
        return max(0.0, (self.end_s if self.end_s is not None else now_s) - self.begin_s)


def spells(said: Iterable[Said], ends: Mapping[str, float] | None = None) -> tuple[Spell, ...]:
    """The verdicts of a run in the order in which they began.

    Args:
        said: oldest first; an end without a beginning is left out, a second beginning ends the first.
        ends: job → when it ended: whoever watched it says no end of what he cannot see any more.
    """
    open_: dict[tuple[str, str, str], Said] = {}
    found: list[Spell] = []
    for one in said:
        key = (one.job, one.gpu, one.kind)
        before = open_.pop(key, None)
        if before is not None:
            found.append(_spell(before, one.at_s))
        if not one.over:
            open_[key] = one
    for one in open_.values():
        end = (ends or {}).get(one.job)
        found.append(_spell(one, end if end is not None and end >= one.at_s else None))
    return tuple(sorted(found, key=lambda spell: (spell.begin_s, spell.job, spell.gpu, spell.kind)))


def _spell(one: Said, end_s: float | None) -> Spell:
    return Spell(
        job=one.job,
        gpu=one.gpu,
        kind=one.kind,
        title=one.title,
        message=one.message,
        hint=one.hint,
        begin_s=one.at_s,
        end_s=end_s,
    )
