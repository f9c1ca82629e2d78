"""Placement by trying everything, written from NVIDIA's rules alone and sharing nothing with the planner but its values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from migctl.core.gpu.mig import Gpu, Placement, Profile

Instance = tuple[Placement, Profile]


def allowed(gpu: Gpu, instances: Sequence[Instance]) -> bool:
    """Whether a driver would let these live side by side."""
    for n, (place, profile) in enumerate(instances):
        if place not in profile.placements or any(place.overlaps(other) for other, _ in instances[:n]):
            return False
        if sum(other is profile or other.id == profile.id for _, other in instances) > profile.max_instances:
            return False
    attributes = [profile.attribute for _, profile in instances]
    if attributes.count("+me") > 1:
        return False
    if "+me.all" in attributes and any(a != "-me" for a in attributes if a != "+me.all"):
        return False
    return attributes.count("+me.all") <= 1 and sum(p.compute_slices for _, p in instances) <= gpu.compute_slices


def layouts(
    gpu: Gpu, wanted: Sequence[Profile], there: Sequence[Instance] = (), first: int = 0
) -> Iterator[tuple[Instance, ...]]:
    """Every layout of these profiles beside what is there; `first` = the first placement of the first profile to be tried."""
    if not wanted:
        yield tuple(there)
        return
    for n, place in enumerate(wanted[0].placements):
        more = (*there, (place, wanted[0]))
        if n >= first and allowed(gpu, more):
            equal = len(wanted) > 1 and wanted[1] is wanted[0]  # to swap two of the same profile gives nothing new
            yield from layouts(gpu, wanted[1:], more, n + 1 if equal else 0)


class Machine:
    """Several GPUs, what is on them, and a memory of what was tried."""

    def __init__(self, gpus: Sequence[Gpu], there: Mapping[str, Sequence[Instance]] | None = None) -> None:
        self.gpus = gpus
        self.there = there or {}
        self._fits_one = cache(self._try_one)

    def _try_one(self, n: int, profile_ids: tuple[int, ...]) -> bool:
        gpu = self.gpus[n]
        wanted = [next(p for p in gpu.profiles if p.id == one) for one in profile_ids]
        return next(layouts(gpu, wanted, self.there.get(gpu.uuid, ())), None) is not None

    def fits(self, options: Sequence[Mapping[str, Profile]]) -> bool:
        """Whether jobs with these options can all run, by trying every GPU for every job."""
        seen: set[tuple[int, tuple[tuple[int, ...], ...]]] = set()

        def assign(job: int, held: tuple[tuple[int, ...], ...]) -> bool:
            if job == len(options):
                return True
            if (job, held) in seen:
                return False
            seen.add((job, held))
            for n, gpu in enumerate(self.gpus):
                profile = options[job].get(gpu.uuid)
                if profile is not None:
                    more = tuple(sorted((*held[n], profile.id)))
                    if self._fits_one(n, more) and assign(job + 1, (*held[:n], more, *held[n + 1 :])):
                        return True
            return False

        return assign(0, tuple(() for _ in self.gpus))
