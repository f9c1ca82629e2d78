"""Placements for all jobs at once, beside what already runs, before any GPU is touched: they exist, or the conflict is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from migctl.core.gpu import packing
from migctl.core.gpu.bounds import Bin
from migctl.core.gpu.contention import PATIENCE, smallest_conflict
from migctl.core.gpu.cover import Cover
from migctl.core.gpu.mig import ComputeSlices, Gpu, MemorySlices, Placement, Profile
from migctl.core.gpu.packing import NOWHERE, Counts
from migctl.core.gpu.search import OutOfPatience


@dataclass(frozen=True, slots=True)
class Occupied:
    """An instance that stays where it is."""

    placement: Placement
    profile_id: int
    owner: str
    """`run/job` or `user/run`, or "not ours"."""


@dataclass(frozen=True, slots=True)
class Room:
    """One selected GPU and what lies on it."""

    gpu: Gpu
    occupied: tuple[Occupied, ...] = ()
    preferred: bool = False
    """Fill it before the others, as if something of this run were there already."""

    @property
    def started(self) -> bool:
        """Whether it is filled before empty GPUs are."""
        return self.preferred or bool(self.occupied)


@dataclass(frozen=True, slots=True)
class Demand:
    """What a job needs: one instance, on one of some GPUs."""

    job: str
    options: Mapping[str, Profile]
    """GPU UUID → the profile it would get there; it may not go to GPUs that are missing here."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job's instance is created."""

    job: str
    gpu_uuid: str
    profile: Profile
    placement: Placement


@dataclass(frozen=True, slots=True)
class Placed:
    """All of them run at once, like this; in the plan's order."""

    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Slices:
    """Both resources of a GPU, side by side."""

    compute: ComputeSlices
    memory: MemorySlices


@dataclass(frozen=True, slots=True)
class Blocker:
    """An instance in the way."""

    gpu_uuid: str
    occupied: Occupied


@dataclass(frozen=True, slots=True)
class Conflict:
    """They cannot all run at once."""

    jobs: tuple[str, ...]
    """The smallest set that cannot run at once, in the plan's order (see `contention` for how small)."""
    never: tuple[str, ...]
    """Jobs that do not fit even alone on the selected GPUs when these are empty, in the plan's order."""
    blocked_by: tuple[Blocker, ...]
    """Where all would fit on empty GPUs: instances that would have to end, none of them needlessly. Else nothing."""
    needs: Slices
    """All demands together, each with the smallest of its options."""
    has: Slices
    """The GPUs that the demands allow: as if empty, or what is free of them where `blocked_by` names somebody."""


def place(demands: Sequence[Demand], rooms: Sequence[Room]) -> Placed | Conflict:
    """Find a layout in which all demands run beside what is there; exact: it is found if and only if one exists.

    GPUs on which something lies are filled first, then the others in the order given; jobs with the same options get their
    places in the plan's order. Which places are taken depends on the set of demands, not on their order.
    """
    table = _Table(demands, rooms)
    never = table.never()
    if never:
        return _conflict(table, never, never, (), empty=True)
    counts = table.counts(range(len(demands)))
    solution = table.cover.solve(counts)
    if solution is not None:
        return table.placed(range(len(demands)), solution)
    empty = _Table(demands, [Room(room.gpu, preferred=room.started) for room in rooms])
    if empty.cover.solve(counts) is None:
        return _conflict(empty, empty.first_jobs(smallest_conflict(empty.cover, counts)), (), (), empty=True)
    jobs = table.first_jobs(smallest_conflict(table.cover, counts))
    return _conflict(table, jobs, (), _in_the_way(demands, rooms), empty=False)


