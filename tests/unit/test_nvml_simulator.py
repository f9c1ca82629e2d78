"""The simulator refuses what hardware refuses, by the same return code."""

import os
from collections.abc import Callable
from ctypes import byref, c_uint
from pathlib import Path
from typing import Any

import pytest

from migctl.nvml.codes import Code
from migctl.nvml.models import parse_boards
from migctl.nvml.simmodel import SimProcess
from migctl.nvml.simstate import SimState
from migctl.nvml.simulator import Simulator
from tests.support.simulated_nvml import (
    A100_1G,
    A100_1G10,
    A100_1G_ME,
    A100_2G,
    A100_3G,
    A100_4G,
    A100_7G,
    C1,
    C2,
    C4,
    NO_PROCESS,
    create,
    refusal,
    simulate,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sim.json"


@pytest.fixture
def nvml(path: Path) -> Simulator:
    return simulate(path)


# (board, what exists as (profile id, start, size), what is wanted, what NVML answers)
CREATIONS: list[tuple[str, list[tuple[int, int, int]], tuple[int, int, int], Code | None]] = [
    ("a100-40gb", [], (A100_1G, 6, 1), None),
    ("a100-40gb", [], (A100_1G, 7, 1), Code.INSUFFICIENT_RESOURCES),  # the eighth memory slice has no SMs
    ("a100-40gb", [], (A100_1G, 0, 2), Code.INSUFFICIENT_RESOURCES),
    ("a100-40gb", [], (A100_3G, 2, 4), Code.INSUFFICIENT_RESOURCES),
    ("a100-40gb", [], (77, 0, 1), Code.INVALID_ARGUMENT),
    ("a100-40gb", [(A100_1G, 0, 1)], (A100_1G, 0, 1), Code.INSUFFICIENT_RESOURCES),
    ("a100-40gb", [(A100_1G, 0, 1)], (A100_2G, 0, 2), Code.INSUFFICIENT_RESOURCES),
    ("a100-40gb", [(A100_3G, 4, 4)], (A100_4G, 0, 4), None),
    ("a100-40gb", [(A100_3G, 0, 4)], (A100_4G, 0, 4), Code.INSUFFICIENT_RESOURCES),
    ("a100-40gb", [(A100_7G, 0, 8)], (A100_1G, 0, 1), Code.INSUFFICIENT_RESOURCES),
    ("a100-40gb", [(A100_1G10, s, 2) for s in (0, 2, 4, 6)], (A100_1G, 0, 1), Code.INSUFFICIENT_RESOURCES),
    ("a100-40gb", [(A100_1G_ME, 0, 1)], (A100_1G_ME, 1, 1), Code.INSUFFICIENT_RESOURCES),
    ("a100-40gb", [(A100_1G_ME, 0, 1)], (A100_1G, 1, 1), None),
    ("a30", [(21, 0, 1)], (6, 2, 2), Code.INSUFFICIENT_RESOURCES),  # +me once, whatever its size
    ("a30", [(5, 0, 2)], (6, 2, 2), None),
    ("rtx", [(65, 0, 3)], (67, 3, 3), None),  # +me.all beside -me
    ("rtx", [(65, 0, 3)], (14, 3, 3), Code.INSUFFICIENT_RESOURCES),
    ("rtx", [(14, 0, 3)], (64, 6, 6), Code.INSUFFICIENT_RESOURCES),
    ("rtx", [(67, 0, 3)], (64, 6, 6), None),
    ("a100-40gb:off", [], (A100_1G, 0, 1), Code.NOT_SUPPORTED),
    ("t4", [], (A100_1G, 0, 1), Code.NOT_SUPPORTED),
]


@pytest.mark.parametrize(("board", "there", "wanted", "code"), CREATIONS)
def test_creation_answers_as_hardware_does(
    path: Path, board: str, there: list[tuple[int, int, int]], wanted: tuple[int, int, int], code: Code | None
) -> None:
    nvml = simulate(path, board)
    for profile, start, size in there:
        create(nvml, profile, start, size)
    assert refusal(lambda: create(nvml, *wanted)) == code


# GI ids as on listings of real GPUs: (board, profile id, start, size, GI id)
IDS = [
    ("a100-40gb", A100_7G, 0, 8, 0),
    ("a100-40gb", A100_3G, 4, 4, 1),
    ("a100-40gb", A100_3G, 0, 4, 2),
    *[("a100-40gb", A100_2G, s, 2, i) for s, i in ((0, 3), (2, 4), (4, 5))],
    *[("a100-40gb", A100_1G, s, 1, 7 + s) for s in range(7)],
    *[("a30", 14, s, 1, 3 + s) for s in range(4)],
    ("a30", 5, 2, 2, 2),
    *[("rtx", 14, s, 3, i) for s, i in ((0, 3), (3, 4), (6, 5), (9, 6))],
    ("rtx", 5, 0, 6, 1),
]


@pytest.mark.parametrize(("board", "profile", "start", "size", "gi_id"), IDS)
def test_instance_ids_are_those_of_listings(
    path: Path, board: str, profile: int, start: int, size: int, gi_id: int
) -> None:
    nvml = simulate(path, board)
    info = nvml.nvmlGpuInstanceGetInfo(create(nvml, profile, start, size))
    assert (info.id, info.profileId, info.placement.start, info.placement.size) == (gi_id, profile, start, size)


@pytest.mark.parametrize("order", [(9, 14, 19, 19), (19, 19, 14, 9), (14, 19, 9, 19)])
def test_the_order_of_creation_does_not_matter_with_explicit_placements(path: Path, order: tuple[int, ...]) -> None:
    nvml = simulate(path)
    room = {9: [(4, 4)], 14: [(2, 2)], 19: [(0, 1), (1, 1)]}
    for profile in order:
        create(nvml, profile, *room[profile].pop())
    assert sorted((i.profile_id, i.start) for i in SimState.load(path).gpus[0].instances) == [
        (9, 4),
        (14, 2),
        (19, 0),
        (19, 1),
    ]


def test_every_function_needs_an_open_session(path: Path) -> None:
    nvml = Simulator(parse_boards("a30"), path)
    assert refusal(nvml.nvmlDeviceGetCount) is Code.UNINITIALIZED
    nvml.nvmlInit()
    assert nvml.nvmlDeviceGetCount() == 1
    nvml.nvmlShutdown()
    assert refusal(nvml.nvmlDeviceGetCount) is Code.UNINITIALIZED


def test_an_instance_with_a_compute_instance_or_a_process_is_in_use(nvml: Simulator, path: Path) -> None:
    sim = nvml
    instance = create(sim, A100_2G, 0, 2)
    compute = sim.nvmlGpuInstanceCreateComputeInstance(instance, C2)
    assert refusal(lambda: sim.nvmlGpuInstanceDestroy(instance)) is Code.IN_USE
    with SimState.edit(path) as state:
        state.gpus[0].processes.append(SimProcess(os.getpid(), 3, 100))
    assert refusal(lambda: sim.nvmlComputeInstanceDestroy(compute)) is Code.IN_USE
    with SimState.edit(path) as state:
        state.gpus[0].processes[0].pid = NO_PROCESS
    sim.nvmlComputeInstanceDestroy(compute)
    sim.nvmlGpuInstanceDestroy(instance)
    assert SimState.load(path).gpus[0].instances == []


def test_a_handle_does_not_outlive_its_instance(nvml: Simulator) -> None:
    sim = nvml
    old = create(sim, A100_2G, 0, 2)
    sim.nvmlGpuInstanceDestroy(old)
    assert refusal(lambda: sim.nvmlGpuInstanceGetInfo(old)) is Code.INVALID_ARGUMENT
    new = create(sim, A100_2G, 0, 2)
    assert sim.nvmlGpuInstanceGetInfo(new).id == 3
    assert refusal(lambda: sim.nvmlGpuInstanceDestroy(old)) is Code.INVALID_ARGUMENT


def test_compute_instances_fill_their_instance_and_no_more(nvml: Simulator) -> None:
    sim = nvml
    instance = create(sim, A100_3G, 0, 4)
    sim.nvmlGpuInstanceCreateComputeInstance(instance, C2)
    assert refusal(lambda: sim.nvmlGpuInstanceCreateComputeInstance(instance, C2)) is Code.INSUFFICIENT_RESOURCES
    part = sim.nvmlComputeInstanceGetInfo_v2(sim.nvmlGpuInstanceCreateComputeInstance(instance, C1))
    assert part.id == 1
    assert sim.nvmlDeviceGetName(part.device) == "NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb"
    assert refusal(lambda: sim.nvmlGpuInstanceCreateComputeInstance(instance, C4)) is Code.INVALID_ARGUMENT


def test_mig_device_indices_have_holes(nvml: Simulator) -> None:
    sim = nvml
    gpu = sim.nvmlDeviceGetHandleByIndex(0)
    computes = [sim.nvmlGpuInstanceCreateComputeInstance(create(sim, A100_1G, start, 1), C1) for start in range(3)]
    sim.nvmlComputeInstanceDestroy(computes[1])
    assert sim.nvmlDeviceGetMaxMigDeviceCount(gpu) == 7
    assert refusal(lambda: sim.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 1)) is Code.NOT_FOUND
    third = sim.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 2)
    assert (sim.nvmlDeviceGetGpuInstanceId(third), sim.nvmlDeviceGetComputeInstanceId(third)) == (9, 0)
    assert refusal(lambda: sim.nvmlDeviceGetGpuInstanceId(gpu)) is Code.INVALID_ARGUMENT


