"""What becomes of the instances of ended jobs when others start: passed on as they are, or destroyed to make room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from migctl.core.queue import Start
from migctl.core.record import Action, Ownership, Record
from migctl.core.steps import Chain, chain
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

    @property
    def clearing(self) -> tuple[Chain, ...]:
        """The steps that make room."""
        return tuple(chain(name, Action.DESTROY_COMPUTE_INSTANCE, Action.DESTROY_GPU_INSTANCE) for name in self.cleared)


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
    return Handing(taken=taken, given=given, cleared=cleared)


def _key(spare: Spare) -> tuple[str, int]:
    return (spare.gpu_uuid, spare.gi_id)