def place_most(demands: Sequence[Demand], rooms: Sequence[Room]) -> tuple[Placed, tuple[str, ...]]:
    """What starts now: in the plan's order every job that still fits beside those before it; later ones may fill gaps.

    Whether it fits is not searched for without end: on several GPUs a job may wait although a layout could be found.

    Returns:
        The places, and the jobs that wait, both in the plan's order.
    """
    table = _Table(demands, rooms)
    accepted: list[int] = []
    waiting: list[str] = []
    full: set[int] = set()
    counts = [0] * len(table.kinds)
    solution = table.cover.solve(tuple(counts))
    for number, kind in enumerate(table.kind_of):
        if kind not in full:
            counts[kind] += 1
            more = table.add_one(solution, kind) or _soon(table.cover, tuple(counts))
            if more is not None:
                solution = more
                accepted.append(number)
                continue
            counts[kind] -= 1
            full.add(kind)
        waiting.append(demands[number].job)
    assert solution is not None  # nothing at all always fits
    return table.placed(accepted, _soon(table.cover, tuple(counts)) or solution), tuple(waiting)


def could_add(room: Room) -> tuple[Profile, ...]:
    """The profiles of which one more fits on this GPU, largest first."""
    one = _bin(room)
    return packing.could_add(one.rules, one.taken)


def _soon(cover: Cover, counts: Counts) -> tuple[Counts, ...] | None:
    """A division that is found without a long search."""
    try:
        return cover.solve(counts, PATIENCE)
    except OutOfPatience:
        return None


class _Table:
    """Demands and rooms in the numbers of the search."""

    def __init__(self, demands: Sequence[Demand], rooms: Sequence[Room]) -> None:
        self.demands = demands
        self.rooms = sorted(rooms, key=lambda room: not room.started)
        self.bins = [_bin(room) for room in self.rooms]
        positions = [{profile.id: n for n, profile in enumerate(b.rules.profiles)} for b in self.bins]
        uuids = [room.gpu.uuid for room in self.rooms]
        seen: dict[tuple[int, ...], Counts] = {}
        rows: list[Counts] = []
        for demand in demands:
            ids = tuple(demand.options[uuid].id if uuid in demand.options else NOWHERE for uuid in uuids)
            if ids not in seen:
                seen[ids] = tuple(
                    NOWHERE if profile_id == NOWHERE else position.get(profile_id, NOWHERE)
                    for profile_id, position in zip(ids, positions, strict=True)
                )
            rows.append(seen[ids])
        self.kinds = tuple(sorted(set(rows)))
        number = {kind: n for n, kind in enumerate(self.kinds)}
        self.kind_of = [number[row] for row in rows]
        self.cover = Cover(self.bins, self.kinds)

    def counts(self, jobs: Sequence[int]) -> Counts:
        """How many of each kind these demands are."""
        counts = [0] * len(self.kinds)
        for job in jobs:
            counts[self.kind_of[job]] += 1
        return tuple(counts)

    def never(self) -> tuple[int, ...]:
        """Demands that no selected GPU can meet even when empty; a profile of the driver's list always fits an empty GPU."""
        return tuple(n for n, kind in enumerate(self.kind_of) if all(p == NOWHERE for p in self.kinds[kind]))

    def first_jobs(self, counts: Counts) -> tuple[int, ...]:
        """The first demands of each kind, so many."""
        left = list(counts)
        jobs: list[int] = []
        for job, kind in enumerate(self.kind_of):
            if left[kind]:
                left[kind] -= 1
                jobs.append(job)
        return tuple(jobs)

    def add_one(self, solution: tuple[Counts, ...] | None, kind: int) -> tuple[Counts, ...] | None:
        """The solution with one more job on the first GPU that has room for it as it stands."""
        if solution is None:
            return None
        for n, row in enumerate(solution):
            if self.kinds[kind][n] == NOWHERE:
                continue
            more = (*row[:kind], row[kind] + 1, *row[kind + 1 :])
            wanted, counts = self._profiles(n, more)
            if packing.fits(self.bins[n].rules, self.bins[n].taken, wanted, counts):
                return (*solution[:n], more, *solution[n + 1 :])
        return None

    def holds(self, solution: tuple[Counts, ...], room: Room) -> bool:
        """Whether one GPU, with what lies on it now, has room for its part of a solution."""
        n = next(n for n, one in enumerate(self.rooms) if one.gpu.uuid == room.gpu.uuid)
        here = _bin(room)
        return packing.fits(here.rules, here.taken, *self._profiles(n, solution[n]))

    def placed(self, jobs: Sequence[int], solution: tuple[Counts, ...]) -> Placed:
        """Give each of the demands its place."""
        queues: list[list[int]] = [[] for _ in self.kinds]
        for job in reversed(jobs):
            queues[self.kind_of[job]].append(job)
        places: dict[int, Place] = {}
        for n, row in enumerate(solution):
            if not any(row):
                continue
            rules = self.bins[n].rules
            here: dict[int, list[int]] = {}
            for kind, count in enumerate(row):
                for _ in range(count):
                    here.setdefault(self.kinds[kind][n], []).append(queues[kind].pop())
            waiting = {profile: iter(sorted(found)) for profile, found in here.items()}
            for profile, spot in packing.layout(rules, self.bins[n].taken, *self._profiles(n, row)):
                job = next(waiting[profile])
                places[job] = Place(self.demands[job].job, self.rooms[n].gpu.uuid, rules.profiles[profile], spot)
        return Placed(tuple(places[job] for job in jobs))

    def _profiles(self, n: int, row: Counts) -> tuple[Counts, Counts]:
        """The profiles of GPU `n` that are needed for so many of each kind, and how many."""
        counts: dict[int, int] = {}
        for kind, count in enumerate(row):
            if count:
                profile = self.kinds[kind][n]
                counts[profile] = counts.get(profile, 0) + count
        wanted = tuple(sorted(counts))
        return wanted, tuple(counts[profile] for profile in wanted)


