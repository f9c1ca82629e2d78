"""The driver over the simulator: what it tells, what it changes, and how it puts refusals into words."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from migctl.core.gpu.mig import UNKNOWN_PLACEMENT, ComputeProfile, GpuProcess, MigMode
from migctl.errors import Busy, HostError, MigctlError, PlanError
from migctl.nvml.codes import Code
from migctl.nvml.driver import Driver
from migctl.nvml.errors import mode_pending, no_mig, nvml_error
from migctl.nvml.listing import whole_compute_profile
from migctl.nvml.models import board_gpu, boards, parse_boards, resolve_board
from migctl.nvml.open import open_driver
from migctl.nvml.reading import sysfs_address, unnamed_profile
from migctl.nvml.simmodel import SimProcess
from migctl.nvml.simstate import SimState
from migctl.nvml.simulator import Simulator

MIG_BOARDS = [key for key in boards() if key != "t4"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sim.json"


def open_sim(path: Path, machine: str = "a100-40gb", prepare: Callable[[SimState], object] | None = None) -> Driver:
    if prepare is not None:
        SimState.create(path, machine)
        with SimState.edit(path) as state:
            prepare(state)
    return open_driver(f"sim:{machine}", sim_state=path)


def raised(call: Callable[[], object]) -> MigctlError:
    with pytest.raises(MigctlError) as caught:
        call()
    return caught.value


def first_gpu(**fields: object) -> Callable[[SimState], None]:
    def prepare(state: SimState) -> None:
        for name, value in fields.items():
            setattr(state.gpus[0], name, value)

    return prepare


@pytest.mark.parametrize("board", boards())
def test_an_empty_gpu_is_told_as_the_table_has_it(path: Path, board: str) -> None:
    with open_sim(path, board) as driver:
        assert driver.gpus() == (board_gpu(resolve_board(board)),)
        assert driver.failures == ()


@pytest.mark.parametrize("board", MIG_BOARDS)
def test_a_full_set_of_the_smallest_profile_is_made_and_removed(path: Path, board: str) -> None:
    with open_sim(path, board) as driver:
        gpu = driver.gpus()[0]
        profile = gpu.profiles[0]
        for placement in profile.placements:
            gi_id = driver.create_gpu_instance(gpu.uuid, profile, placement)
            made = driver.create_compute_instance(gpu.uuid, gi_id)
            assert driver.device_memory(made.mig_uuid) == (0, profile.memory_mib)
        seen = driver.gpu(gpu.uuid).instances
        assert sorted(i.placement for i in seen) == list(profile.placements)
        assert len({i.compute_instances[0].mig_uuid for i in seen}) == profile.max_instances
        for instance in seen:
            driver.destroy_compute_instance(gpu.uuid, instance.gi_id, 0)
            driver.destroy_gpu_instance(gpu.uuid, instance.gi_id)
        assert driver.gpu(gpu.uuid) == gpu


@pytest.mark.parametrize("board", MIG_BOARDS)
def test_every_profile_gets_the_compute_instance_that_takes_all_of_it(path: Path, board: str) -> None:
    with open_sim(path, board) as driver:
        gpu = driver.gpus()[0]
        for profile in gpu.profiles:
            gi_id = driver.create_gpu_instance(gpu.uuid, profile, profile.placements[0])
            driver.create_compute_instance(gpu.uuid, gi_id)
            (compute,) = SimState.load(path).gpus[0].instances[0].compute
            assert compute.slices == profile.compute_slices
            driver.destroy_compute_instance(gpu.uuid, gi_id, compute.ci_id)
            driver.destroy_gpu_instance(gpu.uuid, gi_id)


# (what a GPU instance offers as index, id, slices, SMs, count; its slices; the index to take)
WHOLE = [
    ([(0, 0, 1, 14, 3), (1, 1, 2, 28, 1), (2, 2, 3, 42, 1)], 3, 2),
    ([(0, 0, 1, 16, 1), (7, 7, 1, 26, 1)], 1, 7),  # REV2: only 1_SLICE_REV1 has all SMs
    ([(4, 4, 7, 132, 1), (8, 12, 7, 132, 1)], 7, 4),  # 7_SLICE before 7_SLICE_NVL
    ([(0, 0, 1, 16, 1)], 2, None),
]


@pytest.mark.parametrize(("offered", "slices", "index"), WHOLE)
def test_the_whole_compute_profile_is_chosen_by_asking(
    offered: list[tuple[int, ...]], slices: int, index: int | None
) -> None:
    chosen = whole_compute_profile(tuple(ComputeProfile(*row) for row in offered), slices)
    assert (chosen.index if chosen else None) == index


def test_rev2_instances_of_hopper_get_profile_seven(path: Path) -> None:
    with open_sim(path, "gh200-96gb") as driver:
        gpu = driver.gpus()[0]
        profile = gpu.profile_named("1g.24gb")
        assert profile is not None
        driver.create_compute_instance(gpu.uuid, driver.create_gpu_instance(gpu.uuid, profile, profile.placements[3]))
    assert SimState.load(path).gpus[0].instances[0].compute[0].profile_index == 7


def test_instances_without_and_with_several_compute_instances_are_told(path: Path) -> None:
    def prepare(state: SimState) -> None:
        state.add_foreign_instance(0, "1g.5gb", 6, compute=False)
        state.add_foreign_instance(0, "3g.20gb", 0)
        whole = state.gpus[0].instances[0].compute[0]
        whole.profile_index, whole.slices = 0, 1
        state.gpus[0].instances[0].compute.append(type(whole)(1, 1, 2, 5, 99, "MIG-part"))

    with open_sim(path, prepare=prepare) as driver:
        parted, orphan = driver.gpus()[0].instances
    assert [c.ci_id for c in parted.compute_instances] == [0, 1]
    assert (orphan.profile, orphan.placement.start, orphan.compute_instances) == ("1g.5gb", 6, ())


def test_without_root_instances_are_told_as_far_as_they_are_known(path: Path) -> None:
    def prepare(state: SimState) -> None:
        state.add_foreign_instance(0, "3g.20gb", 4)
        state.add_foreign_instance(0, "1g.5gb", 0, compute=False)
        state.gpus[0].processes.append(SimProcess(os.getpid(), 1, 64))
        state.no_permission = True

    with open_sim(path, prepare=prepare) as driver:
        (gpu,) = driver.gpus()
    assert [(i.gi_id, i.profile, i.profile_id, i.placement) for i in gpu.instances] == [
        (1, "3g.20gb", 9, UNKNOWN_PLACEMENT)
    ]
    assert str(gpu.instances[0].placement) == "?"
    assert gpu.instances_reason is not None
    assert "needs root" in gpu.instances_reason
    assert (gpu.processes, gpu.processes_reason) == ((GpuProcess(os.getpid(), 1, 64),), None)


def test_processes_that_ended_do_not_count(path: Path) -> None:
    with open_sim(
        path, prepare=first_gpu(processes=[SimProcess(2**22 + 9), SimProcess(os.getpid(), None, 3)])
    ) as driver:
        assert driver.gpus()[0].processes == (GpuProcess(os.getpid(), None, 3),)


@pytest.mark.parametrize("answers", [True, False])
def test_with_mig_off_profiles_are_told_where_the_driver_tells_them(path: Path, answers: bool) -> None:
    with open_sim(path, "a100-40gb:off", lambda state: setattr(state, "profiles_with_mig_off", answers)) as driver:
        gpu = driver.gpus()[0]
        assert gpu.mig == MigMode(current=False, pending=False)
        assert bool(gpu.profiles) == answers
        driver.set_mig_mode(gpu.uuid, enabled=True)
        assert driver.gpus()[0].profiles == resolve_board("a100-40gb").profiles


def test_one_lost_gpu_does_not_hide_the_others(path: Path) -> None:
    with open_sim(path, "a100-40gb,t4,a30", lambda state: setattr(state.gpus[1], "lost", True)) as driver:
        assert [gpu.index for gpu in driver.gpus()] == [0, 2]
        assert [(failure.id, failure.where) for failure in driver.failures] == [("gpu-lost", "GPU 1")]
        assert driver.gpu(driver.gpus()[1].uuid).index == 2


# (what befalls GPU 1, the error for who asks for it)
BEFALLS: list[tuple[Callable[[SimState], object], str]] = [
    (lambda state: setattr(state.gpus[1], "lost", True), "gpu-lost"),
    (lambda state: state.set_fault("nvmlDeviceGetMigMode", effect="hang", gpu=1), "gpu-no-answer"),
    (lambda state: state.set_fault("nvmlDeviceGetName", code=Code.UNKNOWN, gpu=1), "nvml-unknown"),
]


@pytest.mark.parametrize(("befall", "error"), BEFALLS)
@pytest.mark.parametrize("known", [True, False], ids=["seen before", "never seen"])
def test_a_gpu_is_read_alone_whatever_befalls_another(
    path: Path, befall: Callable[[SimState], object], error: str, *, known: bool
) -> None:
    state = SimState.create(path, "a100-40gb,t4,a30")
    one, two, three = (gpu.uuid for gpu in state.gpus)
    state.save(path)
    simulator = Simulator(parse_boards("a100-40gb,t4,a30"), path)
    with Driver(simulator, simulated="boards", answer_timeout_s=0.2) as driver:
        if known:
            driver.gpus()
        with SimState.edit(path) as state:
            befall(state)
        assert [driver.gpu(uuid).index for uuid in (one, three)] == [0, 2]
        assert raised(lambda: driver.gpu(two)).id == error
        assert driver.failures == ()
        assert [driver.gpu(uuid).index for uuid in (three, one)] == [2, 0]


def test_a_refusal_names_the_function_that_refused_however_deep_it_was_called(path: Path) -> None:
    with open_sim(path, prepare=lambda _: None) as driver:
        gpu = driver.gpus()[0]
        calls: dict[str, Callable[[], object]] = {
            "nvmlDeviceGetUUID": driver.gpus,
            "nvmlDeviceGetMigMode": lambda: driver.gpu(gpu.uuid),
            "nvmlDeviceSetMigMode": lambda: driver.set_mig_mode(gpu.uuid, enabled=False),
            "nvmlGpuInstanceGetInfo": lambda: driver.create_gpu_instance(
                gpu.uuid, gpu.profiles[0], gpu.profiles[0].placements[0]
            ),
            "nvmlDeviceCreateGpuInstanceWithPlacement": lambda: driver.create_gpu_instance(
                gpu.uuid, gpu.profiles[0], gpu.profiles[0].placements[1]
            ),
        }
        told = {}
        for function, call in calls.items():
            with SimState.edit(path) as state:
                state.faults.clear()
                state.set_fault(function, code=Code.UNKNOWN)
            if call == driver.gpus:
                driver.gpus()
                told[function] = driver.failures[0].data["nvml_call"]
            else:
                told[function] = raised(call).data["nvml_call"]
    assert told == {function: function for function in calls}


def test_a_gpu_that_is_not_there_is_said_so(path: Path) -> None:
    with open_sim(path) as driver:
        profile = driver.gpus()[0].profiles[0]
        for call in (
            lambda: driver.gpu("GPU-x"),
            lambda: driver.create_gpu_instance("GPU-x", profile, profile.placements[0]),
            lambda: driver.set_mig_mode("GPU-x", enabled=True),
        ):
            assert raised(call).id == "no-such-gpu"


# -- changing


def test_what_is_gone_already_is_removed_without_a_word(path: Path) -> None:
    with open_sim(path, "a100-40gbx2") as driver:
        one, two = driver.gpus()
        driver.set_mig_mode(two.uuid, enabled=False)
        gi_id = driver.create_gpu_instance(one.uuid, one.profiles[0], one.profiles[0].placements[0])
        for uuid in (one.uuid, two.uuid):
            driver.destroy_compute_instance(uuid, gi_id, 3)
            driver.destroy_compute_instance(uuid, 5, 0)
            driver.destroy_gpu_instance(uuid, 5)
        assert [i.gi_id for i in driver.gpus()[0].instances] == [gi_id]


def test_removing_what_is_in_use_is_busy(path: Path) -> None:
    def prepare(state: SimState) -> None:
        state.add_foreign_instance(0, "2g.10gb", 0)
        state.gpus[0].processes.append(SimProcess(os.getpid(), 3))

    with open_sim(path, prepare=prepare) as driver:
        uuid = driver.gpus()[0].uuid
        for call in (lambda: driver.destroy_gpu_instance(uuid, 3), lambda: driver.destroy_compute_instance(uuid, 3, 0)):
            error = raised(call)
            assert (type(error), error.id, error.data["nvml_code"]) == (Busy, "gpu-in-use", 19)
        assert len(driver.gpus()[0].instances) == 1


def test_a_full_place_names_what_lies_there(path: Path) -> None:
    with open_sim(path, prepare=lambda state: state.add_foreign_instance(0, "3g.20gb", 0)) as driver:
        gpu = driver.gpus()[0]
        profile = gpu.profile_named("4g.20gb")
        assert profile is not None
        error = raised(lambda: driver.create_gpu_instance(gpu.uuid, profile, profile.placements[0]))
    assert (type(error), error.id) == (Busy, "no-room")
    assert "creating 4g.20gb at 0:4, where 3g.20gb at 0:4 (GPU instance 2) lies" in error.message
    assert "INSUFFICIENT_RESOURCES from nvmlDeviceCreateGpuInstanceWithPlacement" in error.message


def test_without_rights_a_change_names_the_capability_and_sudo(path: Path) -> None:
    with open_sim(path, prepare=lambda state: setattr(state, "no_permission", True)) as driver:
        gpu = driver.gpus()[0]
        for call in (
            lambda: driver.create_gpu_instance(gpu.uuid, gpu.profiles[0], gpu.profiles[0].placements[0]),
            lambda: driver.set_mig_mode(gpu.uuid, enabled=False),
        ):
            error = raised(call)
            assert (type(error), error.id) == (HostError, "no-permission")
            assert "mig/config" in error.message
            assert error.data["needs_root"] is True  # the command line adds the sudo line


def test_a_mode_change_is_read_back(path: Path) -> None:
    with open_sim(path, "a100-40gb:off") as driver:
        uuid = driver.gpus()[0].uuid
        assert driver.set_mig_mode(uuid, enabled=True) == MigMode(current=True, pending=True)
        assert driver.set_mig_mode(uuid, enabled=False) == MigMode(current=False, pending=False)


# (fields of the GPU, activation told, what the hint must say, what it must not)
PENDING: list[tuple[dict[str, Any], str, str, str]] = [
    ({"held": True}, "IN_USE", "stop what uses it", "reboot"),
    ({"processes": [SimProcess(os.getpid())]}, "IN_USE", "stop what uses it", "reboot"),
    ({"activation": "not-supported"}, "NOT_SUPPORTED", "reboot the machine", "--reset"),
    ({"activation": "reset-required"}, "RESET_REQUIRED", "--reset", "stop what"),
]


@pytest.mark.parametrize(("fields", "activation", "says", "not_says"), PENDING)
def test_a_pending_mode_is_an_error_whose_hint_fits_the_cause(
    path: Path, fields: dict[str, Any], activation: str, says: str, not_says: str
) -> None:
    with open_sim(path, "a100-40gb:off", first_gpu(**fields)) as driver:
        uuid = driver.gpus()[0].uuid
        error = raised(lambda: driver.set_mig_mode(uuid, enabled=True))
        assert driver.gpus()[0].mig == MigMode(current=False, pending=True)
    assert (type(error), error.id) == (HostError, "mig-mode-pending")
    assert error.data == {"gpu": uuid, "activation": activation, "current": False, "pending": True}
    assert says in str(error.hint)
    assert not_says not in str(error.hint)


def test_success_that_reading_back_denies_is_no_success(path: Path) -> None:
    error = mode_pending("GPU-1", wanted=False, mode=MigMode(current=True, pending=True), activation=Code.SUCCESS)
    assert "reading back shows otherwise" in error.message
    assert "not disabled yet" in error.message


def test_a_gpu_without_mig_is_said_to_have_none(path: Path) -> None:
    with open_sim(path, "t4") as driver:
        error = raised(lambda: driver.set_mig_mode(driver.gpus()[0].uuid, enabled=True))
    assert error.id == "no-mig"
    assert "Tesla T4" in error.message
    assert "DisplayModeSelector" in str(no_mig("GPU-1", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition").hint)


# -- words, names and numbers


@pytest.mark.parametrize(
    ("code", "kind", "name"),
    [
        (Code.LIBRARY_NOT_FOUND, HostError, "no-driver"),
        (Code.DRIVER_NOT_LOADED, HostError, "no-driver"),
        (Code.FUNCTION_NOT_FOUND, HostError, "driver-too-old"),
        (Code.LIB_RM_VERSION_MISMATCH, HostError, "driver-mismatch"),
        (Code.NO_PERMISSION, HostError, "no-permission"),
        (Code.IN_USE, Busy, "gpu-in-use"),
        (Code.INSUFFICIENT_RESOURCES, Busy, "no-room"),
        (Code.NOT_SUPPORTED, HostError, "not-supported"),
        (Code.GPU_IS_LOST, HostError, "gpu-lost"),
        (Code.UNKNOWN, HostError, "nvml-unknown"),
        (4711, HostError, "nvml-error"),
    ],
)
def test_every_code_has_an_error_with_a_next_step(code: int, kind: type[MigctlError], name: str) -> None:
    error = nvml_error(code, call="nvmlX", doing="doing it", gpu="GPU-1")
    assert (type(error), error.id, error.where) == (kind, name, "GPU-1")
    assert error.message.startswith("doing it failed: ")
    assert error.hint


def test_no_driver_says_how_to_go_on_without_one(path: Path) -> None:
    driver = open_sim(path, prepare=lambda state: state.set_fault("nvmlInit", code=Code.LIBRARY_NOT_FOUND))
    error = raised(driver.__enter__)
    assert (error.id, error.data["nvml_call"]) == ("no-driver", "nvmlInit")
    assert "--nvml sim:a100-40gb" in str(error.hint)


@pytest.mark.parametrize(
    ("machine", "label"),
    [
        ("a100-40gb", "simulated a100-40gb"),
        ("a100-40gbx2,t4", "simulated a100-40gb x2, t4"),
        ("a30,t4,a30", "simulated a30, t4, a30"),
    ],
)
def test_simulated_gpus_are_called_simulated(path: Path, machine: str, label: str) -> None:
    driver = open_sim(path, machine)
    assert (driver.simulated, driver.label) == (True, label)


def test_another_spec_is_refused(path: Path) -> None:
    with pytest.raises(PlanError):
        open_driver("mock:a30", sim_state=path)


@pytest.mark.parametrize(
    ("bus_id", "address"),
    [("00000000:3B:00.0", "0000:3b:00.0"), ("00000001:C1:00.0", "0001:c1:00.0"), ("0000:3B:00.0", "0000:3b:00.0")],
)
def test_addresses_are_sysfs_ones(bus_id: str, address: str) -> None:
    assert sysfs_address(bus_id) == address


@pytest.mark.parametrize("board", ["a100-40gb", "a100-80gb"])
def test_drivers_that_give_no_name_get_nvidia_smis(board: str) -> None:
    table = resolve_board(board)
    named = {p.name: unnamed_profile(p.index, p.compute_slices, p.memory_mib, table.memory_mib) for p in table.profiles}
    assert named == {name: name for name in named}


def test_a_driver_without_the_named_query_is_read_through_the_old_one(path: Path) -> None:
    def old(state: SimState) -> None:
        state.set_fault("nvmlDeviceGetGpuInstanceProfileInfo", code=Code.FUNCTION_NOT_FOUND)

    with open_sim(path, prepare=old) as driver:
        assert driver.gpus()[0].profiles == resolve_board("a100-40gb").profiles


@pytest.mark.parametrize("call", ["nvmlDeviceGetMinorNumber", "nvmlDeviceGetFieldValues", "nvmlDeviceGetMemoryInfo"])
def test_a_value_that_the_driver_does_not_give_is_unknown_and_the_rest_stands(path: Path, call: str) -> None:
    with open_sim(path, prepare=lambda state: state.set_fault(call, code=Code.NOT_SUPPORTED)) as driver:
        (gpu,) = driver.gpus()
    whole = board_gpu(resolve_board("a100-40gb"))
    unknown = {
        "nvmlDeviceGetMinorNumber": (None, False, 40960),
        "nvmlDeviceGetFieldValues": (0, None, 40960),
        "nvmlDeviceGetMemoryInfo": (0, False, 40192),
    }
    assert (gpu.minor, gpu.resetless_mig, gpu.memory_mib) == unknown[call]
    assert (gpu.profiles, gpu.mig) == (whole.profiles, whole.mig)