def test_a_mig_uuid_comes_back_with_its_instance_and_finds_its_device(nvml: Simulator) -> None:
    sim = nvml
    uuids = []
    for _ in range(2):
        instance = create(sim, A100_1G, 3, 1)
        compute = sim.nvmlGpuInstanceCreateComputeInstance(instance, C1)
        uuids.append(sim.nvmlDeviceGetUUID(sim.nvmlComputeInstanceGetInfo_v2(compute).device))
        assert sim.nvmlDeviceGetUUID(sim.nvmlDeviceGetHandleByUUID(uuids[-1])) == uuids[-1]
        sim.nvmlComputeInstanceDestroy(compute)
        sim.nvmlGpuInstanceDestroy(instance)
    assert uuids[0] == uuids[1]
    assert refusal(lambda: sim.nvmlDeviceGetHandleByUUID(uuids[0])) is Code.NOT_FOUND


def test_profile_queries_end_as_nvml_documents(nvml: Simulator, path: Path) -> None:
    sim = nvml
    gpu = sim.nvmlDeviceGetHandleByIndex(0)
    answers = [refusal(lambda i=index: sim.nvmlDeviceGetGpuInstanceProfileInfo(gpu, i)) for index in range(19)]  # type: ignore[misc]  # bound now
    assert [i for i, answer in enumerate(answers) if answer is None] == [0, 1, 2, 3, 4, 7, 9]
    assert answers[18] is Code.INVALID_ARGUMENT
    assert set(answers[:18]) == {None, Code.NOT_SUPPORTED}
    info = sim.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 2)
    assert (info.name, info.id, info.sliceCount, info.memorySizeMB, info.multiprocessorCount) == (
        "MIG 3g.20gb",
        9,
        3,
        19968,
        42,
    )
    assert not hasattr(sim.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 2, 1), "name")


