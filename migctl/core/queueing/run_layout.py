"""The answer to a plan as a run: everything at once where that goes, else what starts first of what takes turns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from migctl.core.allocate import allocate
from migctl.core.allocation import Allocation
from migctl.core.choices import Strategy
from migctl.core.gpu.mps import refuse_without_sharing
from migctl.core.machine import Machine
from migctl.core.plan import Plan
from migctl.core.queueing.progress import Progress

if TYPE_CHECKING:
    from migctl.core.queueing.wave import Wave


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
    layout = _layout(plan, machine, progress, now=now)
    refuse_without_sharing(plan, layout.allocation.strategy)
    return layout


def _layout(plan: Plan, machine: Machine, progress: Progress, *, now: float) -> Layout:
    turns = takes_turns(plan, progress)
    few = plan if turns else _as_many_as_matter(plan, machine)
    at_once = None if turns else allocate(few, machine)
    if at_once is not None and not at_once.waiting and few is plan:
        return Layout(allocation=at_once)
    from migctl.core.queueing.wave import next_wave  # most plans run at once and need nothing of the queue

    wave = next_wave(plan, machine, progress, now=now)
    if at_once is None:
        return Layout(allocation=wave.allocation, wave=wave)
    named = replace(wave.allocation, conflict=at_once.conflict, blocked=at_once.blocked)
    return Layout(allocation=named, wave=wave)


def takes_turns(plan: Plan, progress: Progress) -> bool:
    """Whether the jobs do not all run at once, whatever room there is."""
    said = progress.queue
    if plan.strategy is Strategy.SEQUENTIAL or said.held or said.held_jobs or said.stopped or progress.again:
        return True
    return plan.stagger_s > 0 or any(job.needs or job.stage is not None for job in plan.jobs)


def _as_many_as_matter(plan: Plan, machine: Machine) -> Plan:
    """Of very many jobs so many that they cannot run at once: these are in conflict already, and that is soon found out."""
    gpus = [gpu for gpu in machine.usable if gpu.profiles or gpu.mig is None]
    cpus = len(plan.jobs) if plan.oversubscribe else len(machine.topology.online)
    most = sum(max((p.max_instances for p in gpu.profiles), default=cpus) for gpu in gpus)
    most *= max((job.per_instance for job in plan.jobs), default=1)
    new = [job for job in plan.jobs if job.name not in machine.held]
    if len(new) <= most + 1:
        return plan
    left = {job.name for job in new[most + 1 :]}
    return replace(plan, jobs=tuple(job for job in plan.jobs if job.name not in left))