def _bin(room: Room) -> Bin:
    rules = packing.grid(room.gpu.profiles)
    return Bin(rules, packing.used(rules, ((o.placement, o.profile_id) for o in room.occupied)))


def _in_the_way(demands: Sequence[Demand], rooms: Sequence[Room]) -> tuple[Blocker, ...]:
    """Instances without which the demands fit, none of them needlessly: one after another is put back where all still fit."""
    wanted = {uuid for demand in demands for uuid in demand.options}
    now = {r.gpu.uuid: Room(r.gpu, () if r.gpu.uuid in wanted else r.occupied, preferred=r.started) for r in rooms}
    table = _Table(demands, list(now.values()))
    counts = table.counts(range(len(demands)))
    solution = table.cover.solve(counts)
    blockers: list[Blocker] = []
    for room in rooms:
        uuid = room.gpu.uuid
        for occupied in room.occupied if uuid in wanted else ():
            fuller = replace(now[uuid], occupied=(*now[uuid].occupied, occupied))
            fits = solution
            if solution is None or not table.holds(solution, fuller):
                fits = _soon(_Table(demands, list({**now, uuid: fuller}.values())).cover, counts)
            if fits is None:
                blockers.append(Blocker(uuid, occupied))
            else:
                now[uuid], solution = fuller, fits
    return tuple(blockers)


def _conflict(
    table: _Table, jobs: Sequence[int], never: Sequence[int], blocked_by: tuple[Blocker, ...], *, empty: bool
) -> Conflict:
    allowed = {uuid for demand in table.demands for uuid in demand.options}
    compute = memory = 0
    for demand in table.demands:
        compute += min((profile.compute_slices for profile in demand.options.values()), default=0)
        memory += min((profile.memory_slices for profile in demand.options.values() if profile.placements), default=0)
    has_compute = has_memory = 0
    for room, one in zip(table.rooms, table.bins, strict=True):
        if room.gpu.uuid in allowed:
            has_compute += max(0, one.rules.compute_slices - (0 if empty else one.taken.compute_slices))
            has_memory += one.rules.memory_slices - (0 if empty else one.taken.mask.bit_count())
    return Conflict(
        jobs=tuple(table.demands[job].job for job in jobs),
        never=tuple(table.demands[job].job for job in never),
        blocked_by=blocked_by,
        needs=Slices(ComputeSlices(compute), MemorySlices(memory)),
        has=Slices(ComputeSlices(has_compute), MemorySlices(has_memory)),
    )
