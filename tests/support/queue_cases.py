"""Situations of a queue in a few words, and an independent eye on what was decided."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.gpu.mig import Gpu, Placement, Profile
from migctl.core.queueing.decision import Decision, Start
from migctl.core.queueing.situation import Situation
from migctl.core.queueing.turn import WHOLE_GPU, WHOLE_PLACEMENT, Site, Spare, Stay, Turn, Wish, whole_profile
from migctl.core.runs.record import JobState
from migctl.nvml.models import board_gpu, resolve_board
from tests.support.brute_force import allowed

A100 = board_gpu(resolve_board("a100-40gb"))
A30 = board_gpu(resolve_board("a30"))
T4 = board_gpu(resolve_board("t4"), 1)

WHOLE = "whole"
"""As a profile's name: a GPU without instances."""


def gpu_of(board: str, index: int = 0) -> Gpu:
    return board_gpu(resolve_board(board), index)


def wish(name: str, *gpus: Gpu, cores: int = 1, least: int = 1, memory_mib: int = 0, cpuset: str = "") -> Wish:
    found: dict[str, Profile] = {}
    for gpu in gpus:
        profile = whole_profile(gpu) if name == WHOLE else gpu.profile_named(name)
        if profile is not None:
            found[gpu.uuid] = profile
    return Wish(
        name,
        found,
        cores=cores,
        least_cores=least,
        memory_mib=memory_mib,
        cpuset=CpuSet.parse(cpuset) if cpuset else None,
    )


def turns(gpu: Gpu, names: str) -> list[Turn]:
    """`3g.20gb 1g.5gb` = jobs a and b; equal profiles share a wish."""
    wishes = {name: wish(name, gpu) for name in names.split()}
    return [Turn(name=chr(ord("a") + n), wish=wishes[name]) for n, name in enumerate(names.split())]


def lying(gpu: Gpu, name: str, start: int) -> tuple[int, Placement]:
    """Profile id and placement of `name` at this memory slice."""
    if name == WHOLE:
        return WHOLE_GPU, WHOLE_PLACEMENT
    profile = gpu.profile_named(name)
    assert profile is not None
    return profile.id, next(place for place in profile.placements if place.start == start)


def stay(gpu: Gpu, name: str, start: int, job: str | None = None, ends_at: float | None = None, cores: int = 0) -> Stay:
    profile_id, placement = lying(gpu, name, start)
    owner = f"run/{job}" if job else "not ours"
    return Stay(placement=placement, profile_id=profile_id, owner=owner, job=job, ends_at=ends_at, cores=cores)


def spare(gpu: Gpu, name: str, start: int, *, usable: bool = True) -> Spare:
    profile_id, placement = lying(gpu, name, start)
    return Spare(
        gpu_uuid=gpu.uuid,
        gi_id=100 + start,
        profile_id=profile_id,
        placement=placement,
        owner=f"run/old{start}",
        mig_uuid=f"MIG-{start}" if usable else None,
    )


def running(*jobs: str) -> dict[str, JobState]:
    return dict.fromkeys(jobs, JobState.RUNNING)


def shown(start: Start, gpus: Sequence[Gpu] = ()) -> str:
    """`a 3g.20gb@4`, with `=` where it takes over, and the starts of what is destroyed."""
    name = start.profile.name if start.profile is not None else "GPU"
    index = next((str(gpu.index) for gpu in gpus if gpu.uuid == start.gpu_uuid), "") if len(gpus) > 1 else ""
    at = f"@{index + ':' if index else ''}{start.placement.start if start.placement is not None else index or 0}"
    over = "=" if start.takes_over is not None else ""
    gone = "".join(f" -{spare.placement.start}" for spare in start.destroys)
    return f"{start.job} {over}{name}{at}{gone}"


def starts(decision: Decision, gpus: Sequence[Gpu] = ()) -> list[str]:
    return [shown(start, gpus) for start in decision.starts]


def why(decision: Decision) -> dict[str, str]:
    return {job: reason.why.value for job, reason in decision.waits.items()}


def wrong(situation: Situation, decision: Decision) -> list[str]:
    """What no decision may do, checked by nothing but the rules of the hardware."""
    found: list[str] = []
    gone = {(s.gpu_uuid, s.gi_id) for start in decision.starts for s in start.destroys}
    over = [(s.gpu_uuid, s.gi_id) for start in decision.starts if (s := start.takes_over) is not None]
    if len(set(over)) != len(over) or gone & set(over):
        found.append("an instance is taken over twice, or also destroyed")
    for site in situation.sites:
        here = [start for start in decision.starts if start.gpu_uuid == site.gpu.uuid]
        lie = [(s.placement, s.profile_id) for s in site.stays]
        lie += [(s.placement, s.profile_id) for s in site.spares if (s.gpu_uuid, s.gi_id) not in gone | set(over)]
        lie += [
            (s.placement or WHOLE_PLACEMENT, s.profile.id if s.profile is not None else WHOLE_GPU)
            for s in here
            if s.instance_uuid is None
        ]
        found += impossible(site.gpu, lie)
        for start in here:
            s = start.takes_over
            if s is not None and (
                start.profile is None or (s.placement, s.profile_id) != (start.placement, start.profile.id)
            ):
                found.append(f"{start.job} takes over what is not its place")
    return found


