"""What a user holds of the machine by the claims of runs, beside the run in question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.gpu.mig import Gpu, Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """Sums over claims."""

    slices: int = 0
    """Compute slices of this user's other runs."""
    cpus: CpuSet = CpuSet()
    """Logical CPUs of this user's other runs."""
    memory_mib: int = 0
    """Memory limits of all users' other runs."""


def claimed_slices(places: Mapping[str, Sequence[Placement]], gpus: Sequence[Gpu]) -> int:
    """Compute slices of what a claim holds: those of the instance that lies there, else the most that could.

    A whole GPU counts with all its slices, where it has any.
    """
    total = 0
    for gpu in gpus:
        if gpu.uuid not in places:
            continue
        slices = {profile.id: profile.compute_slices for profile in gpu.profiles}
        there = {i.placement: slices.get(i.profile_id, 0) for i in gpu.instances}
        total += 0 if places[gpu.uuid] else gpu.compute_slices
        for place in places[gpu.uuid]:
            most = max((p.compute_slices for p in gpu.profiles if place in p.placements), default=0)
            total += there.get(place, most)
    return total