@pytest.mark.parametrize("answers", [True, False])
def test_profile_queries_with_mig_off_differ_by_driver(path: Path, answers: bool) -> None:
    sim = simulate(path, "a100-40gb:off")
    SimState.create(path, "a100-40gb:off")
    with SimState.edit(path) as state:
        state.profiles_with_mig_off = answers
    gpu = sim.nvmlDeviceGetHandleByIndex(0)
    assert refusal(lambda: sim.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 0)) == (None if answers else Code.NOT_SUPPORTED)
    (value,) = sim.nvmlDeviceGetFieldValues(gpu, [199])
    assert value.value.uiVal == answers
    count = c_uint()
    sim.nvmlDeviceGetGpuInstancePossiblePlacements(gpu, A100_1G, None, byref(count))
    assert count.value == 7


def test_without_rights_reading_goes_and_changing_does_not(nvml: Simulator, path: Path) -> None:
    sim = nvml
    SimState.create(path, "a100-40gb")
    with SimState.edit(path) as state:
        state.no_permission = True
        state.add_foreign_instance(0, "1g.5gb", 0)
    gpu = sim.nvmlDeviceGetHandleByIndex(0)
    device = sim.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
    allowed: list[Callable[[], object]] = [
        lambda: sim.nvmlDeviceGetMigMode(gpu),
        lambda: sim.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 0),
        lambda: sim.nvmlDeviceGetComputeRunningProcesses_v3(device),
        lambda: sim.nvmlDeviceGetMemoryInfo(device),
    ]
    refused: list[Callable[[], object]] = [
        lambda: create(sim, A100_1G, 1, 1),
        lambda: sim.nvmlDeviceSetMigMode(gpu, 0),
        lambda: sim.nvmlDeviceGetGpuInstanceById(gpu, 7),
        lambda: sim.nvmlDeviceGetComputeRunningProcesses_v3(gpu),
        lambda: sim.nvmlDeviceGetMemoryInfo(gpu),
    ]
    assert [refusal(call) for call in allowed] == [None] * len(allowed)
    assert [refusal(call) for call in refused] == [Code.NO_PERMISSION] * len(refused)


