"""What memory, slices or nothing at all mean as a profile on a Slurm site: only what the site has can be asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from migctl.core.choices import Strategy
from migctl.core.cluster.slurmsite import MIG_TYPE, Site
from migctl.core.plan import Auto, ByInstance, ByMemory, ByProfile, BySlices, Job, Plan
from migctl.errors import DoesNotFit, MigctlError

_SURE = 0.93
"""Of the size in a profile's name so much is memory on every board that NVIDIA lists."""


@dataclass(frozen=True, slots=True)
class Offer:
    """MIG devices of one profile at the site."""

    profile: str
    slices: int
    memory_gb: int
    """As its name says."""
    memory_mib: int
    """What it has at least."""
    count: int


def offers(site: Site, partition: str | None, memory_mib: Mapping[str, int]) -> tuple[Offer, ...]:
    """The plain profiles (no `+me` and its kin) that jobs of this partition can get, smallest first."""
    counts: dict[str, int] = {}
    nodes = {(node.name): node for node in site.within(partition)}
    for node in nodes.values():
        for gres in node.gres:
            found = MIG_TYPE.fullmatch(gres.kind)
            if found and not found["attribute"]:
                counts[found["profile"]] = counts.get(found["profile"], 0) + gres.count
    made = [_offer(profile, count, memory_mib) for profile, count in counts.items()]
    return tuple(sorted(made, key=lambda offer: (offer.slices, offer.memory_gb)))


def _offer(profile: str, count: int, memory_mib: Mapping[str, int]) -> Offer:
    found = MIG_TYPE.fullmatch(profile)
    assert found is not None, "it was taken from a type that matched"
    size = int(found["memory"])
    return Offer(profile, int(found["slices"]), size, memory_mib.get(profile) or int(size * 1024 * _SURE), count)


def sized(plan: Plan, there: Sequence[Offer]) -> Plan:
    """The plan with every job's profile by name; a site without MIG devices has whole GPUs for jobs that name no profile.

    Raises:
        DoesNotFit: no profile of the site is what a job asks for.
    """
    if plan.strategy in (Strategy.SHARED, Strategy.SEQUENTIAL):
        return plan
    if not there and not any(isinstance(job.request, ByProfile | BySlices | ByInstance) for job in plan.jobs):
        return replace(plan, strategy=Strategy.SHARED)
    auto = _auto(plan, there)
    return replace(plan, jobs=tuple(_sized(job, there, auto) for job in plan.jobs))


def _auto(plan: Plan, there: Sequence[Offer]) -> Offer | None:
    """The largest profile of which there is one for each job, else the smallest."""
    asking = sum(isinstance(job.request, Auto) for job in plan.jobs)
    enough = [offer for offer in there if offer.count >= asking]
    return (enough[-1] if enough else there[0]) if there and asking else None


def _sized(job: Job, there: Sequence[Offer], auto: Offer | None) -> Job:
    request = job.request
    match request:
        case ByProfile() | ByInstance():
            return job
        case ByMemory(memory_mib):
            able = [offer for offer in there if offer.memory_mib >= memory_mib]
            found = min(able, key=lambda o: (o.memory_gb, -o.slices), default=None)
            asked = f"{memory_mib / 1024:.1f} GiB of memory"
        case BySlices(compute_slices):
            able = [offer for offer in there if offer.slices == compute_slices]
            found = min(able, key=lambda o: o.memory_gb, default=None)
            asked = f"{compute_slices} compute slices"
        case Auto():
            found, asked = auto, "its part of a GPU"
        case _:
            assert_never(request)
    if found is None:
        raise _none(job, asked, there)
    return replace(job, request=ByProfile(found.profile))


def _none(job: Job, asked: str, there: Sequence[Offer]) -> MigctlError:
    has = ", ".join(offer.profile for offer in there) or "no MIG devices whose type names their profile"
    return DoesNotFit(
        "no-gres",
        f"job {job.name} asks for {asked}, and the cluster has {has}",
        where=job.place("memory", "slices"),
        hint="sinfo -N -h -o '%N %P %G' lists its types; write profile, and slurm: {gres: {PROFILE: TYPE}}",
    )
