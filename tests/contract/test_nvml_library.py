"""The driver through the real pynvml and ctypes, over a small C library, does what it does over the simulator."""

from pathlib import Path

import pytest

from migctl.nvml.simstate import SimState
from tests.support.nvml_library import HAS_COMPILER, STUB, compiled, python

pytestmark = pytest.mark.skipif(not HAS_COMPILER, reason="needs a C compiler (cc)")

CYCLE = """
import json, os, sys
from pathlib import Path
from migctl.errors import MigctlError
from migctl.nvml.open import open_driver

def attempt(call, *arguments, **named):
    try:
        return str(call(*arguments, **named))
    except MigctlError as error:
        return [error.id, error.data.get("nvml_call") or error.data.get("activation")]

def instances(gpu):
    return [[i.gi_id, i.profile_id, i.profile, str(i.placement), [c.ci_id for c in i.compute_instances]] for i in gpu.instances]

with open_driver(sys.argv[1], sim_state=Path(sys.argv[2])) as driver:
    told = [driver.version]
    (gpu,) = driver.gpus()
    uuid = gpu.uuid
    told.append([gpu.name, gpu.pci_bus_id, gpu.minor, gpu.memory_mib, str(gpu.mig), gpu.resetless_mig])
    told.append([str(p) for p in gpu.profiles if p.name in ("1g.5gb", "3g.20gb")])
    large, small = gpu.profile_named("3g.20gb"), gpu.profile_named("1g.5gb")
    told.append(attempt(driver.create_gpu_instance, uuid, small, small.placements[0]))
    told.append(attempt(driver.set_mig_mode, uuid, enabled=True))
    for profile, place in ((large, 1), (small, 0), (small, 3), (small, 3), (small, 6)):
        told.append(attempt(driver.create_gpu_instance, uuid, profile, profile.placements[place]))
    made = [driver.create_compute_instance(uuid, gi_id) for gi_id in (1, 7)]
    told.append([m.ci_id for m in made] + [driver.device_memory(m.mig_uuid) for m in made] + [len({m.mig_uuid for m in made})])
    (gpu,) = driver.gpus()
    told += [instances(gpu), gpu.instances_reason]
    told.append([c.mig_uuid for i in gpu.instances for c in i.compute_instances] == [m.mig_uuid for m in made])
    told.append(attempt(driver.destroy_gpu_instance, uuid, 1))
    for gi_id, ci_id in ((1, 0), (1, 0), (7, 5), (5, 0)):
        told.append(attempt(driver.destroy_compute_instance, uuid, gi_id, ci_id))
    for gi_id in (1, 1, 7, 10):
        told.append(attempt(driver.destroy_gpu_instance, uuid, gi_id))
    told += [instances(driver.gpu(uuid)), driver.device_memory(made[0].mig_uuid)]
    told.append(attempt(driver.set_mig_mode, uuid, enabled=False))
    told.append(attempt(driver.gpu, "GPU-none"))
print(json.dumps(told))
"""

