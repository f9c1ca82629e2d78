"""The planner agrees with brute force: on every board exhaustively, and on mixed machines by chance."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migctl.core.gpu import packing
from migctl.core.gpu.mig import Gpu, Profile
from migctl.core.gpu.placement import Conflict, Demand, Occupied, Placed, Room, place, place_most
from migctl.nvml.models import board_gpu, boards, resolve_board
from tests.support.brute_force import Instance, Machine, allowed, layouts

MIG_BOARDS = [key for key in boards() if resolve_board(key).profiles]
EXAMINED = {  # multisets of at most one job more than compute slices, where no profile is more than one too often
    "a30": 183, "rtx-pro-6000-blackwell-96gb": 3942,
}  # fmt: skip
EXAMINED_7 = 3708


def multisets(gpu: Gpu) -> Iterator[tuple[int, ...]]:
    """Numbers of each profile: everything that can fit by count, and what is just beyond."""
    for size in range(gpu.compute_slices + 2):
        for chosen in combinations_with_replacement(range(len(gpu.profiles)), size):
            counts = tuple(chosen.count(n) for n in range(len(gpu.profiles)))
            if all(count <= p.max_instances + 1 for count, p in zip(counts, gpu.profiles, strict=True)):
                yield counts


@pytest.mark.parametrize("board", MIG_BOARDS)
def test_every_multiset_of_a_board_fits_if_and_only_if_brute_force_finds_a_layout(board: str) -> None:
    gpu = board_gpu(resolve_board(board))
    rules = packing.grid(gpu.profiles)
    nothing = packing.used(rules, ())
    order = [rules.profiles.index(p) for p in gpu.profiles]
    by_force: set[tuple[int, ...]] = set()
    examined = 0
    for counts in multisets(gpu):
        examined += 1
        # A layout of a part exists if one of the whole does, so a multiset with a part that has none needs no trying.
        parts = ((*counts[:n], count - 1, *counts[n + 1 :]) for n, count in enumerate(counts) if count)
        wanted = [p for p, count in zip(gpu.profiles, counts, strict=True) for _ in range(count)]
        expected = all(part in by_force for part in parts) and next(layouts(gpu, wanted), None) is not None
        if expected:
            by_force.add(counts)
        wanted_positions = tuple(sorted(position for position, count in zip(order, counts, strict=True) if count))
        wanted_counts = tuple(counts[order.index(position)] for position in wanted_positions)

        assert expected == packing.fits(rules, nothing, wanted_positions, wanted_counts), counts
        if expected:
            result = place([Demand(f"{n}", {gpu.uuid: p}) for n, p in enumerate(wanted)], [Room(gpu)])
            assert isinstance(result, Placed), counts
            assert allowed(gpu, [(p.placement, p.profile) for p in result.places]), counts
    assert examined == EXAMINED.get(board, EXAMINED_7)


@pytest.mark.parametrize("board", ["a100-40gb", "a30", "rtx-pro-6000-blackwell-96gb"])
def test_whatever_lies_there_one_more_job_fits_if_and_only_if_brute_force_finds_its_place(board: str) -> None:
    gpu = board_gpu(resolve_board(board))
    single = [(place_, profile) for profile in gpu.profiles for place_ in profile.placements]
    for size in range(3):
        for there in combinations(single, size):
            if allowed(gpu, there):
                room = Room(gpu, tuple(Occupied(spot, profile.id, "x") for spot, profile in there))
                for profile in gpu.profiles:
                    expected = next(layouts(gpu, [profile], there), None) is not None
                    result = place([Demand("a", {gpu.uuid: profile})], [room]) if expected else None
                    found = packing.could_add(
                        packing.grid(gpu.profiles),
                        packing.used(packing.grid(gpu.profiles), ((o.placement, o.profile_id) for o in room.occupied)),
                    )

                    assert expected == (profile in found), (there, profile.name)
                    if isinstance(result, Placed):
                        assert allowed(gpu, [*there, (result.places[0].placement, profile)])
                    else:
                        assert not expected


@st.composite
def machines(draw: st.DrawFn) -> tuple[list[Gpu], dict[str, list[Instance]], list[dict[str, Profile]]]:
    """Up to three GPUs with foreign instances, and up to nine jobs that each may use some of the GPUs."""
    gpus = [
        board_gpu(
            resolve_board(draw(st.sampled_from(["a100-40gb", "a100-40gb", "a30", "rtx-pro-6000-blackwell-96gb"]))), n
        )
        for n in range(draw(st.integers(1, 3)))
    ]
    there: dict[str, list[Instance]] = {}
    for gpu in gpus:
        for _ in range(draw(st.integers(0, 2))):
            profile = draw(st.sampled_from(gpu.profiles))
            more = [*there.get(gpu.uuid, []), (draw(st.sampled_from(profile.placements)), profile)]
            if allowed(gpu, more):
                there[gpu.uuid] = more
    jobs = []
    for _ in range(draw(st.integers(1, 9))):
        chosen = draw(st.lists(st.sampled_from(gpus), min_size=1, unique_by=lambda gpu: gpu.uuid))
        size = draw(st.integers(0, 10))
        jobs.append({gpu.uuid: gpu.profiles[size * len(gpu.profiles) // 11] for gpu in chosen})
    return gpus, there, jobs


def rooms(gpus: list[Gpu], there: dict[str, list[Instance]]) -> list[Room]:
    return [Room(g, tuple(Occupied(spot, p.id, "not ours") for spot, p in there.get(g.uuid, ()))) for g in gpus]


@settings(max_examples=300, deadline=None)
@given(machines())
def test_mixed_machines_agree_with_brute_force_and_conflicts_are_the_smallest(
    case: tuple[list[Gpu], dict[str, list[Instance]], list[dict[str, Profile]]],
) -> None:
    gpus, there, jobs = case
    demands = [Demand(f"{n}", options) for n, options in enumerate(jobs)]
    machine, empty = Machine(gpus, there), Machine(gpus)
    result = place(demands, rooms(gpus, there))

    assert isinstance(result, Placed) == machine.fits(jobs)
    if isinstance(result, Placed):
        check(gpus, there, demands, result)
        return
    assert bool(result.blocked_by) == empty.fits(jobs)
    against = machine if result.blocked_by else empty
    conflicting = [jobs[int(name)] for name in result.jobs]
    assert not against.fits(conflicting)
    if len(jobs) <= 7:
        assert all(against.fits(part) for part in combinations(jobs, len(conflicting) - 1))
    if result.blocked_by:
        gone = {(b.gpu_uuid, b.occupied.placement) for b in result.blocked_by}
        left = {uuid: [one for one in lying if (uuid, one[0]) not in gone] for uuid, lying in there.items()}
        assert Machine(gpus, left).fits(jobs)
        for blocker in result.blocked_by:
            back = [one for one in there[blocker.gpu_uuid] if one[0] == blocker.occupied.placement]
            assert not Machine(gpus, {**left, blocker.gpu_uuid: left[blocker.gpu_uuid] + back}).fits(jobs)


@settings(max_examples=150, deadline=None)
@given(machines(), st.randoms())
def test_the_places_taken_do_not_depend_on_the_order_of_the_jobs(
    case: tuple[list[Gpu], dict[str, list[Instance]], list[dict[str, Profile]]], chance: st.DataObject
) -> None:
    gpus, there, jobs = case
    demands = [Demand(f"{n}", options) for n, options in enumerate(jobs)]
    shuffled = sorted(demands, key=lambda _: chance.random())  # type: ignore[attr-defined]  # st.randoms() gives a random.Random
    one, other = place(demands, rooms(gpus, there)), place(shuffled, rooms(gpus, there))

    assert taken(one) == taken(other)


@settings(max_examples=150, deadline=None)
@given(machines())
def test_what_starts_now_is_decided_in_the_plans_order_and_nothing_that_fits_waits(
    case: tuple[list[Gpu], dict[str, list[Instance]], list[dict[str, Profile]]],
) -> None:
    gpus, there, jobs = case
    demands = [Demand(f"{n}", options) for n, options in enumerate(jobs)]
    machine = Machine(gpus, there)
    started: list[int] = []
    for n in range(len(jobs)):
        if machine.fits([jobs[k] for k in (*started, n)]):
            started.append(n)

    placed, waiting = place_most(demands, rooms(gpus, there))

    assert [str(n) for n in started] == [p.job for p in placed.places]
    assert [str(n) for n in range(len(jobs)) if n not in started] == list(waiting)
    check(gpus, there, demands, placed)


def taken(result: Placed | Conflict) -> object:
    if isinstance(result, Placed):
        return sorted((p.gpu_uuid, p.placement, p.profile.id) for p in result.places)
    return len(result.jobs), result.blocked_by, result.needs, result.has


def check(gpus: list[Gpu], there: dict[str, list[Instance]], demands: list[Demand], result: Placed) -> None:
    """Every place is one of the job's options, and each GPU's driver would allow the whole."""
    options = {demand.job: demand.options for demand in demands}
    for place_ in result.places:
        assert options[place_.job][place_.gpu_uuid] == place_.profile
    for gpu in gpus:
        made = [(p.placement, p.profile) for p in result.places if p.gpu_uuid == gpu.uuid]
        assert allowed(gpu, [*there.get(gpu.uuid, ()), *made])
