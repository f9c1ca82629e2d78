"""Drivers of every age: what they tell and lack, and which compute instance takes all of a GPU instance."""

from pathlib import Path

import pytest

from migctl.nvml.codes import Code
from migctl.nvml.listing import Known, compute_profiles
from migctl.nvml.open import open_driver
from migctl.nvml.simstate import SimState
from tests.support.simulated_nvml import A100_3G, A100_4G, A100_7G, create, refusal, simulate


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sim.json"


# (version, board, the profiles told)
A100_PLAIN = ["1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"]
AGES = [
    ("460.73.01", "a100-40gb", A100_PLAIN),
    ("510.47.03", "a100-40gb", ["1g.5gb", "1g.5gb+me", *A100_PLAIN[1:]]),
    ("535.183.01", "a100-40gb", ["1g.5gb", "1g.5gb+me", "1g.10gb", *A100_PLAIN[1:]]),
    ("460.73.01", "a30", ["1g.3gb", "2g.6gb", "4g.24gb"]),
    ("535.183.01", "a30", ["1g.6gb", "1g.6gb+me", "2g.12gb", "2g.12gb+me", "4g.24gb"]),
]


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize(("version", "board", "names"), AGES)
def test_drivers_of_every_age_are_read_and_used(
    path: Path, version: str, board: str, names: list[str], allowed: bool
) -> None:
    state = SimState.create(path, board)
    state.driver = version
    state.no_permission = not allowed
    state.save(path)
    with open_driver(f"sim:{board}", sim_state=path) as driver:
        (gpu,) = driver.gpus()
        assert [profile.name for profile in gpu.profiles] == names
        if not allowed:
            return
        profile = gpu.profiles[0]
        for place in profile.placements[: profile.max_instances]:
            gi_id = driver.create_gpu_instance(gpu.uuid, profile, place)
            made = driver.create_compute_instance(gpu.uuid, gi_id)
            assert made.mig_uuid.startswith("MIG-GPU-") == (version == "460.73.01")
            assert driver.device_memory(made.mig_uuid) == (0, profile.memory_mib)
        seen = driver.gpus()[0]
        assert (len(seen.instances), seen.instances_reason) == (profile.max_instances, None)


@pytest.mark.parametrize(("version", "width"), [("460.73.01", 8), ("535.183.01", 4)])
def test_the_a30s_placement_axis_differs_by_driver(path: Path, version: str, width: int) -> None:
    state = SimState.create(path, "a30")
    state.driver = version
    state.save(path)
    with open_driver("sim:a30", sim_state=path) as driver:
        assert driver.gpus()[0].memory_slices == width


@pytest.mark.parametrize(("version", "code"), [("470.57.02", Code.INSUFFICIENT_RESOURCES), ("510.47.03", None)])
def test_four_beside_three_takes_a_driver_from_r510_on(path: Path, version: str, code: Code | None) -> None:
    state = SimState.create(path, "a100-40gb")
    state.driver = version
    state.save(path)
    nvml = simulate(path)
    create(nvml, A100_3G, 4, 4)
    assert refusal(lambda: create(nvml, A100_4G, 0, 4)) == code


# -- compute instance profiles: (board, GI profile, start and size, index → SMs of those that take all of it, the one chosen)
WHOLES = [
    ("h100-sxm5-80gb", 0, (0, 8), {4: 132, 8: 132}, 4),  # 7_SLICE_NVL beside 7_SLICE
    ("h100-sxm5-80gb", 15, (0, 2), {0: 16, 7: 26}, 7),  # 1_SLICE_REV1 has all SMs of a REV2 instance
    ("h100-pcie-80gb", 15, (0, 2), {0: 14, 7: 14}, 0),
    ("a100-40gb", A100_7G, (0, 8), {4: 98}, 4),
]


@pytest.mark.parametrize(("board", "profile", "place", "offered", "index"), WHOLES)
def test_where_two_compute_profiles_take_all_one_is_chosen(
    path: Path, board: str, profile: int, place: tuple[int, int], offered: dict[int, int], index: int
) -> None:
    nvml = simulate(path, board)
    create(nvml, profile, *place)
    with open_driver(f"sim:{board}", sim_state=path) as driver:
        gpu = driver.gpus()[0]
        wanted = next(p for p in gpu.profiles if p.id == profile)
        handle = nvml.nvmlDeviceGetGpuInstanceById(nvml.nvmlDeviceGetHandleByIndex(0), gpu.instances[0].gi_id)
        told = compute_profiles(nvml, handle, gpu.uuid, profile, Known())
        assert {p.index: p.multiprocessors for p in told if p.slices == wanted.compute_slices} == offered
        assert all(p.id != p.index for p in told)
        driver.create_compute_instance(gpu.uuid, gpu.instances[0].gi_id)
    assert SimState.load(path).gpus[0].instances[0].compute[0].profile_index == index
