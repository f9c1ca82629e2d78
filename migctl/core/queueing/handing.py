"""What becomes of the instances of ended jobs when others start: passed on as they are, or destroyed to make room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from migctl.core.gpu.company import company_of
from migctl.core.runs.record import Action, Ownership, Record
from migctl.core.runs.steps import Chain, chain

if TYPE_CHECKING:
    from migctl.core.queueing.decision import Start
    from migctl.core.queueing.turn import Spare


@dataclass(frozen=True, slots=True, kw_only=True)
class Handing:
    """Who gives up which instance."""

    taken: Mapping[str, Ownership] = field(default_factory=dict)
    """Starting job → the instance that it gets as it is."""
    given: Mapping[str, Record] = field(default_factory=dict)
    """Ended jobs whose instance is another's from now on: their records without it."""
    cleared: Mapping[str, Record] = field(default_factory=dict)
    """Ended jobs whose instance is destroyed first."""
    removed: Mapping[str, Record] = field(default_factory=dict)
    """Jobs that are run once more: their last attempt, whose container goes first."""

    @property
    def clearing(self) -> tuple[Chain, ...]:
        """The steps that make room."""
        return tuple(
            chain(
                name,
                *((Action.REMOVE_CONTAINER,) if name in self.removed else ()),
                *((Action.DESTROY_COMPUTE_INSTANCE, Action.DESTROY_GPU_INSTANCE) if name in self.cleared else ()),
            )
            for name in self.clearing_records
        )

    @property
    def clearing_records(self) -> Mapping[str, Record]:
        """What those steps begin with."""
        return {**self.removed, **self.cleared}


def handings(starts: Sequence[Start], records: Mapping[str, Record]) -> Handing:
    """Match what the queue wants to pass on and to destroy with the records that own it."""
    owners: dict[tuple[str, int], list[str]] = {}
    for name, record in records.items():
        if record.instance is not None and not record.instance.foreign and record.state.ended:
            owners.setdefault((record.instance.gpu_uuid, record.instance.gi_id), []).append(name)
    taken: dict[str, Ownership] = {}
    given: dict[str, Record] = {}
    cleared: dict[str, Record] = {}
    for start in starts:
        if start.takes_over is not None:
            names = owners[_key(start.takes_over)]
            owned = records[names[0]].instance
            assert owned is not None
            taken[start.job] = owned
            given.update({name: replace(records[name], instance=None) for name in names})
        for spare in start.destroys:
            cleared.update({name: records[name] for name in owners[_key(spare)]})
    again = {start.job: records[start.job] for start in starts if start.job in records}
    over = {(owned.gpu_uuid, owned.gi_id) for owned in taken.values()}
    for name, record in again.items():
        # The record of the next attempt takes the place of this one, which alone tells of its instance.
        owned = record.instance
        key = (owned.gpu_uuid, owned.gi_id) if owned is not None else None
        if key is not None and key not in over and name in owners.get(key, ()):
            cleared[name] = record
    return Handing(
        taken=taken,
        given={name: record for name, record in given.items() if name not in again},
        cleared=cleared,
        removed={name: record for name, record in again.items() if record.container_id is not None},
    )


def is_spent(record: Record) -> bool:
    """Whether of an ended job only its container is left: the instance that it had is another's by now, or gone.

    The container of a job that had a whole GPU stays until `down`, as there is nothing to tell whose place that is.
    """
    if not record.state.ended or record.container_id is None:
        return False
    return record.instance is None and record.profile_id is not None


def sole_owners(records: Mapping[str, Record]) -> dict[str, Record]:
    """Each instance belongs to the job that uses it, or to the last who did; one with several seats to as many jobs.

    A crash can lie between writing the job that takes over and the one that gives: then both records name the instance. Only
    those of one company can be alive together, whatever a clock that was set back says of their age. An ended job keeps its
    seat until somebody else takes it.

    Args:
        records: settled ones, by job.
    """
    named: dict[tuple[str, int, str], list[Record]] = {}
    for record in records.values():
        if record.instance is not None and not record.instance.foreign:
            key = (record.instance.gpu_uuid, record.instance.gi_id, record.instance.boot_id)
            named.setdefault(key, []).append(record)
    out = {record.job for here in named.values() if len(here) > 1 for record in _unseated(here)}
    if not out:
        return dict(records)
    return {name: replace(record, instance=None) if name in out else record for name, record in records.items()}


def _unseated(named: Sequence[Record]) -> list[Record]:
    """Of the records that name one instance those that have lost it to the others."""
    first, *others = sorted(named, key=_claim, reverse=True)
    kept = company_of(first)
    seats = kept.seats if kept is not None else 1
    mates = [record for record in others if kept is not None and company_of(record) == kept]
    alive = sum(not record.state.ended for record in (first, *mates))
    staying = {record.job for n, record in enumerate(mates, 2) if n <= max(seats, alive)}
    return [record for record in others if record.job not in staying]


def _claim(record: Record) -> tuple[bool, float, str]:
    return (not record.state.ended, record.created_at or 0.0, record.job)


def _key(spare: Spare) -> tuple[str, int]:
    return (spare.gpu_uuid, spare.gi_id)
