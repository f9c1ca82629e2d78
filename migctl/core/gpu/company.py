"""Jobs that sit on one GPU instance together: which of them may, how many, and what each of them counts for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from migctl.core.gpu.mig import Profile
from migctl.core.runs.record import Ownership, Record

if TYPE_CHECKING:
    from migctl.core.plan import GpuRequest, Job


@dataclass(frozen=True, slots=True)
class Company:
    """What jobs have in common that may sit on the same instance; they also ask for the same size of it."""

    seats: int
    """How many of them one instance takes."""
    mps: bool = False
    """They are clients of one MPS server, which a job that is none would keep from computing at once with them."""
    user: str | None = None
    """Whom they run as, where they are clients: one MPS server serves one user."""


def company(job: Job) -> Company | None:
    """The company that a job of a plan keeps; `None`: its instance is its own."""
    if job.per_instance <= 1:
        return None
    clients = job.mps is not None
    return Company(job.per_instance, clients, job.user if clients else None)


def company_of(record: Record) -> Company | None:
    """The company that a started job keeps, as its own keys say; `None`: its instance is its own."""
    return _said(record.spec)


@lru_cache(maxsize=4096)
def _said(spec: str) -> Company | None:
    if '"per_instance":' not in spec:
        return None
    try:
        values = json.loads(spec)
        seats = values.get("per_instance")
        if not isinstance(seats, int) or seats <= 1:
            return None
        clients = values.get("mps") is not None
        user = values.get("user")
    except (ValueError, AttributeError):
        return None
    return Company(seats, clients, user if clients and isinstance(user, str) else None)


def weight(compute_slices: int, seats: int) -> int:
    """What a job counts for when cores are shared out: its part of the instance's compute slices, at least one."""
    return max(1, compute_slices // seats)


def instance_request(job: Job) -> GpuRequest:
    """What the job's instance has to be: one that several share holds the memory that each of them needs."""
    from migctl.core.plan import ByMemory  # whoever only looks loads no plan

    if isinstance(job.request, ByMemory) and job.per_instance > 1:
        return ByMemory(job.request.memory_mib * job.per_instance)
    return job.request


def seat_memory_mib(profile: Profile, job: Job) -> int:
    """GPU memory that a job may use: the instance's, or of one with company its limit, else an equal part."""
    if company(job) is None:
        return profile.memory_mib
    limit = job.mps.memory_mib if job.mps is not None else None
    equal = profile.memory_mib // job.per_instance
    return min(limit, profile.memory_mib) if limit is not None else equal


def same_instance(one: Ownership | None, other: Ownership | None) -> bool:
    """Whether two records name the same instance of migctl's own."""
    if one is None or other is None or one.foreign or other.foreign:
        return False
    return (one.gpu_uuid, one.gi_id, one.boot_id) == (other.gpu_uuid, other.gi_id, other.boot_id)


def mate(record: Record, others: Iterable[Record], *, ended: bool = False) -> Record | None:
    """A job with an instance in the very place that this one has or gets, so that they share it.

    Args:
        record: of the job.
        others: among which it is looked for; one whose instance is complete comes first.
        ended: also those that have ended, where nobody else can have taken or destroyed theirs meanwhile.
    """
    kept = company_of(record)
    if kept is None or record.placement is None:
        return None
    found = [
        other
        for other in others
        if other.job != record.job
        and other.instance is not None
        and not other.instance.foreign
        and (ended or not other.state.ended)
        and (other.gpu_uuid, other.placement, other.profile_id)
        == (record.gpu_uuid, record.placement, record.profile_id)
        and (other.instance.placement, other.instance.profile_id) == (record.placement, record.profile_id)
        and company_of(other) == kept
        and (record.instance is None or same_instance(record.instance, other.instance))
    ]
    return min(found, key=lambda other: (not is_whole(other.instance), other.job), default=None)


def is_whole(owned: Ownership | None) -> bool:
    """Whether jobs can run on it: it has its compute instance."""
    return owned is not None and owned.mig_uuid is not None


def beside(record: Record, others: Iterable[Record]) -> Record:
    """The record of a job that is about to start, on the instance that a job of its company has already."""
    found = mate(record, others) if record.instance is None else None
    return replace(record, instance=found.instance) if found is not None else record


def held_by_others(record: Record, others: Iterable[Record]) -> bool:
    """Whether a job that shares the instance has it too: then it stays when this one goes."""
    if company_of(record) is None:
        return False
    return any(other.job != record.job and same_instance(record.instance, other.instance) for other in others)
