"""The room on whole GPUs that several jobs share: limited by the memory that the jobs declare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from migctl.core.queueing.spot import Keep, Spot
from migctl.core.queueing.turn import WHOLE_PLACEMENT, Site, Stay, Wish, whole_profile
from migctl.core.words import counted


class SharedFloor:
    """As `Floor`, under `strategy: shared`.

    Args:
        sites: the run's GPUs.
        wishes: unused; every job asks for memory of some of the GPUs.
    """

    def __init__(self, sites: Sequence[Site], wishes: Iterable[Wish]) -> None:  # noqa: ARG002 -- the same way to make both
        self.sites = tuple(sites)
        self._stays = [list(site.stays) for site in self.sites]
        self._free = [site.gpu.memory_mib - sum(stay.memory_mib for stay in site.stays) for site in self.sites]
        self._count = [len(site.stays) for site in self.sites]
        self._counted_in: list[Spot] = []
        self._keep: Keep | None = None
        self._then = 0

    def add(self, wish: Wish) -> bool:
        """Count one more job in, if its memory is free."""
        spot = self.fits(wish, short=True)
        if spot is None:
            return False
        self._counted_in.append(spot)
        self._free[spot.site] -= wish.memory_mib
        self._count[spot.site] += 1
        return True

    def seat(self, wishes: Sequence[Wish]) -> list[Spot]:
        """The GPUs of the jobs that were counted in, in the same order; each still has to be `put` there."""
        for spot, wish in zip(self._counted_in, wishes, strict=True):
            self._free[spot.site] += wish.memory_mib
            self._count[spot.site] -= 1
        return self._counted_in

    def fits(self, wish: Wish, *, short: bool) -> Spot | None:
        """Where one more job goes: fewest jobs, then most free memory. `short` as in `Floor.fits`."""
        fitting = [
            n
            for n, site in enumerate(self.sites)
            if site.gpu.uuid in wish.options
            and wish.memory_mib <= self._free[n]
            and (short or self._keep is None or self._keep.site != n or wish.memory_mib <= self._then)
        ]
        if not fitting:
            return None
        site = min(fitting, key=lambda n: (self._count[n], -self._free[n], n))
        return Spot(site=site, profile=whole_profile(self.sites[site].gpu), placement=WHOLE_PLACEMENT)

    def put(self, spot: Spot, stay: Stay, *, short: bool) -> None:
        """Place a job where `seat` or `fits` said."""
        self._stays[spot.site].append(stay)
        self._free[spot.site] -= stay.memory_mib
        self._count[spot.site] += 1
        if self._keep is not None and self._keep.site == spot.site and not short:
            self._then -= stay.memory_mib

    def soonest(self, wish: Wish, now: float) -> tuple[Keep, float | None] | None:
        """As `reservation.soonest`: the GPU on which the fewest running jobs have to end, those that end first."""
        best: tuple[tuple[bool, float, int, int], Keep, float | None] | None = None
        for n, site in enumerate(self.sites):
            if site.gpu.uuid not in wish.options:
                continue
            free = self._free[n]
            leaving: list[Stay] = []
            ours = [stay for stay in self._stays[n] if stay.job is not None and stay.memory_mib]
            known = {id(stay): stay.ends_at for stay in ours if stay.ends_at is not None and stay.ends_at > now}
            for stay in sorted(ours, key=lambda stay: (id(stay) not in known, known.get(id(stay), 0.0))):
                if free >= wish.memory_mib:
                    break
                leaving.append(stay)
                free += stay.memory_mib
            if free < wish.memory_mib:
                continue
            ends = [known.get(id(stay)) for stay in leaving]
            at = None if None in ends else max((end for end in ends if end is not None), default=now)
            key = (at is None, at or 0.0, len(leaving), n)
            if best is None or key < best[0]:
                profile = whole_profile(site.gpu)
                kept = Keep(site=n, profile=profile, placement=WHOLE_PLACEMENT, leaving=tuple(leaving))
                best = key, kept, at
        return best[1:] if best is not None else None

    def keep(self, kept: Keep, wish: Wish) -> None:
        """From now on keep the memory free that this job needs."""
        self._keep = kept
        self._then = self._free[kept.site] + sum(stay.memory_mib for stay in kept.leaving) - wish.memory_mib

    def full_words(self, wish: Wish) -> str:
        """Why a job has no room."""
        free = [self._free[n] for n, site in enumerate(self.sites) if site.gpu.uuid in wish.options]
        if not free:
            return "none of the run's working GPUs is without MIG, and so none can be shared"
        where = "" if len(free) == 1 else f" on any of {counted(len(free), 'GPU')}"
        return f"no room: declares {wish.memory_mib} MiB of GPU memory, and beside what runs {max(free)} MiB are left{where}"
