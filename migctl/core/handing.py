"""What becomes of the instances of ended jobs when others start: passed on as they are, or destroyed to make room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from migctl.core.record import Action, Ownership, Record
from migctl.core.steps import Chain, chain

if TYPE_CHECKING:
    from migctl.core.decision import Start
    from migctl.core.turn import Spare


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
    owners = {
        (record.instance.gpu_uuid, record.instance.gi_id): name
        for name, record in records.items()
        if record.instance is not None and not record.instance.foreign and record.state.ended
    }
    taken: dict[str, Ownership] = {}
    given: dict[str, Record] = {}
    cleared: dict[str, Record] = {}
    for start in starts:
        if start.takes_over is not None:
            name = owners[_key(start.takes_over)]
            owned = records[name].instance
            assert owned is not None
            taken[start.job] = owned
            given[name] = replace(records[name], instance=None)
        for spare in start.destroys:
            name = owners[_key(spare)]
            cleared[name] = records[name]
    again = {start.job: records[start.job] for start in starts if start.job in records}
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
    """Each instance belongs to the job that uses it, or to the last who did.

    A crash can lie between writing the job that takes over and the one that gives: then both records name the instance. Only
    one of these can be alive, whatever a clock that was set back says of their age.

    Args:
        records: settled ones, by job.
    """
    last: dict[tuple[str, int, str], Record] = {}
    for record in records.values():
        if record.instance is None or record.instance.foreign:
            continue
        key = (record.instance.gpu_uuid, record.instance.gi_id, record.instance.boot_id)
        known = last.get(key)
        if known is None or _claim(known) < _claim(record):
            last[key] = record
    return {
        name: record
        if record.instance is None
        or record.instance.foreign
        or last[record.instance.gpu_uuid, record.instance.gi_id, record.instance.boot_id] is record
        else replace(record, instance=None)
        for name, record in records.items()
    }


def _claim(record: Record) -> tuple[bool, float, str]:
    return (not record.state.ended, record.created_at or 0.0, record.job)


def _key(spare: Spare) -> tuple[str, int]:
    return (spare.gpu_uuid, spare.gi_id)
