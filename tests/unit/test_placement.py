"""Where jobs are placed, and what is said where they cannot be: tables before code."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest

from migctl.core.gpu.conflict import explain
from migctl.core.gpu.mig import Gpu, MemorySlices, Placement
from migctl.core.gpu.placement import Conflict, Demand, Occupied, Placed, Room, could_add, place, place_most
from migctl.errors import Busy, DoesNotFit
from migctl.nvml.models import board_gpu, resolve_board

A100 = board_gpu(resolve_board("a100-40gb"))
A30 = board_gpu(resolve_board("a30"))
RTX = board_gpu(resolve_board("rtx-pro-6000-blackwell-96gb"))


def demands(gpus: Sequence[Gpu], names: Sequence[str]) -> list[Demand]:
    return [
        Demand(f"{n}", {gpu.uuid: profile for gpu in gpus if (profile := gpu.profile_named(name))})
        for n, name in enumerate(names)
    ]


def occupied(gpu: Gpu, start: int, name: str, owner: str = "not ours") -> Occupied:
    profile = gpu.profile_named(name)
    assert profile is not None
    return Occupied(Placement(start, profile.memory_slices), profile.id, owner)


def layout(result: Placed | Conflict) -> list[str]:
    assert isinstance(result, Placed), result
    return sorted(f"{p.profile.name}@{p.placement.start}" for p in result.places)


def conflict(result: Placed | Conflict) -> Conflict:
    assert isinstance(result, Conflict), result
    return result


# gpu, wanted, expected layout; the first is the User Guide's Example 2, which the driver's own choice fails in the order 1, 1, 2, 3
LAYOUTS = [
    (A100, "1g.5gb 1g.5gb 2g.10gb 3g.20gb", "1g.5gb@0 1g.5gb@1 2g.10gb@2 3g.20gb@4"),
    (A100, "4g.20gb 3g.20gb", "3g.20gb@4 4g.20gb@0"),
    (A100, "3g.20gb", "3g.20gb@4"),
    (A100, "1g.5gb 1g.5gb", "1g.5gb@0 1g.5gb@1"),
    (A100, "2g.10gb", "2g.10gb@0"),
    (A100, "1g.10gb", "1g.10gb@6"),
    (A100, "3g.20gb 3g.20gb", "3g.20gb@0 3g.20gb@4"),
    (A100, "7g.40gb", "7g.40gb@0"),
    (A30, "2g.12gb+me 1g.6gb", "1g.6gb@0 2g.12gb+me@2"),
    (RTX, "1g.24gb 2g.48gb 1g.24gb+me", "1g.24gb+me@0 1g.24gb@3 2g.48gb@6"),
    (RTX, "1g.24gb+me.all 1g.24gb-me 2g.48gb-me", "1g.24gb+me.all@3 1g.24gb-me@0 2g.48gb-me@6"),
]


@pytest.mark.parametrize(("gpu", "wanted", "expected"), LAYOUTS)
def test_any_order_of_the_jobs_gives_the_one_layout(gpu: Gpu, wanted: str, expected: str) -> None:
    for order in set(permutations(wanted.split())):
        result = place(demands([gpu], order), [Room(gpu)])

        assert sorted(expected.split()) == layout(result)
        assert isinstance(result, Placed)
        assert [str(n) for n in range(len(order))] == [p.job for p in result.places]
        assert list(order) == [p.profile.name for p in result.places]


# gpu, wanted, memory and compute slices that it needs, smallest conflict
NO_LAYOUT = [
    (A100, ["1g.10gb"] * 4 + ["1g.5gb"] * 3, (11, 7), 5),
    (A100, ["3g.20gb"] * 3, (12, 9), 3),
    (A100, ["4g.20gb", "4g.20gb"], (8, 8), 2),
    (A100, ["1g.5gb+me", "1g.5gb+me"], (2, 2), 2),
    (A100, ["7g.40gb", "1g.5gb", "1g.5gb"], (10, 9), 2),
    (A100, ["3g.20gb", "3g.20gb", "1g.5gb"], (9, 7), 3),
    (A30, ["1g.6gb+me", "2g.12gb+me"], (3, 3), 2),
    (RTX, ["1g.24gb+me.all", "1g.24gb"], (6, 2), 2),
]


@pytest.mark.parametrize(("gpu", "wanted", "needs", "smallest"), NO_LAYOUT)
def test_what_has_no_layout_is_a_conflict_with_its_smallest_set_named(
    gpu: Gpu, wanted: list[str], needs: tuple[int, int], smallest: int
) -> None:
    found = conflict(place(demands([gpu], wanted), [Room(gpu)]))

    assert smallest == len(found.jobs)
    assert needs == (found.needs.memory, found.needs.compute)
    assert (gpu.memory_slices, gpu.compute_slices) == (found.has.memory, found.has.compute)
    assert () == found.blocked_by == found.never


def test_both_resources_are_counted_in_the_error_of_what_does_not_fit() -> None:
    wanted = demands([A100], ["1g.10gb"] * 4 + ["1g.5gb"] * 3)
    error = explain(conflict(place(wanted, [Room(A100)])), wanted, [Room(A100)])

    assert isinstance(error, DoesNotFit)
    assert "needs 11 memory slices of 8" in error.message
    assert "7 compute slices of 7" in error.message


def test_who_is_in_the_way_is_named_with_his_placements_and_nobody_else() -> None:
    rooms = [
        Room(A100, (occupied(A100, 0, "1g.5gb", "eva/sweep"), occupied(A100, 4, "1g.5gb"), occupied(A100, 5, "1g.5gb")))
    ]
    wanted = demands([A100], ["4g.20gb"])
    found = conflict(place(wanted, rooms))
    error = explain(found, wanted, rooms)

    assert [b.occupied.owner for b in found.blocked_by] == ["eva/sweep"]
    assert isinstance(error, Busy)
    assert "eva/sweep holds 0:1 of GPU 0" in error.message
    assert (found.has.memory, found.has.compute) == (5, 4)


def test_one_g_at_0_1_and_5_leaves_no_place_for_a_3g() -> None:
    rooms = [Room(A100, tuple(occupied(A100, start, "1g.5gb") for start in (0, 1, 5)))]

    found = conflict(place(demands([A100], ["3g.20gb"]), rooms))

    assert len({b.occupied.placement for b in found.blocked_by}) == 1
    assert layout(place(demands([A100], ["2g.10gb"]), rooms)) == ["2g.10gb@2"]


def test_after_two_small_ones_a_3g_and_a_2g_still_fit_also_when_they_came_one_by_one() -> None:
    room = Room(A100)
    for _ in range(2):
        result = place(demands([A100], ["1g.5gb"]), [room])
        assert isinstance(result, Placed)
        (spot,) = result.places
        room = Room(A100, (*room.occupied, Occupied(spot.placement, spot.profile.id, "r/a")))

    assert layout(place(demands([A100], ["3g.20gb", "2g.10gb"]), [room])) == ["2g.10gb@2", "3g.20gb@4"]


def test_what_runs_counts_for_the_limits_of_its_profile() -> None:
    room = Room(A100, (occupied(A100, 3, "1g.5gb+me"),))

    assert place_most(demands([A100], ["1g.5gb", "1g.5gb+me"]), [room])[1] == ("1",)
    assert isinstance(place(demands([A100], ["1g.5gb+me"]), [room]), Conflict)


def test_an_instance_of_an_unknown_profile_keeps_its_memory_slices_and_the_most_compute_slices_of_its_size() -> None:
    room = Room(A100, (Occupied(Placement(4, MemorySlices(4)), 999, "not ours"),))

    assert isinstance(place(demands([A100], ["4g.20gb"]), [room]), Conflict)
    assert layout(place(demands([A100], ["3g.20gb"]), [room])) == ["3g.20gb@0"]


def test_a_job_that_no_selected_gpu_can_take_never_fits() -> None:
    wanted = [*demands([A100], ["1g.5gb"]), Demand("alien", {}), Demand("elsewhere", {"GPU-other": A30.profiles[0]})]
    found = conflict(place(wanted, [Room(A100)]))

    assert found.never == ("alien", "elsewhere")
    assert isinstance(explain(found, wanted, [Room(A100)]), DoesNotFit)


def gpus(*boards: str) -> list[Gpu]:
    return [board_gpu(resolve_board(board), n) for n, board in enumerate(boards)]


def where(result: Placed | Conflict, machine: Sequence[Gpu]) -> list[int]:
    assert isinstance(result, Placed), result
    index = {gpu.uuid: gpu.index for gpu in machine}
    return [index[p.gpu_uuid] for p in result.places]


def test_seven_small_jobs_fill_one_gpu_before_the_next_is_started() -> None:
    machine = gpus("a100-40gb", "a100-40gb")

    assert where(place(demands(machine, ["1g.5gb"] * 8), [Room(g) for g in machine]), machine) == [0] * 7 + [1]


def test_a_started_gpu_is_filled_before_an_empty_one() -> None:
    machine = gpus("a100-40gb", "a100-40gb", "a100-40gb")
    rooms = [
        Room(machine[0]),
        Room(machine[1], (occupied(machine[1], 4, "3g.20gb"),)),
        Room(machine[2], preferred=True),
    ]

    assert where(place(demands(machine, ["4g.20gb"]), rooms), machine) == [1]
    assert where(place(demands(machine, ["7g.40gb"]), rooms), machine) == [2]


def test_jobs_go_only_to_gpus_in_their_options_and_others_make_room_for_them() -> None:
    machine = gpus("a100-40gb", "a100-40gb")
    free, tied = demands(machine, ["7g.40gb"])[0], demands(machine[:1], ["7g.40gb"])[0]

    assert where(place([free, Demand("1", tied.options)], [Room(g) for g in machine]), machine) == [1, 0]


def test_one_size_can_be_another_profile_on_another_board() -> None:
    machine = gpus("a100-40gb", "a30")
    small, quarter = machine[0].profile_named("1g.5gb"), machine[1].profile_named("1g.6gb")
    assert small is not None
    assert quarter is not None
    wanted = [Demand(f"{n}", {machine[0].uuid: small, machine[1].uuid: quarter}) for n in range(12)]
    rooms = [Room(g) for g in machine]

    assert where(place(wanted[:11], rooms), machine) == [0] * 7 + [1] * 4
    assert len(conflict(place(wanted, rooms)).jobs) == 12


def test_twelve_of_a_kind_too_many_are_named_and_no_more_than_needed() -> None:
    machine = gpus(*["a100-40gb"] * 8)

    found = conflict(place(demands(machine, ["4g.20gb"] * 12 + ["1g.5gb"] * 10), [Room(g) for g in machine]))

    assert len(found.jobs) == 9


def test_waiting_jobs_are_the_later_ones_and_small_ones_fill_gaps() -> None:
    wanted = demands([A100], ["4g.20gb", "4g.20gb", "3g.20gb", "1g.5gb"])

    placed, waiting = place_most(wanted, [Room(A100)])

    assert layout(placed) == ["3g.20gb@4", "4g.20gb@0"]
    assert waiting == ("1", "3")


def test_an_earlier_job_moves_aside_as_long_as_nothing_is_created() -> None:
    placed, waiting = place_most(demands([A100], ["1g.5gb", "4g.20gb", "2g.10gb"]), [Room(A100)])

    assert waiting == ()
    assert layout(placed) == ["1g.5gb@6", "2g.10gb@4", "4g.20gb@0"]


# what lies there, what could be added
LEFT = [
    ("", ["7g.40gb", "4g.20gb", "3g.20gb", "2g.10gb", "1g.10gb", "1g.5gb", "1g.5gb+me"]),
    ("1g.10gb@0 1g.10gb@2 1g.10gb@4 1g.10gb@6", []),
    ("3g.20gb@0 3g.20gb@4", []),
    ("4g.20gb@0", ["3g.20gb", "2g.10gb", "1g.10gb", "1g.5gb", "1g.5gb+me"]),
    ("1g.5gb+me@0 2g.10gb@2 3g.20gb@4", ["1g.5gb"]),
]


@pytest.mark.parametrize(("there", "expected"), LEFT)
def test_what_could_be_added_is_known(there: str, expected: list[str]) -> None:
    lying = tuple(occupied(A100, int(start), name) for name, _, start in (one.partition("@") for one in there.split()))

    assert expected == [profile.name for profile in could_add(Room(A100, lying))]


def test_no_jobs_and_no_gpus_are_answered_too() -> None:
    assert Placed(()) == place([], [Room(A100)])
    assert Placed(()) == place([], [])
    assert conflict(place(demands([A100], ["1g.5gb"]), [])).never == ("0",)


def test_limits_by_number_are_named_where_slices_would_do() -> None:
    twice = demands([A100], ["1g.5gb+me", "1g.5gb+me"])
    thrice = demands([A100], ["3g.20gb"] * 3)

    assert "1g.5gb+me fits at most once" in explain(conflict(place(twice, [Room(A100)])), twice, [Room(A100)]).message
    assert (
        "3g.20gb fits at most 2 times" in explain(conflict(place(thrice, [Room(A100)])), thrice, [Room(A100)]).message
    )


def test_room_that_only_the_runs_own_jobs_take_is_not_called_busy() -> None:
    rooms = [Room(A100, (occupied(A100, 0, "4g.20gb", "sweep/a"),))]
    wanted = demands([A100], ["4g.20gb"])
    found = conflict(place(wanted, rooms))

    assert isinstance(explain(found, wanted, rooms, run="sweep"), DoesNotFit)
    assert isinstance(explain(found, wanted, rooms, run="other"), Busy)
    assert explain(found, wanted, rooms).data["blocked_by"] == [
        {"gpu_uuid": A100.uuid, "start": 0, "size": 4, "owner": "sweep/a"}
    ]


def test_what_has_slices_enough_and_yet_no_layout_is_said_so() -> None:
    wanted = demands([RTX], ["1g.24gb+me.all", "1g.24gb"])

    assert "no layout holds all of them" in explain(conflict(place(wanted, [Room(RTX)])), wanted, [Room(RTX)]).message
