"""A plan as a script can run it that watches nothing: groups of jobs that fit beside each other, one group after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from migctl.core.allocate import allocate
from migctl.core.allocation import Allocation, Assignment
from migctl.core.choices import Strategy
from migctl.core.gpu.mig import Gpu
from migctl.core.machine import Machine
from migctl.core.memory import with_memory_limit
from migctl.core.plan import Auto, ByProfile, Job, Plan
from migctl.errors import DoesNotFit, Notice

_LOOK_AHEAD = 64
"""Waiting jobs that one round is chosen from: more than fit on eight GPUs, so that a thousand jobs are planned in no time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Who runs with whom, in order."""

    plan: Plan
    strategy: Strategy
    rounds: tuple[tuple[Assignment, ...], ...]
    gpus: Mapping[str, Gpu]
    """Those that are used, by UUID."""
    names: Mapping[str, str]
    """How to call each on a command line: its index for a machine that is only thought of, else its UUID."""
    machine: str
    """What it was planned for, for people."""
    notices: tuple[Notice, ...] = ()

    @property
    def assignments(self) -> tuple[Assignment, ...]:
        """All jobs in their order of running."""
        return tuple(a for round_ in self.rounds for a in round_)


def rounds(plan: Plan, machine: Machine, first: Allocation, *, named: Mapping[str, str], label: str) -> Rounds:
    """Every job in the first round that it can run in.

    Args:
        plan: what is wanted.
        machine: where.
        first: the answer to the whole plan there; its first round is taken as it is where nothing orders the jobs.
        named: how to call each GPU.
        label: what the machine is.

    Raises:
        DoesNotFit: a job has no place even alone.
        MigctlError: as `allocate`.
    """
    ordered = any(job.needs or job.stage is not None or job.priority for job in plan.jobs)
    done: list[tuple[Assignment, ...]] = []
    left = _with_sizes(plan.jobs, first)
    if not ordered and first.assignments:
        done.append(first.assignments)
        placed = {a.job.name for a in first.assignments}
        left = [job for job in left if job.name not in placed]
    while left:
        ready = _ready(left)[:_LOOK_AHEAD]
        found = allocate(replace(plan, jobs=tuple(ready), notices=()), machine)
        if not found.assignments:
            raise found.blocked or DoesNotFit("never-fits", f"{ready[0].name} has no place here even alone")
        done.append(found.assignments)
        placed = {a.job.name for a in found.assignments}
        left = [job for job in left if job.name not in placed]
    used = {a.gpu_uuid for round_ in done for a in round_}
    return Rounds(
        plan=plan,
        strategy=first.strategy,
        rounds=tuple(tuple(_limited(a, machine) for a in round_) for round_ in done),
        gpus={gpu.uuid: gpu for gpu in machine.gpus if gpu.uuid in used},
        names=named,
        machine=label,
        notices=first.notices,
    )


def _limited(assignment: Assignment, machine: Machine) -> Assignment:
    cpus, machine_cpus = len(assignment.cpu.cpus), len(machine.topology.online)
    job = with_memory_limit(assignment.job, cpus, machine_cpus, machine.memory_total_mib)
    return assignment if job is assignment.job else replace(assignment, job=job)


def _with_sizes(jobs: Sequence[Job], first: Allocation) -> list[Job]:
    """Auto jobs keep the profile that the whole plan gave them: alone in a late round they would get another one."""
    profile = next((a.profile for a in first.assignments if isinstance(a.job.request, Auto) and a.profile), None)
    if profile is None:
        return list(jobs)
    fixed = ByProfile(profile.name)
    return [replace(job, request=fixed) if isinstance(job.request, Auto) else job for job in jobs]


def _ready(left: Sequence[Job]) -> list[Job]:
    """Those that wait for nobody who is still to run, the more urgent first."""
    names = {job.name for job in left}
    stage = min((job.stage for job in left if job.stage is not None), default=None)
    ready = [job for job in left if not names & set(job.needs) and (job.stage is None or job.stage == stage)]
    return sorted(ready, key=lambda job: -job.priority)
