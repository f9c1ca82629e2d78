"""Free seats on instances that several jobs share, while one decision is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from migctl.core.gpu.company import Company
from migctl.core.gpu.mig import Placement, Profile
from migctl.core.queueing.turn import Stay


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a job sits beside others: on an instance that is there, or on the one that a job counted in before it gets."""

    site: int
    profile_id: int
    placement: Placement | None
    leader: int | None = None
    """The job that gets the instance, by its number among those that were counted in."""


@dataclass(slots=True)
class _Bench:
    company: Company
    seat: Seat
    left: int
    kind: int = -1
    """Which kind of jobs was counted in, where it is not known yet on which GPU that is."""


class Seats:
    """The seats for jobs that are counted in, before each gets its place.

    Args:
        stays: what lies on each GPU.
    """

    def __init__(self, stays: Sequence[Sequence[Stay]]) -> None:
        self._benches = list(_benches(stays))

    def take(self, company: Company, kind: int, option: Callable[[int], Profile | None]) -> Seat | None:
        """The first free seat for a job, which has it from now on.

        Args:
            company: its own.
            kind: which kind of job it is.
            option: its profile on each GPU.
        """
        for bench in self._benches:
            if bench.left <= 0 or bench.company != company:
                continue
            if bench.kind == kind if bench.seat.leader is not None else _is_its(bench.seat, option):
                bench.left -= 1
                return bench.seat
        return None

    def open(self, company: Company, kind: int, leader: int) -> None:
        """A job was counted in that gets an instance with seats for others."""
        self._benches.append(_Bench(company, Seat(-1, -1, None, leader), company.seats - 1, kind))


def free_seats(
    stays: Sequence[Sequence[Stay]], company: Company, option: Callable[[int], Profile | None]
) -> Iterator[Seat]:
    """Instances of these on which one more job finds a seat now."""
    for bench in _benches(stays):
        if bench.left > 0 and bench.company == company and _is_its(bench.seat, option):
            yield bench.seat


def lying(stays: Iterable[Stay]) -> Iterable[tuple[Placement, int]]:
    """The instances; one that several jobs share lies there once."""
    return dict.fromkeys((stay.placement, stay.profile_id) for stay in stays)


def _benches(stays: Sequence[Sequence[Stay]]) -> Iterable[_Bench]:
    found: dict[tuple[int, Placement], _Bench] = {}
    for site, here in enumerate(stays):
        for stay in here:
            if stay.company is not None:
                fresh = _Bench(stay.company, Seat(site, stay.profile_id, stay.placement), stay.company.seats)
                found.setdefault((site, stay.placement), fresh).left -= 1
    return found.values()


def _is_its(seat: Seat, option: Callable[[int], Profile | None]) -> bool:
    profile = option(seat.site)
    return profile is not None and profile.id == seat.profile_id
