"""The room on the run's GPUs while one decision is made: which jobs fit together, and where each of them goes in the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from migctl.core.gpu import packing
from migctl.core.gpu.bounds import Bin
from migctl.core.gpu.company import Company
from migctl.core.gpu.contention import PATIENCE
from migctl.core.gpu.cover import Cover
from migctl.core.gpu.mig import Placement, Profile
from migctl.core.gpu.packing import NOWHERE, Counts, Grid, Used
from migctl.core.gpu.search import OutOfPatience
from migctl.core.queueing.recut import recut
from migctl.core.queueing.seats import Seat, Seats, free_seats, lying
from migctl.core.queueing.spot import Keep, Spot
from migctl.core.queueing.turn import WHOLE_GPU, Site, Spare, Stay, Wish, whole_profile
from migctl.core.words import counted


class Floor:
    """GPUs in the order in which they are filled, and what lies on them.

    First jobs are counted in (`add`), whichever places they get; then each gets its place (`seat`). After that further jobs can
    be placed one by one (`behind`), also beside room that is kept.

    Args:
        sites: the run's GPUs.
        wishes: of all jobs that will be asked for.
    """

    def __init__(self, sites: Sequence[Site], wishes: Iterable[Wish]) -> None:
        self.sites = tuple(sorted(sites, key=lambda site: not site.stays))
        asked = list(dict.fromkeys(wishes))
        self._whole = [_given_whole(site, asked) for site in self.sites]
        self._rules = [
            packing.grid((whole_profile(site.gpu),) if whole else site.gpu.profiles)
            for site, whole in zip(self.sites, self._whole, strict=True)
        ]
        self._stays = [list(site.stays) for site in self.sites]
        self._spares = [list[Spare]() for _ in self.sites]
        for n, site in enumerate(self.sites):
            for spare in site.spares:
                if self._rules[n].position(spare.profile_id) is not None:
                    self._spares[n].append(spare)
                else:  # of what the driver does not name it is not known what could lie beside it
                    self._stays[n].append(
                        Stay(placement=spare.placement, profile_id=spare.profile_id, owner=spare.owner)
                    )
        self._taken: dict[int, Used] = {}
        self._keep: Keep | None = None
        self._after_keep: list[tuple[Placement, int]] = []
        pairs = [(site.gpu.uuid, rules) for site, rules in zip(self.sites, self._rules, strict=True)]
        self._rows: dict[Wish, Counts] = {
            wish: tuple(_position(rules, wish.options.get(uuid)) for uuid, rules in pairs) for wish in asked
        }
        self._kinds = tuple(sorted(set(self._rows.values())))
        self._kind = {wish: self._kinds.index(row) for wish, row in self._rows.items()}
        self._counts: Counts = (0,) * len(self._kinds)
        self._seats = Seats(self._stays)
        self._joined: list[Seat | None] = []
        """Of each job that was counted in, whose instance it shares."""
        self._cover = Cover(self._bins(), self._kinds)
        self._solution: tuple[Counts, ...] = ((0,) * len(self._kinds),) * len(self.sites)

    def add(self, wish: Wish) -> bool:
        """Count one more job in, if a layout for all of them exists beside what stays (on several GPUs: is found soon)."""
        kind = self._kind[wish]
        if wish.company is not None:
            seat = self._seats.take(wish.company, kind, partial(self.option, wish))
            if seat is not None:
                self._joined.append(seat)
                return True
        counts = (*self._counts[:kind], self._counts[kind] + 1, *self._counts[kind + 1 :])
        solution = self._grown(kind)
        if solution is None and len(self.sites) > 1:  # on one GPU there is no other way to divide them
            solution = _soon(self._cover, counts)
        if solution is None:
            return False
        self._counts, self._solution = counts, solution
        if wish.company is not None:
            self._seats.open(wish.company, kind, len(self._joined))
        self._joined.append(None)
        return True

    def seat(self, wishes: Sequence[Wish]) -> list[Spot]:
        """Places for the jobs that were counted in, in the same order; each still has to be `put` there.

        As many as possible take over an instance of their profile, if the others still fit then; for the rest as few instances
        as possible are destroyed.
        """
        stays, spares = [[*here] for here in self._stays], [[*here] for here in self._spares]
        spots: dict[int, Spot] = {}
        counts = list(self._counts)
        alone = [n for n, seat in enumerate(self._joined) if seat is None]
        if any(spares):
            for n in alone:
                wish = wishes[n]
                counts[self._kind[wish]] -= 1
                spot = self._takes_over(wish, tuple(counts))
                if spot is not None:
                    spots[n] = spot
                else:
                    counts[self._kind[wish]] += 1
        spots |= self._cut_for([(n, wishes[n]) for n in alone if n not in spots], tuple(counts))
        self._stays, self._spares = stays, spares
        self._taken.clear()
        spots |= {n: self._at(seat, spots) for n, seat in enumerate(self._joined) if seat is not None}
        return [spots[n] for n in range(len(wishes))]

    def fits(self, wish: Wish, *, short: bool) -> Spot | None:
        """The best place for one more job now.

        Args:
            wish: what it needs.
            short: it will have ended when the room that is kept is needed, so it may lie there.
        """
        if wish.company is not None:
            joined = self._beside(wish.company, wish, short=short)
            if joined is not None:
                return joined
        found: list[tuple[tuple[int, int, tuple[int, int, int], int], Spot]] = []
        for n, profile in enumerate(self._rows[wish]):
            if profile == NOWHERE:
                continue
            taken = self._used(n) if short else self._used_beside_keep(n)
            spot = self._spot(n, profile, taken)
            if spot is not None:
                rules = self._rules[n]
                mask = taken.mask | ((1 << spot.placement.size) - 1) << spot.placement.start
                left = rules.compute_slices - taken.compute_slices - spot.profile.compute_slices
                spoilt = packing.spoilt(rules, mask, left, _open(rules, taken, left))
                # A GPU that is in use already is filled before an empty one.
                key = (len(spot.destroys), -(spot.takes_over is not None), spoilt, n)
                if not self._stays[n]:
                    key = (key[0], key[1], (1, 0, 0), n)
                found.append((key, spot))
        return min(found, key=lambda pair: pair[0])[1] if found else None

    def put(self, spot: Spot, stay: Stay, *, short: bool) -> None:
        """Place one more job where `fits` said."""
        if self._keep is not None and not short and spot.site == self._keep.site:
            self._after_keep.append((spot.placement, spot.profile.id))
        gone = {spare.gi_id for spare in spot.destroys} | ({spot.takes_over.gi_id} if spot.takes_over else set())
        self._spares[spot.site] = [spare for spare in self._spares[spot.site] if spare.gi_id not in gone]
        self._stays[spot.site].append(stay)
        self._taken.pop(spot.site, None)

    def stays(self, site: int) -> Sequence[Stay]:
        """What lies on a GPU now, jobs included that have been seated."""
        return self._stays[site]

    def option(self, wish: Wish, site: int) -> Profile | None:
        """The profile that a job gets on this GPU."""
        position = self._rows[wish][site]
        return None if position == NOWHERE else self._rules[site].profiles[position]

    def together(self, site: int, stays: Sequence[Stay], profile: Profile, placement: Placement) -> bool:
        """Whether an instance can lie there when only these others are on the GPU."""
        rules = self._rules[site]
        taken = packing.used(rules, lying(stays))
        position = rules.position(profile.id)
        free = not any(stay.placement.overlaps(placement) for stay in stays)
        return position is not None and free and packing.fits(rules, taken, (position,), (1,))

    def keep(self, kept: Keep, wish: Wish) -> None:  # noqa: ARG002 -- as SharedFloor, which needs it
        """From now on keep this room free, but for jobs that end in time."""
        self._keep = kept
        leaving = set(map(id, kept.leaving))
        self._after_keep = [(s.placement, s.profile_id) for s in self._stays[kept.site] if id(s) not in leaving]
        self._after_keep.append((kept.placement, kept.profile.id))

    def full_words(self, wish: Wish) -> str:
        """Why a job has no room."""
        allowed = [n for n, profile in enumerate(self._rows[wish]) if profile != NOWHERE]
        if not allowed:
            return f"needs {wish.words}, which none of the run's working GPUs has"
        compute = memory = all_compute = all_memory = 0
        for n in allowed:
            used, rules = self._used(n), self._rules[n]
            compute += max(0, rules.compute_slices - used.compute_slices)
            memory += rules.memory_slices - used.mask.bit_count()
            all_compute += rules.compute_slices
            all_memory += rules.memory_slices
        if all(self._whole[n] for n in allowed):
            return f"needs {wish.words}; {'all of them are' if len(allowed) > 1 else 'it is'} in use"
        where = "" if len(allowed) == 1 else f" on {counted(len(allowed), 'GPU')}"
        return (
            f"no room: needs {wish.words}, and beside what runs {compute} of {all_compute} compute and {memory} of {all_memory} "
            f"memory slices are free{where}"
        )

    def _at(self, seat: Seat, spots: Mapping[int, Spot]) -> Spot:
        """Where a seat is in the end."""
        if seat.placement is None:
            return spots[seat.leader or 0]
        profile = next(p for p in self._rules[seat.site].profiles if p.id == seat.profile_id)
        return Spot(site=seat.site, profile=profile, placement=seat.placement)

    def _beside(self, company: Company, wish: Wish, *, short: bool) -> Spot | None:
        """A seat beside others now; where their room is kept for somebody only for who ends in time."""
        kept = self._keep
        for seat in free_seats(self._stays, company, partial(self.option, wish)):
            leaving = kept.leaving if kept is not None and kept.site == seat.site else ()
            if short or all(stay.placement != seat.placement for stay in leaving):
                return self._at(seat, {})
        return None

    def _bins(self) -> list[Bin]:
        return [Bin(rules, self._used(n)) for n, rules in enumerate(self._rules)]

    def _used(self, n: int) -> Used:
        known = self._taken.get(n)
        if known is None:
            known = self._taken[n] = packing.used(self._rules[n], lying(self._stays[n]))
        return known

    def _used_beside_keep(self, n: int) -> Used:
        """What is taken for a job that is still there when the kept room is needed: the more of now and then."""
        now = self._used(n)
        if self._keep is None or self._keep.site != n:
            return now
        then = packing.used(self._rules[n], dict.fromkeys(self._after_keep))
        return Used(
            now.mask | then.mask, max(now.compute_slices, then.compute_slices), tuple(map(max, now.counts, then.counts))
        )

    def _grown(self, kind: int) -> tuple[Counts, ...] | None:
        """The division with one more job on the first GPU that has room for it as it stands."""
        for n, row in enumerate(self._solution):
            if self._kinds[kind][n] == NOWHERE:
                continue
            more = (*row[:kind], row[kind] + 1, *row[kind + 1 :])
            items = self._items(n, more)
            wanted = tuple(dict.fromkeys(items))
            if packing.fits(self._rules[n], self._used(n), wanted, tuple(items.count(p) for p in wanted)):
                return (*self._solution[:n], more, *self._solution[n + 1 :])
        return None

    def _items(self, n: int, row: Counts) -> Counts:
        """The profiles of so many of each kind on a GPU, one entry each, ascending."""
        return tuple(sorted(self._kinds[kind][n] for kind, count in enumerate(row) for _ in range(count)))

    def _takes_over(self, wish: Wish, others: Counts) -> Spot | None:
        """An instance of its profile that the job can have, if all others still fit then."""
        for n, position in enumerate(self._rows[wish]):
            if position == NOWHERE:
                continue
            profile = self._rules[n].profiles[position]
            for spare in self._spares[n]:
                if spare.profile_id != profile.id or spare.mig_uuid is None:
                    continue
                self._stays[n].append(Stay(placement=spare.placement, profile_id=profile.id, owner=""))
                self._taken.pop(n, None)
                if _soon(Cover(self._bins(), self._kinds), others) is not None:
                    self._spares[n].remove(spare)
                    return Spot(site=n, profile=profile, placement=spare.placement, takes_over=spare)
                self._stays[n].pop()
                self._taken.pop(n, None)
        return None

    def _cut_for(self, waiting: Sequence[tuple[int, Wish]], counts: Counts) -> dict[int, Spot]:
        """Places for jobs beside those that take something over."""
        if not waiting:
            return {}
        # The division that `add` grew holds where the search is not asked again, or runs out of patience: nothing was taken over.
        solution = _soon(Cover(self._bins(), self._kinds), counts) or self._solution
        queues: list[list[int]] = [[] for _ in self._kinds]
        for n, wish in reversed(waiting):
            queues[self._kind[wish]].append(n)
        spots: dict[int, Spot] = {}
        for site, row in enumerate(solution):
            here: dict[int, list[int]] = {}
            for kind, count in enumerate(row):
                for _ in range(count):
                    here.setdefault(self._kinds[kind][site], []).append(queues[kind].pop())
            jobs = {profile: iter(sorted(found)) for profile, found in here.items()}
            cut, destroyed = self._cut(site, self._items(site, row), self._used(site))
            placed = {next(jobs[position]): spot for position, spot in cut}
            for n in sorted(placed):
                mine = tuple(spare for spare in destroyed if spare.placement.overlaps(placed[n].placement))
                destroyed = tuple(spare for spare in destroyed if spare not in mine)
                placed[n] = replace(placed[n], destroys=mine)
            if destroyed:
                # Not in anybody's way, but too many slices together: the first job of the GPU sees to them.
                first = min(placed)
                placed[first] = replace(placed[first], destroys=(*placed[first].destroys, *destroyed))
            spots |= placed
        return spots

    def _spot(self, n: int, profile: int, taken: Used) -> Spot | None:
        found, destroyed = self._cut(n, (profile,), taken)
        return replace(found[0][1], destroys=destroyed) if found else None

    def _cut(self, n: int, items: Counts, taken: Used) -> tuple[list[tuple[int, Spot]], tuple[Spare, ...]]:
        """Places for profiles on one GPU, and the instances that have to go for them."""
        rules = self._rules[n]
        spares = self._spares[n]
        places = tuple((_position(rules, spare), spare.placement, spare.mig_uuid is not None) for spare in spares)
        found = recut(rules, taken, places, items) if items else None
        if found is None:
            return [], ()
        spots = [
            Spot(
                site=n,
                profile=rules.profiles[seat.profile],
                placement=seat.placement,
                takes_over=spares[seat.spare] if seat.spare is not None else None,
            )
            for seat in found.seats
        ]
        return list(zip((seat.profile for seat in found.seats), spots, strict=True)), tuple(
            spares[k] for k in found.destroyed
        )


def _given_whole(site: Site, wishes: Iterable[Wish]) -> bool:
    """Whether jobs get the GPU itself: as they ask, since its mode may be about to change; else as its mode is."""
    for wish in wishes:
        option = wish.options.get(site.gpu.uuid)
        if option is not None:
            return option.id == WHOLE_GPU
    return site.gpu.mig is None or not site.gpu.mig.current


def _position(rules: Grid, profile: Profile | Spare | None) -> int:
    position = None
    if profile is not None:
        position = rules.position(profile.profile_id if isinstance(profile, Spare) else profile.id)
    return NOWHERE if position is None else position


def _open(rules: Grid, taken: Used, left: int) -> list[int]:
    return [
        p
        for p in rules.plain
        if rules.profiles[p].compute_slices <= left and taken.counts[p] < rules.profiles[p].max_instances
    ]


def _soon(cover: Cover, counts: Counts) -> tuple[Counts, ...] | None:
    try:
        return cover.solve(counts, PATIENCE)
    except OutOfPatience:
        return None
