"""Boards that can be simulated: names, sources, and what the table must never contradict."""

import pytest

from migctl.core.gpu.mig import MigMode
from migctl.errors import PlanError
from migctl.nvml.models import board_gpu, boards, gpu_uuid, parse_boards, resolve_board

# board: (compute slices, memory slices, SMs, how often the smallest profile fits)
SHAPES = {
    "a30": (4, 4, 56, 4),
    "a100-40gb": (7, 8, 98, 7),
    "a100-80gb": (7, 8, 98, 7),
    "h100-sxm5-80gb": (7, 8, 132, 7),
    "h100-pcie-80gb": (7, 8, 114, 7),
    "gh200-96gb": (7, 8, 132, 7),
    "h200-141gb": (7, 8, 132, 7),
    "rtx-pro-6000-blackwell-96gb": (4, 12, 188, 4),
    "t4": (0, 0, 0, 0),
}


def test_every_board_is_listed_here() -> None:
    assert set(boards()) == set(SHAPES)


@pytest.mark.parametrize("key", SHAPES)
def test_a_board_has_its_shape(key: str) -> None:
    gpu = board_gpu(resolve_board(key))
    smallest = gpu.profiles[0].max_instances if gpu.profiles else 0
    assert (gpu.compute_slices, gpu.memory_slices, gpu.multiprocessors, smallest) == SHAPES[key]


@pytest.mark.parametrize("key", boards())
def test_a_board_names_its_public_source(key: str) -> None:
    assert len(resolve_board(key).source) > 20


@pytest.mark.parametrize("key", boards())
def test_profiles_are_sound(key: str) -> None:
    board = resolve_board(key)
    for field in ("name", "index", "id"):
        values = [getattr(profile, field) for profile in board.profiles]
        assert len(set(values)) == len(values), field
    for profile in board.profiles:
        assert profile.name.startswith(f"{profile.compute_slices}g.")
        assert 0 < profile.memory_mib <= board.memory_mib
        assert 0 < profile.max_instances <= max(1, len(profile.placements))
        assert all(place.size == profile.memory_slices for place in profile.placements)
        assert list(profile.placements) == sorted(profile.placements)


@pytest.mark.parametrize("key", [key for key in boards() if key != "t4"])
def test_profile_index_and_profile_id_are_different_numbers(key: str) -> None:
    board = resolve_board(key)
    assert any(profile.index != profile.id for profile in board.profiles)


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("a100-40gb", "a100-40gb"),
        ("A100-40GB", "a100-40gb"),
        ("a100-4", "a100-40gb"),
        ("h200", "h200-141gb"),
        ("rtx", "rtx-pro-6000-blackwell-96gb"),
        ("H100-SXM", "h100-sxm5-80gb"),
        ("a30", "a30"),
    ],
)
def test_a_prefix_names_a_board(written: str, key: str) -> None:
    assert resolve_board(written).key == key


@pytest.mark.parametrize(
    ("written", "error", "says"),
    [
        ("a100", "ambiguous-board", "a100-40gb, a100-80gb"),
        ("h100", "ambiguous-board", "h100-sxm5-80gb"),
        ("a1000-40gb", "unknown-board", "a100-40gb"),
        ("b200", "unknown-board", "there are a30"),
        ("", "unknown-board", "there are"),
    ],
)
def test_other_names_are_refused_with_the_choice(written: str, error: str, says: str) -> None:
    with pytest.raises(PlanError) as caught:
        resolve_board(written)
    assert caught.value.id == error
    assert says in caught.value.message


def test_a_near_miss_is_suggested() -> None:
    with pytest.raises(PlanError) as caught:
        resolve_board("a100-40g0b")
    assert caught.value.hint == "did you mean a100-40gb?"


@pytest.mark.parametrize(
    ("text", "machine"),
    [
        ("a30", [("a30", True)]),
        ("a100-40gbx2", [("a100-40gb", True)] * 2),
        ("a100-40gb:off", [("a100-40gb", False)]),
        ("a100-40gbx2:off, t4", [("a100-40gb", False)] * 2 + [("t4", False)]),
        ("rtxx2,h200:on", [("rtx-pro-6000-blackwell-96gb", True)] * 2 + [("h200-141gb", True)]),
    ],
)
def test_a_machine_is_a_list_of_boards(text: str, machine: list[tuple[str, bool]]) -> None:
    assert [(slot.board.key, slot.mig_on) for slot in parse_boards(text)] == machine


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "no-board"),
        ("a30,", "no-board"),
        ("a30x0", "board-count"),
        ("a30x65", "board-count"),
        ("a30x40,a30x40", "board-count"),
    ],
)
def test_an_impossible_machine_is_refused(text: str, error: str) -> None:
    with pytest.raises(PlanError) as caught:
        parse_boards(text)
    assert caught.value.id == error


def test_an_offline_gpu_is_empty_with_mig_on() -> None:
    gpu = board_gpu(resolve_board("a100-40gb"), 1)
    assert gpu.mig == MigMode(current=True, pending=True)
    assert (gpu.instances, gpu.processes, gpu.index, gpu.pci_bus_id) == ((), (), 1, "0000:11:00.0")
    assert board_gpu(resolve_board("t4")).mig is None


def test_gpu_uuids_differ_by_board_and_index() -> None:
    uuids = [gpu_uuid(board, index) for board in boards() for index in range(16)]
    assert len(set(uuids)) == len(uuids)
    assert all(len(uuid) == len("GPU-") + 36 for uuid in uuids)