def test_processes_and_memory_are_told_by_instance(nvml: Simulator, path: Path) -> None:
    sim = nvml
    SimState.create(path, "a100-40gb")
    with SimState.edit(path) as state:
        state.add_foreign_instance(0, "1g.5gb", 0)
        state.add_foreign_instance(0, "2g.10gb", 2)
        state.gpus[0].processes = [
            SimProcess(os.getpid(), 7, 1000),
            SimProcess(NO_PROCESS, 4, 500),
            SimProcess(os.getppid(), None, 10),
        ]
    gpu = sim.nvmlDeviceGetHandleByIndex(0)
    first = sim.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
    assert [p.pid for p in sim.nvmlDeviceGetComputeRunningProcesses_v3(first)] == [os.getpid()]
    assert [p.gpuInstanceId for p in sim.nvmlDeviceGetComputeRunningProcesses_v3(gpu)] == [7, 0xFFFFFFFF]
    memory = sim.nvmlDeviceGetMemoryInfo(first)
    assert (memory.used, memory.total) == (1000 << 20, 4864 << 20)


# (board, the GPU is held, activation, status, [current, pending] after switching on)
MODES = [
    ("a100-40gb:off", False, "immediate", Code.SUCCESS, [1, 1]),
    ("a100-40gb:off", True, "immediate", Code.IN_USE, [0, 1]),
    ("a100-40gb:off", False, "reset-required", Code.RESET_REQUIRED, [0, 1]),
    ("a100-40gb:off", False, "not-supported", Code.NOT_SUPPORTED, [0, 1]),
    ("h100-sxm5-80gb:off", False, "immediate", Code.SUCCESS, [1, 1]),
    ("a100-40gb", True, "immediate", Code.SUCCESS, [1, 1]),  # nothing to change
]


@pytest.mark.parametrize(("board", "held", "activation", "status", "mode"), MODES)
def test_a_mode_change_answers_by_status(
    path: Path, board: str, held: bool, activation: Any, status: Code, mode: list[int]
) -> None:
    SimState.create(path, board)
    with SimState.edit(path) as state:
        state.gpus[0].held = held
        state.gpus[0].activation = activation
    sim = simulate(path, board)
    gpu = sim.nvmlDeviceGetHandleByIndex(0)
    assert sim.nvmlDeviceSetMigMode(gpu, 1) == status
    assert sim.nvmlDeviceGetMigMode(gpu) == mode


@pytest.mark.parametrize(("board", "survives"), [("a100-40gb", True), ("h100-sxm5-80gb", False)])
def test_a_reboot_takes_instances_and_from_hopper_on_the_mode(path: Path, board: str, survives: bool) -> None:
    state = SimState.create(path, board)
    before = state.boot_id
    state.add_foreign_instance(0, state_profile(board), 0)
    state.reboot()
    assert (state.gpus[0].instances, state.gpus[0].current, state.gpus[0].pending) == ([], survives, survives)
    assert state.boot_id != before


def state_profile(board: str) -> str:
    return {"a100-40gb": "1g.5gb", "h100-sxm5-80gb": "1g.10gb"}[board]


def test_a_lost_gpu_answers_nothing(nvml: Simulator, path: Path) -> None:
    sim = nvml
    gpu = sim.nvmlDeviceGetHandleByIndex(0)
    SimState.create(path, "a100-40gb")
    with SimState.edit(path) as state:
        state.gpus[0].lost = True
    assert refusal(lambda: sim.nvmlDeviceGetName(gpu)) is Code.GPU_IS_LOST
    assert refusal(lambda: sim.nvmlDeviceGetHandleByIndex(0)) is Code.GPU_IS_LOST


def test_a_caller_with_too_small_an_array_is_told(nvml: Simulator) -> None:
    sim = nvml
    room, count = (sim.c_nvmlGpuInstancePlacement_t * 2)(), c_uint()
    gpu = sim.nvmlDeviceGetHandleByIndex(0)
    call = lambda: sim.nvmlDeviceGetGpuInstancePossiblePlacements(gpu, A100_1G, room, byref(count))  # noqa: E731 -- one line, used once
    assert refusal(call) is Code.INSUFFICIENT_SIZE