LOOK = """
import json, sys
from migctl.errors import MigctlError
from migctl.nvml.open import open_driver

try:
    with open_driver("", sim_state=None) as driver:
        (uuid,) = [gpu.uuid for gpu in driver.gpus()]
        driver.set_mig_mode(uuid, enabled=True)
        profile = driver.gpu(uuid).profiles[0]
        gi_id = driver.create_gpu_instance(uuid, profile, profile.placements[0])
        driver.create_compute_instance(uuid, gi_id)
        (gpu,) = driver.gpus()
        print(json.dumps([[i.profile, str(i.placement)] for i in gpu.instances] + [gpu.instances_reason, gpu.processes_reason]))
        driver.destroy_compute_instance(uuid, gi_id, 0)
        driver.destroy_gpu_instance(uuid, gi_id)
except MigctlError as error:
    print(json.dumps([error.id, error.message, error.hint]))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("nvml"), "-Wall", "-Wextra", "-Werror")


@pytest.fixture(scope="module")
def old_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("old"), "-Wall", "-Wextra", "-Werror", "-DNVML_STUB_OLD")


def test_the_life_cycle_is_the_same_over_the_library_and_the_simulator(library: Path, tmp_path: Path) -> None:
    over_library = python(CYCLE, library, "", "unused")
    over_simulator = python(CYCLE, None, "sim:a100-40gb:off", str(tmp_path / "sim.json"))
    assert over_library == over_simulator
    assert ["no-room", "nvmlDeviceCreateGpuInstanceWithPlacement"] in over_library
    assert ["gpu-in-use", "nvmlGpuInstanceDestroy"] in over_library


def test_the_life_cycle_is_the_same_over_a_library_before_r510(old_library: Path, tmp_path: Path) -> None:
    state = SimState.create(tmp_path / "sim.json", "a100-40gb")
    state.driver = "470.57.02"
    state.save(tmp_path / "sim.json")
    over_library = python(CYCLE, old_library, "", "unused", NVML_STUB_MIG="1")
    over_simulator = python(CYCLE, None, "sim:a100-40gb", str(tmp_path / "sim.json"))
    assert over_library == over_simulator
    assert over_library[0] == "470.57.02"
    assert any(isinstance(told, list) and [7, 19, "1g.5gb", "0:1", [0]] in told for told in over_library)


# (function, code, the error's id, what its message contains)
FAILURES = [
    ("nvmlInit", 9, "no-driver", "DRIVER_NOT_LOADED from nvmlInit"),
    ("nvmlDeviceGetCount", 999, "nvml-unknown", "UNKNOWN from nvmlDeviceGetCount"),
    ("nvmlDeviceSetMigMode", 4, "no-permission", "NO_PERMISSION from nvmlDeviceSetMigMode"),
    ("nvmlDeviceCreateGpuInstanceWithPlacement", 4, "no-permission", "creating 1g.5gb at 0:1"),
    ("nvmlGpuInstanceCreateComputeInstance", 23, "no-room", "the compute instance of GPU instance 7"),
]


@pytest.mark.parametrize(("function", "code", "error", "says"), FAILURES)
def test_what_the_library_refuses_is_told(library: Path, function: str, code: int, error: str, says: str) -> None:
    told = python(LOOK, library, NVML_STUB_FAIL=f"{function}={code}")
    assert told[0] == error
    assert says in str(told[1])


def test_a_mode_that_stays_pending_is_told_from_the_returned_status(library: Path) -> None:
    told = python(LOOK, library, NVML_STUB_ACTIVATION="19")
    assert told[0] == "mig-mode-pending"
    assert "stop what uses it" in str(told[2])


def test_without_rights_instances_come_from_the_walk_over_mig_devices(library: Path) -> None:
    told = python(LOOK, library, NVML_STUB_FAIL="nvmlDeviceGetGpuInstances=4")
    assert told[0] == ["1g.5gb", "?"]
    assert "needs root" in str(told[1])


def test_a_library_that_lacks_a_function_is_no_traceback(library: Path, tmp_path: Path) -> None:
    code = STUB.read_text().replace("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlNothing")
    code = code.replace("int nvmlDeviceGetMinorNumber(", "int nvmlNothingElse(")
    (tmp_path / "old.c").write_text(code)
    compiled(tmp_path, "-w", code=tmp_path / "old.c")
    assert python(LOOK, tmp_path) == [["1g.5gb", "0:1"], None, "the driver does not tell"]


VERSION = """
import json
from migctl.errors import MigctlError
from migctl.nvml.open import open_driver

try:
    with open_driver(None, sim_state=None) as driver:
        print(json.dumps(["a driver", driver.label]))
except MigctlError as error:
    print(json.dumps([error.id, error.hint]))
"""


def test_without_the_library_the_way_on_is_a_simulated_gpu(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    told = python(VERSION, tmp_path)
    if told[0] == "a driver":
        pytest.skip("this machine has a driver")
    assert told[0] == "no-driver"
    assert "--nvml sim:a100-40gb" in str(told[1])


def test_the_label_names_the_drivers_version(library: Path) -> None:
    assert python(VERSION, library) == ["a driver", "NVIDIA driver 580.65.06"]
