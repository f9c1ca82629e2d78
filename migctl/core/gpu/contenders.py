"""The jobs of the smallest set in conflict, each with the instance that it asks for, where slices are what they lack."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.core.allocation import Allocation
from migctl.core.choices import Strategy
from migctl.core.gpu.company import instance_request
from migctl.core.gpu.mig import Gpu, Profile
from migctl.core.gpu.parties import parties
from migctl.core.gpu.selection import job_gpus
from migctl.core.gpu.sizes import auto_candidates, options
from migctl.core.plan import Auto, ByInstance, Job, Plan
from migctl.core.views.plan import ConflictView, Contender
from migctl.errors import MigctlError


def conflict_view(plan: Plan, allocation: Allocation, gpus: Sequence[Gpu]) -> ConflictView | None:
    """What the conflicting jobs need, and what the GPUs that they may have hold; nothing where it is not about slices."""
    if allocation.strategy is not Strategy.MIG or not allocation.conflict:
        return None
    names = set(allocation.conflict)
    jobs: list[str] = []
    contenders: list[Contender] = []
    reached: set[str] = set()
    for party in parties([job for job in plan.jobs if job.name in names]):
        profiles = _profiles(party[0], plan, gpus)
        if not profiles:
            continue
        profile = next(iter(profiles.values()))
        jobs += (job.name for job in party)
        reached |= profiles.keys()
        contenders.append(
            Contender(
                job=party[0].name,
                profile=profile.name,
                memory_slices=profile.memory_slices,
                compute_slices=profile.compute_slices,
            )
        )
    if not contenders:
        return None
    there = [gpu for gpu in gpus if gpu.uuid in reached]
    return ConflictView(
        jobs=tuple(jobs),
        contenders=tuple(contenders),
        memory_slices=sum(gpu.memory_slices for gpu in there),
        compute_slices=sum(gpu.compute_slices for gpu in there),
    )


def _profiles(job: Job, plan: Plan, gpus: Sequence[Gpu]) -> dict[str, Profile]:
    """What the job asks for on each GPU that has it; an `auto` job in a conflict is content with the smallest."""
    if isinstance(job.request, ByInstance):
        return {}
    found: dict[str, Profile] = {}
    for gpu in job_gpus(job, plan, gpus):
        try:
            found[gpu.uuid] = (
                auto_candidates(gpu)[-1]
                if isinstance(job.request, Auto) and gpu.profiles
                else options(instance_request(job), gpu)
            )
        except MigctlError:
            continue
    return found
