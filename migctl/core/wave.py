"""What starts now of a run that has more work than room: the queue's turn, with cores and workers for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from migctl.core.administered import chosen_gpus
from migctl.core.allocate import allocate, run_pool, strategy_of
from migctl.core.allocation import Allocation
from migctl.core.choices import Strategy
from migctl.core.decision import Decision, Start
from migctl.core.machine import Machine
from migctl.core.mig import Gpu
from migctl.core.plan import Plan
from migctl.core.progress import WHOLE_WEIGHT, Progress, situation
from migctl.core.queue import decide
from migctl.core.record import JobState, Record
from migctl.core.situation import Situation
from migctl.core.turn import WHOLE_GPU, Reason, Why


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

    def only(self, count: int) -> Wave:
        """The same with at most so many starts."""
        return replace(self, starts=self.starts[:count])


def queues(plan: Plan, machine: Machine, progress: Progress) -> bool:
    """Whether it is known without trying that the jobs do not all run at once."""
    if plan.strategy is Strategy.SEQUENTIAL or progress.queue.held or progress.queue.held_jobs or progress.again:
        return True
    if any(job.needs or job.stage is not None for job in plan.jobs):
        return True
    gpus = [gpu for gpu in machine.usable if gpu.profiles or gpu.mig is None]
    most = sum(max((p.max_instances for p in gpu.profiles), default=len(machine.topology.online)) for gpu in gpus)
    return len(plan.jobs) - len(machine.held) > max(most, 1) and not plan.oversubscribe


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The answer to a plan: all at once, or the wave that starts now of what takes turns."""

    allocation: Allocation
    wave: Wave | None = None
    """`None`: all jobs run at once."""


def lay_out_run(plan: Plan, machine: Machine, progress: Progress, *, now: float) -> Layout:
    """Lay out a run: everything at once where that goes, else its next wave.

    The smallest set in conflict is named either way; a `Busy` in `allocation.blocked` says that only others are in the way.

    Raises:
        MigctlError: as `next_wave`.
    """
    taking_turns = queues(plan, machine, progress)
    at_once = None if taking_turns else allocate(plan, machine)
    if at_once is not None and not at_once.waiting:
        return Layout(allocation=at_once)
    wave = next_wave(plan, machine, progress, now=now)
    if at_once is None:
        return Layout(allocation=wave.allocation, wave=wave)
    named = replace(wave.allocation, conflict=at_once.conflict, blocked=at_once.blocked)
    return Layout(allocation=named, wave=wave)


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
    running = {name: r for name, r in progress.records.items() if _has_place(r) and not r.state.ended}
    pool = run_pool(plan, replace(machine, held=running), gpus)
    found = situation(plan, machine, progress, gpus=gpus, strategy=strategy, pool=pool, now=now)
    weights = progress.queue.wave
    if not weights:
        # The first wave tells how many share the cores, and with that how many cores are free for each.
        first = decide(replace(found, free_cores=_threads(found.free_cores, len(pool.cpus))))
        weights = _weights(plan, first, running)
        known = replace(progress, queue=replace(progress.queue, wave=weights))
        found = situation(plan, machine, known, gpus=gpus, strategy=strategy, pool=pool, now=now)
    decision = decide(found)
    begun = {start.job: start for start in decision.starts}
    held = {**running, **{name: _seat(start, plan, strategy) for name, start in begun.items() if _placed(start)}}
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
    )


def _threads(free: Mapping[int, int] | None, logical: int) -> Mapping[int, int] | None:
    """Before the first wave no share is known: at most one job for each logical CPU starts."""
    return None if free is None else {0: logical}


def _weights(plan: Plan, decision: Decision, running: Mapping[str, Record]) -> tuple[int, ...]:
    found = [_slices(start) for start in decision.starts]
    found += [WHOLE_WEIGHT for _ in running]
    most = plan.max_parallel
    return tuple(found if most is None else found[:most])


def _slices(start: Start) -> int:
    if start.profile is None or start.profile.id == WHOLE_GPU:
        return WHOLE_WEIGHT
    return int(start.profile.compute_slices)


def _placed(start: Start) -> bool:
    """An administrator's instance is found again by its UUID."""
    return start.instance_uuid is None


def _has_place(record: Record) -> bool:
    return record.state is not JobState.QUEUED


def _seat(start: Start, plan: Plan, strategy: Strategy) -> Record:
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
        memory_mib=start.memory_mib,
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
