"""The run's GPUs as the queue sees them: what stays where it is, and what ended jobs have left."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from migctl.core.machine import Machine
from migctl.core.mig import UNKNOWN_PLACEMENT, Gpu, Instance
from migctl.core.ownership import NOT_OURS
from migctl.core.record import JobState, Record
from migctl.core.turn import WHOLE_GPU, WHOLE_PLACEMENT, Site, Spare, Stay, Turn

_ALIVE = (JobState.STARTING, JobState.RUNNING)
InstanceKey = tuple[str, int]
"""GPU UUID and GI id."""


def sites(
    machine: Machine,
    gpus: Sequence[Gpu],
    records: Mapping[str, Record],
    *,
    turns: Sequence[Turn],
    blocked: Collection[InstanceKey] = (),
    ended_elsewhere: Mapping[InstanceKey, str] | None = None,
    sharing: bool = False,
    scopes: Mapping[str, int] | None = None,
) -> tuple[Site, ...]:
    """Sort what lies on the GPUs into what stays and what is free room.

    Args:
        machine: as observed, with the owners of instances.
        gpus: the run's, those that work.
        records: settled records of the run, by job.
        turns: the run's jobs.
        blocked: instances of ended jobs that could not be destroyed: their room is not free.
        ended_elsewhere: instances of ended jobs of the owner's other runs → `run/job`: free room too.
        sharing: the strategy is `shared`: others on the same GPU do not matter.
        scopes: GPU UUID → `Site.scope`, where the cores are not one pool for all.
    """
    known = {turn.name: turn for turn in turns}
    by_instance = {
        (record.instance.gpu_uuid, record.instance.gi_id): record
        for record in records.values()
        if record.instance is not None
    }
    return tuple(
        _site(gpu, machine, records, by_instance, known, blocked, ended_elsewhere or {}, sharing, scopes or {})
        for gpu in gpus
    )


def _site(
    gpu: Gpu,
    machine: Machine,
    records: Mapping[str, Record],
    by_instance: Mapping[InstanceKey, Record],
    turns: Mapping[str, Turn],
    blocked: Collection[InstanceKey],
    elsewhere: Mapping[InstanceKey, str],
    sharing: bool,
    scopes: Mapping[str, int],
) -> Site:
    stays: list[Stay] = []
    spares: list[Spare] = []
    for instance in gpu.instances:
        key = (gpu.uuid, instance.gi_id)
        record = by_instance.get(key)
        owner = f"{record.run}/{record.job}" if record is not None else elsewhere.get(key)
        if record is not None and record.state in _ALIVE:
            stays.append(_stay(record, turns, instance))
        elif owner is not None and not (record is not None and _lent(record)) and key not in blocked:
            spares.append(_spare(instance, owner))
        elif instance.placement != UNKNOWN_PLACEMENT:
            owner = machine.owners.get(key, NOT_OURS) if record is None or _lent(record) else owner or NOT_OURS
            stays.append(Stay(placement=instance.placement, profile_id=instance.profile_id, owner=owner))
    made = {stay.job for stay in stays}
    stays += [
        _stay(record, turns)
        for record in records.values()
        if record.gpu_uuid == gpu.uuid and record.state in _ALIVE and record.job not in made
    ]
    if gpu.mig is None or not gpu.mig.current:
        stays += [] if sharing else list(_others(gpu, machine, records))
    return Site(gpu=gpu, stays=tuple(stays), spares=tuple(spares), scope=scopes.get(gpu.uuid, 0))


def _stay(record: Record, turns: Mapping[str, Turn], instance: Instance | None = None) -> Stay:
    """A job that runs, or whose start has begun; the latter perhaps without an instance so far."""
    turn = turns.get(record.job)
    lasts = turn.expect_s if turn is not None else None
    place = instance.placement if instance is not None else record.placement
    profile_id = instance.profile_id if instance is not None else record.profile_id
    divided = place is not None and profile_id is not None
    return Stay(
        placement=place if place is not None and divided else WHOLE_PLACEMENT,
        profile_id=profile_id if profile_id is not None and divided else WHOLE_GPU,
        owner=f"{record.run}/{record.job}",
        job=record.job,
        cores=record.cores,
        # The record tells what the job may use; without a declaration that is all of the GPU, and limits nobody.
        memory_mib=turn.wish.memory_mib if turn is not None and not divided else 0,
        ends_at=record.started_at + lasts if record.started_at is not None and lasts is not None else None,
        lasting=_lent(record),
    )


def _spare(instance: Instance, owner: str) -> Spare:
    compute = instance.compute_instances
    return Spare(
        gpu_uuid=instance.gpu_uuid,
        gi_id=instance.gi_id,
        profile_id=instance.profile_id,
        placement=instance.placement,
        owner=owner,
        mig_uuid=compute[0].mig_uuid if len(compute) == 1 else None,
    )


def _lent(record: Record) -> bool:
    return record.instance is not None and record.instance.foreign


def _others(gpu: Gpu, machine: Machine, records: Mapping[str, Record]) -> Iterator[Stay]:
    """Who else has a whole GPU: another run, by its claim, or a process that is nobody's job here."""
    alive = any(record.gpu_uuid == gpu.uuid and record.state in _ALIVE for record in records.values())
    owner = machine.whole.get(gpu.uuid)
    if owner is None and gpu.processes and not alive:
        owner = ", ".join(machine.processes.get(p.pid, f"pid {p.pid}") for p in gpu.processes[:3])
    if owner is not None:
        yield Stay(placement=WHOLE_PLACEMENT, profile_id=WHOLE_GPU, owner=owner)