def impossible(gpu: Gpu, lie: Iterable[tuple[Placement, int]]) -> list[str]:
    """Why these instances, or jobs with the whole GPU, cannot be on it together."""
    placed = list(lie)
    if any(profile_id == WHOLE_GPU for _, profile_id in placed):
        return ["a whole GPU is shared"] if len(placed) > 1 else []
    profiles = {profile.id: profile for profile in gpu.profiles}
    together = [(place, profiles[profile_id]) for place, profile_id in placed]
    if allowed(gpu, together):
        return []
    return [f"not together: {', '.join(f'{profile.name}@{place}' for place, profile in together)}"]


def fits(situation: Situation, decision: Decision, asked: Wish) -> bool:
    """Whether one more job could be placed after all starts, with the instances of ended jobs as free room."""
    for site in situation.sites:
        profile = asked.options.get(site.gpu.uuid)
        if profile is None:
            continue
        lie = [(s.placement, s.profile_id) for s in site.stays]
        lie += [
            (s.placement or WHOLE_PLACEMENT, s.profile.id if s.profile is not None else WHOLE_GPU)
            for s in decision.starts
            if s.gpu_uuid == site.gpu.uuid
        ]
        if any(not impossible(site.gpu, [*lie, (place, profile.id)]) for place in profile.placements):
            return True
    return False


def after(situation: Situation, decision: Decision) -> Situation:
    """The situation when everything that was decided has been done."""
    states = {**situation.states, **{start.job: JobState.RUNNING for start in decision.starts}}
    expect = {turn.name: turn.expect_s for turn in situation.turns}
    company = {turn.name: turn.wish.company for turn in situation.turns}
    sites: list[Site] = []
    for site in situation.sites:
        here = [start for start in decision.starts if start.gpu_uuid == site.gpu.uuid]
        gone = {s.gi_id for start in here for s in start.destroys}
        gone |= {start.takes_over.gi_id for start in here if start.takes_over is not None}
        more = tuple(
            Stay(
                placement=start.placement or WHOLE_PLACEMENT,
                profile_id=start.profile.id if start.profile is not None else WHOLE_GPU,
                owner="run",
                job=start.job,
                cores=start.cores,
                memory_mib=start.memory_mib,
                ends_at=situation.now + lasts if (lasts := expect[start.job]) is not None else None,
                company=company[start.job],
            )
            for start in here
        )
        kept = tuple(s for s in site.spares if s.gi_id not in gone)
        sites.append(replace(site, stays=(*site.stays, *more), spares=kept))
    free = dict(situation.free_cores) if situation.free_cores is not None else None
    if free is not None:
        for start in decision.starts:
            scope = next(site.scope for site in situation.sites if site.gpu.uuid == start.gpu_uuid)
            free[scope] -= start.cores
    started = {**situation.history.started, **{start.job: situation.now for start in decision.starts}}
    return replace(
        situation,
        states=states,
        sites=sites,
        free_cores=free,
        history=replace(situation.history, started=started),
    )


def ended(situation: Situation, job: str, now: float) -> Situation:
    """The situation when a running job has ended well; its instance is left where nobody shares it."""
    sites: list[Site] = []
    free = dict(situation.free_cores) if situation.free_cores is not None else None
    for site in situation.sites:
        mine = next((s for s in site.stays if s.job == job), None)
        if mine is None:
            sites.append(site)
            continue
        left = Spare(
            gpu_uuid=site.gpu.uuid,
            gi_id=max([s.gi_id for s in site.spares] or [1000]) + 1,
            profile_id=mine.profile_id,
            placement=mine.placement,
            owner=f"run/{job}",
            mig_uuid=f"MIG-{job}",
        )
        shared = any(s is not mine and s.placement == mine.placement for s in site.stays)
        spares = site.spares if mine.profile_id == WHOLE_GPU or shared else (*site.spares, left)
        sites.append(replace(site, stays=tuple(s for s in site.stays if s is not mine), spares=spares))
        if free is not None:
            free[site.scope] += mine.cores
    finished = {**situation.history.finished, job: now}
    return replace(
        situation,
        states={**situation.states, job: JobState.SUCCEEDED},
        sites=sites,
        now=now,
        free_cores=free,
        history=replace(situation.history, finished=finished),
    )
