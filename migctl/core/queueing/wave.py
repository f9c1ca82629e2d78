"""What starts now of a run that has more work than room: the queue's turn, with cores and workers for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from migctl.core.allocate import allocate, run_pool, strategy_of
from migctl.core.allocation import WHOLE_GPU_SLICES, Allocation
from migctl.core.choices import Strategy
from migctl.core.gpu.administered import chosen_gpus
from migctl.core.gpu.company import seat_memory_mib, weight
from migctl.core.gpu.mig import Gpu
from migctl.core.machine import Machine
from migctl.core.plan import Job, Plan
from migctl.core.queueing.decision import Decision, Start
from migctl.core.queueing.outlook import situation
from migctl.core.queueing.progress import Progress
from migctl.core.queueing.queue import decide
from migctl.core.queueing.situation import Situation
from migctl.core.queueing.turn import WHOLE_GPU, Reason, Why
from migctl.core.runs.record import JobState, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """Who runs when this decision is carried out, and who waits."""

    allocation: Allocation
    """Of the jobs that run and of those that start now; the others are `waiting`."""
    starts: tuple[Start, ...]
    waits: Mapping[str, Reason]
    never: tuple[str, ...]
    wake_at: float | None
    """Unix seconds: decide again then though nothing has happened."""
    weights: tuple[int, ...]
    """Compute slices of the first wave's jobs, by which cores are shared out for the run's whole life."""
    situation: Situation
    """What was decided on."""
    beside_others: bool = False
    """Somebody else has room or cores there, and nobody tells when that ends."""


def next_wave(plan: Plan, machine: Machine, progress: Progress, *, now: float) -> Wave:
    """Decide what starts now.

    Args:
        plan: all jobs of the run.
        machine: what is there.
        progress: what became of the run's jobs so far.
        now: Unix seconds.

    Raises:
        MigctlError: a job can never run there, whatever ends; as `allocate`.
    """
    gpus = chosen_gpus(plan, machine.usable)
    strategy = strategy_of(plan, gpus)
    running = {name: r for name, r in progress.records.items() if _is_past_queue(r) and not r.state.ended}
    pool = run_pool(plan, replace(machine, held=running), gpus)
    found = situation(plan, machine, progress, gpus=gpus, strategy=strategy, pool=pool, now=now)
    weights = progress.queue.wave
    if not weights:
        # The first wave tells how many share the cores, and with that how many cores are free for each.
        first = decide(replace(found, free_cores=_threads(found, len(pool.cpus))))
        weights = _weights(plan, first, running)
        known = replace(progress, queue=replace(progress.queue, wave=weights))
        found = situation(plan, machine, known, gpus=gpus, strategy=strategy, pool=pool, now=now)
    decision = _staggered(decide(found), plan, progress, now)
    begun = {start.job: start for start in decision.starts}
    starting = {job.name: job for job in plan.jobs if job.name in begun}
    held = dict(running)
    for name, start in begun.items():
        if _placed(start):
            held[name] = _seat(start, starting[name], plan, strategy)
    jobs = tuple(job for job in plan.jobs if job.name in running or job.name in begun)
    allocation = allocate(
        replace(plan, jobs=jobs, strategy=strategy, max_parallel=None),
        replace(machine, held=held, gpus=_without_spares(machine.gpus, decision)),
        gpus=gpus,
        weights=weights,
    )
    granted = {assignment.job.name for assignment in allocation.assignments}
    short = {name: Reason(why=Why.NO_CORE, words="no free core") for name in begun if name not in granted}
    waits = {**short, **decision.waits}
    order = [job.name for job in plan.jobs if job.name in waits]
    return Wave(
        allocation=replace(allocation, waiting=tuple(order), conflict=(), blocked=None),
        starts=tuple(start for start in decision.starts if start.job in granted),
        waits={name: waits[name] for name in order},
        never=decision.never,
        wake_at=decision.wake_at,
        weights=weights,
        situation=found,
        beside_others=any(stay.job is None for site in found.sites for stay in site.stays)
        or (_others_on_cores(machine) and any(reason.why is Why.NO_CORE for reason in waits.values())),
    )


def _staggered(decision: Decision, plan: Plan, progress: Progress, now: float) -> Decision:
    """With `stagger` one job starts, and the next one when the pause is over."""
    if plan.stagger_s <= 0 or not decision.starts:
        return decision
    last = max((r.started_at for r in progress.records.values() if r.started_at is not None), default=-math.inf)
    begun = decision.starts[: 1 if now >= last + plan.stagger_s else 0]
    later = decision.starts[len(begun) :]
    if not later:
        return decision
    due = (now if begun else last) + plan.stagger_s
    pause = Reason(why=Why.LATER, words="a pause between two starts", until=due)
    return replace(
        decision,
        starts=begun,
        waits={**{start.job: pause for start in later}, **decision.waits},
        wake_at=due if decision.wake_at is None else min(due, decision.wake_at),
    )


def _others_on_cores(machine: Machine) -> bool:
    return bool(machine.foreign) or any(machine.claimed.values())


def _threads(found: Situation, logical: int) -> Mapping[int, int] | None:
    """Before the first wave no share is known: at most one job for each logical CPU starts, here on any node."""
    return None if found.free_cores is None else dict.fromkeys(found.free_cores, logical)


def _weights(plan: Plan, decision: Decision, running: Mapping[str, Record]) -> tuple[int, ...]:
    seats = {job.name: job.per_instance for job in plan.jobs}
    found = [_slices(start, seats[start.job]) for start in decision.starts]
    found += [WHOLE_GPU_SLICES for _ in running]
    most = plan.max_parallel
    return tuple(found if most is None else found[:most])


def _slices(start: Start, seats: int) -> int:
    if start.profile is None or start.profile.id == WHOLE_GPU:
        return WHOLE_GPU_SLICES
    return weight(start.profile.compute_slices, seats)


def _placed(start: Start) -> bool:
    """An administrator's instance is found again by its UUID."""
    return start.instance_uuid is None


def _is_past_queue(record: Record) -> bool:
    return record.state is not JobState.QUEUED


def _seat(start: Start, job: Job, plan: Plan, strategy: Strategy) -> Record:
    """The place of a job that is about to start; its CPUs are still to be given."""
    sliced = start.profile is not None and start.profile.id != WHOLE_GPU
    return Record(
        run=plan.name,
        job=start.job,
        token="",
        runtime=plan.runtime.value,
        strategy=strategy.value,
        digest="",
        spec="",
        gpu_uuid=start.gpu_uuid,
        profile=start.profile.name if start.profile is not None and sliced else None,
        profile_id=start.profile.id if start.profile is not None and sliced else None,
        placement=start.placement if sliced else None,
        memory_mib=seat_memory_mib(start.profile, job) if start.profile is not None and sliced else start.memory_mib,
    )


def _without_spares(gpus: Sequence[Gpu], decision: Decision) -> tuple[Gpu, ...]:
    """The GPUs as they will be: instances that are taken over or destroyed are not in anybody's way."""
    gone = {
        (spare.gpu_uuid, spare.gi_id)
        for start in decision.starts
        for spare in (*start.destroys, *((start.takes_over,) if start.takes_over is not None else ()))
    }
    return tuple(
        replace(gpu, instances=tuple(i for i in gpu.instances if (gpu.uuid, i.gi_id) not in gone)) for gpu in gpus
    )
