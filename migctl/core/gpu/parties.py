"""Who sits with whom under `mig`: jobs that share an instance are placed as one, in the plan's order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from migctl.core.gpu.company import Company, company, company_of, instance_request, seat_memory_mib
from migctl.core.gpu.mig import Gpu, Placement, Profile
from migctl.core.gpu.share import GpuShare
from migctl.core.gpu.sizes import auto_candidates, options
from migctl.core.plan import Auto, ByMemory, ByProfile, BySlices, Job
from migctl.core.runs.record import Record
from migctl.errors import MigctlError

Party = tuple[Job, ...]
"""Jobs that get one instance together, one job where it shares with nobody."""


def parties(jobs: Sequence[Job]) -> tuple[Party, ...]:
    """The jobs in groups: those that ask for the same, on the same GPUs, with the same company, so many as one instance takes.

    The groups follow each other as their first jobs do.
    """
    groups: list[list[Job]] = []
    open_to: dict[tuple[object, ...], list[Job]] = {}
    for job in jobs:
        kept = company(job)
        key = _kind(job, kept)
        group = open_to.get(key)
        if kept is None or group is None or len(group) == kept.seats:
            group = open_to[key] = []
            groups.append(group)
        group.append(job)
    return tuple(map(tuple, groups))


def _kind(job: Job, kept: Company | None) -> tuple[object, ...]:
    return (job.name,) if kept is None else (kept, job.request, job.gpus)


def crowd(leaders: Sequence[str], groups: Sequence[Party]) -> tuple[str, ...]:
    """The fewest jobs that need all these groups' instances: all but the last group of a kind, and of that one job."""
    chosen = [group for group in groups if group[0].name in leaders]
    last = {_kind(group[0], company(group[0])): n for n, group in enumerate(chosen)}
    return tuple(
        job.name
        for n, group in enumerate(chosen)
        for job in (group[:1] if last[_kind(group[0], company(group[0]))] == n else group)
    )


def members(leaders: Sequence[str], groups: Sequence[Party]) -> tuple[str, ...]:
    """All jobs of these groups."""
    return tuple(job.name for group in groups if group[0].name in leaders for job in group)


def beside_held(
    jobs: Sequence[Job], held: Mapping[str, Record], reach: Mapping[str, Sequence[Gpu]]
) -> dict[str, GpuShare]:
    """Seats for these jobs on instances that others of the run have already.

    Args:
        jobs: without a place, in the plan's order.
        held: jobs with one.
        reach: the GPUs that each job may have.
    """
    left: dict[tuple[str, Placement], tuple[Company, int, int]] = {}
    for record in held.values():
        kept = company_of(record)
        if kept is None or record.placement is None or record.gpu_uuid is None or record.profile_id is None:
            continue
        if record.instance is None and record.state.ended:
            continue
        here = (record.gpu_uuid, record.placement)
        _, _, free = left.get(here, (kept, record.profile_id, kept.seats))
        left[here] = (kept, record.profile_id, free - 1)
    shares: dict[str, GpuShare] = {}
    for job in jobs if left else ():
        for gpu in reach[job.name]:
            ids = {profile.id: profile for profile in _sizes(job, gpu)}
            place = next(
                (
                    place
                    for place, (kept, profile_id, free) in sorted(left.items(), key=lambda item: item[0])
                    if place[0] == gpu.uuid and free > 0 and kept == company(job) and profile_id in ids
                ),
                None,
            )
            if place is not None:
                kept, profile_id, free = left[place]
                left[place] = (kept, profile_id, free - 1)
                profile = ids[profile_id]
                memory = seat_memory_mib(profile, job)
                shares[job.name] = GpuShare(gpu=gpu, profile=profile, placement=place[1], memory_mib=memory)
                break
    return shares


def _sizes(job: Job, gpu: Gpu) -> Iterator[Profile]:
    """The profiles that the job can have on this GPU."""
    match job.request:
        case Auto():
            yield from auto_candidates(gpu)
        case ByProfile() | ByMemory() | BySlices():
            try:
                yield options(instance_request(job), gpu)
            except MigctlError:
                return
        case _:
            return
