"""From what is wanted, what is recorded and what is there to the steps that remain; pure, and the same after every crash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from migctl.core.gpu.company import held_by_others
from migctl.core.runs.observed import Observed
from migctl.core.runs.ownership import Standing, has_open_half, standing
from migctl.core.runs.record import Action, JobState, Record
from migctl.core.runs.steps import Chain, chain


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One job of the plan, as far as sameness is concerned."""

    job: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How a plan differs from the run that is there, job by job. All in the plan's order, removed ones last."""

    kept: tuple[str, ...]
    """Recorded and the same: nothing is done, whatever state they are in."""
    unfinished: tuple[str, ...]
    """Recorded and the same, but an earlier `up` was cut short before they ran."""
    new: tuple[str, ...]
    changed: tuple[str, ...]
    """Recorded with other keys: kept as they are unless replacing was asked for."""
    removed: tuple[str, ...]
    """Recorded and no longer in the plan: kept unless replacing was asked for."""


def difference(wanted: Sequence[Wanted], records: Mapping[str, Record]) -> Difference:
    """Compare a plan with the settled records of its run."""
    kept: list[str] = []
    unfinished: list[str] = []
    new: list[str] = []
    changed: list[str] = []
    for want in wanted:
        record = records.get(want.job)
        if record is None:
            new.append(want.job)
        elif record.digest != want.digest:
            changed.append(want.job)
        elif record.state in (JobState.QUEUED, JobState.STARTING):
            unfinished.append(want.job)
        else:
            kept.append(want.job)
    names = {want.job for want in wanted}
    removed = tuple(name for name in records if name not in names)
    return Difference(
        kept=tuple(kept),
        unfinished=tuple(unfinished),
        new=tuple(new),
        changed=tuple(changed),
        removed=removed,
    )


def steps_up(
    job: str, record: Record | None, observed: Observed, *, needs_instance: bool, joins: bool = False
) -> Chain:
    """The steps that bring one job to life from where its settled record stands.

    Args:
        job: its name.
        record: settled.
        observed: what is there.
        needs_instance: it is to run on a GPU instance.
        joins: another job that starts too makes the instance for both; whoever comes first does it.
    """
    actions: list[Action] = []
    if needs_instance and not (record is not None and record.instance is not None and record.instance.foreign):
        match standing(record.instance if record is not None else None, observed):
            case Standing.NONE | Standing.GONE | Standing.TAKEN:
                create = (Action.CREATE_GPU_INSTANCE, Action.CREATE_COMPUTE_INSTANCE)
                actions += [Action.JOIN_INSTANCE] if joins else create
            case Standing.HALF:
                actions.append(Action.CREATE_COMPUTE_INSTANCE)
            case Standing.OURS | Standing.UNKNOWN:
                pass
    unit = observed.unit(record.token) if record is not None else None
    if unit is None:
        actions += [Action.CREATE_CONTAINER, Action.START]
    elif unit.state is JobState.STARTING:
        # A container created for an instance that is gone would start on nothing: make it anew.
        if actions:
            actions = [Action.REMOVE_CONTAINER, *actions, Action.CREATE_CONTAINER]
        actions.append(Action.START)
    return chain(job, *actions)


def steps_down(record: Record, observed: Observed, others: Iterable[Record] = ()) -> Chain:
    """The steps that undo everything the settled record stands for, and nothing else.

    Args:
        record: settled.
        observed: what is there.
        others: records of the run that are there when this one goes; an instance that one of them names is left to it.
    """
    actions: list[Action] = []
    unit = observed.unit(record.token)
    if unit is not None:
        if unit.state in (JobState.STARTING, JobState.RUNNING):
            actions.append(Action.STOP)
        actions.append(Action.REMOVE_CONTAINER)
    if held_by_others(record, others):
        actions.append(Action.LEAVE_INSTANCE)
    elif record.instance is not None and not record.instance.foreign:
        match standing(record.instance, observed):
            case Standing.UNKNOWN if has_open_half(record):
                pass
            case Standing.OURS | Standing.UNKNOWN:
                actions += [Action.DESTROY_COMPUTE_INSTANCE, Action.DESTROY_GPU_INSTANCE]
            case Standing.HALF:
                actions.append(Action.DESTROY_GPU_INSTANCE)
            case Standing.NONE | Standing.GONE | Standing.TAKEN:
                pass
    return chain(record.job, *actions)
