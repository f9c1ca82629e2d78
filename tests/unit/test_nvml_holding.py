"""Who holds a simulated GPU or instance: jobs, whole-GPU clients, open device files, and what has ended only just now."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from migctl.nvml.codes import Code
from migctl.nvml.simdevices import gpu_node
from migctl.nvml.simholders import holders
from migctl.nvml.simmodel import SimProcess
from migctl.nvml.simstate import SimState
from migctl.nvml.simulator import Simulator
from migctl.runtimes.processes import Processes
from tests.support.launches import job, launch
from tests.support.other_user import NOBODY, as_user, needs_root
from tests.support.simulated_nvml import A100_1G, A100_2G, A100_3G, C2, NO_PROCESS, create, refusal, simulate


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sim.json"


@pytest.fixture
def nvml(path: Path) -> Simulator:
    return simulate(path)


@contextmanager
def handed(variable: str, value: str) -> Iterator[int]:
    """A process that was started with this variable; its pid."""
    with subprocess.Popen(["sleep", "60"], env={variable: value}) as process:
        try:
            while Path(f"/proc/{process.pid}/comm").read_text() != "sleep\n":
                time.sleep(0.005)
            yield process.pid
        finally:
            process.kill()


def mig_uuid(path: Path) -> str:
    return SimState.load(path).gpus[0].instances[0].compute[0].mig_uuid


# how a process comes to have a device; `{}` is its UUID
@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CUDA_VISIBLE_DEVICES", "{}"),
        ("NVIDIA_VISIBLE_DEVICES", "MIG-other,{}"),
        ("MIGCTL_MIG_UUID", "{}"),
    ],
)
def test_a_living_process_that_was_handed_the_device_holds_it(
    nvml: Simulator, path: Path, variable: str, value: str
) -> None:
    instance = create(nvml, A100_2G, 0, 2)
    compute = nvml.nvmlGpuInstanceCreateComputeInstance(instance, C2)
    device, gpu = nvml.nvmlComputeInstanceGetInfo_v2(compute).device, nvml.nvmlDeviceGetHandleByIndex(0)
    with handed(variable, value.format(mig_uuid(path))) as pid:
        assert refusal(lambda: nvml.nvmlComputeInstanceDestroy(compute)) is Code.IN_USE
        for handle in (device, gpu):
            (process,) = nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
            assert (process.pid, process.gpuInstanceId, process.computeInstanceId) == (pid, 3, 0)
        assert nvml.nvmlDeviceSetMigMode(gpu, 0) == Code.IN_USE
    assert nvml.nvmlDeviceGetComputeRunningProcesses_v3(gpu) == []
    nvml.nvmlComputeInstanceDestroy(compute)
    nvml.nvmlGpuInstanceDestroy(instance)


def test_a_process_that_ended_and_is_not_collected_yet_holds_nothing(nvml: Simulator, path: Path) -> None:
    compute = nvml.nvmlGpuInstanceCreateComputeInstance(create(nvml, A100_2G, 0, 2), C2)
    ended = subprocess.Popen(["true"], env={"CUDA_VISIBLE_DEVICES": mig_uuid(path)})
    try:
        while Path(f"/proc/{ended.pid}/stat").read_text().split()[2] != "Z":
            time.sleep(0.005)
        assert not SimProcess(ended.pid).alive
        nvml.nvmlComputeInstanceDestroy(compute)
    finally:
        ended.wait()


def test_other_machines_devices_and_other_variables_hold_nothing(nvml: Simulator, path: Path, tmp_path: Path) -> None:
    compute = nvml.nvmlGpuInstanceCreateComputeInstance(create(nvml, A100_2G, 0, 2), C2)
    other = SimState.create(tmp_path / "other.json", "a100-40gb")
    other.add_foreign_instance(0, "2g.10gb", 0)
    elsewhere = other.gpus[0].instances[0].compute[0].mig_uuid
    assert elsewhere != mig_uuid(path)
    with handed("CUDA_VISIBLE_DEVICES", elsewhere), handed("NOTES", mig_uuid(path)):
        nvml.nvmlComputeInstanceDestroy(compute)


# (fields of the GPU, what making an instance is answered)
WHOLE_GPU_CLIENTS: list[tuple[dict[str, Any], Code | None]] = [
    ({}, None),
    ({"held": True}, Code.IN_USE),
    ({"processes": [SimProcess(os.getpid(), None)]}, Code.IN_USE),
    ({"processes": [SimProcess(os.getpid(), 13)]}, None),  # on an instance beside it
    ({"processes": [SimProcess(NO_PROCESS, None)]}, None),
]


@pytest.mark.parametrize(("fields", "code"), WHOLE_GPU_CLIENTS)
def test_who_has_the_whole_gpu_keeps_others_from_making_instances(
    path: Path, fields: dict[str, Any], code: Code | None
) -> None:
    state = SimState.create(path, "a100-40gb")
    vars(state.gpus[0]).update(fields)
    state.save(path)
    nvml = simulate(path)
    assert refusal(lambda: create(nvml, A100_1G, 0, 1)) == code


# (how the GPU's file is opened, what making an instance is answered, and changing the mode)
OPENERS = [("3<>", Code.IN_USE, Code.IN_USE), ("3<", None, Code.IN_USE)]  # to compute; to watch, as nvidia-persistenced


@pytest.mark.parametrize(("how", "making", "changing"), OPENERS)
def test_who_has_the_gpus_file_open_is_in_the_way(
    path: Path, tmp_path: Path, how: str, making: Code | None, changing: Code
) -> None:
    state = SimState.create(path, "a100-40gb")
    state.make_devices(tmp_path / "dev")
    state.save(path)
    nvml = simulate(path)
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    with subprocess.Popen(["sh", "-c", f'exec sleep 60 {how}"$0"', str(gpu_node(tmp_path / "dev", 0))]) as process:
        while not Path(f"/proc/{process.pid}/fd/3").is_symlink():
            time.sleep(0.005)
        assert refusal(lambda: create(nvml, A100_1G, 0, 1)) == making
        assert nvml.nvmlDeviceSetMigMode(gpu, 0) == changing
        process.kill()
    create(nvml, A100_1G, 1, 1)


def test_an_instance_stays_in_use_for_a_moment_after_its_process(nvml: Simulator, path: Path) -> None:
    instance = create(nvml, A100_2G, 0, 2)
    compute = nvml.nvmlGpuInstanceCreateComputeInstance(instance, C2)
    with SimState.edit(path) as state:
        state.release_lag_s = 0.3
    remove = [lambda: nvml.nvmlComputeInstanceDestroy(compute), lambda: nvml.nvmlGpuInstanceDestroy(instance)]
    for removal in remove:
        began = time.monotonic()
        while refusal(removal) is Code.IN_USE:
            time.sleep(0.01)
        assert 0.3 <= time.monotonic() - began < 5
    assert SimState.load(path).gpus[0].instances == []


def test_an_old_handle_can_mean_another_instance_by_now(nvml: Simulator, path: Path) -> None:
    old = create(nvml, A100_2G, 0, 2)
    with SimState.edit(path) as state:
        state.handles_reused = True
    nvml.nvmlGpuInstanceDestroy(old)
    assert refusal(lambda: nvml.nvmlGpuInstanceGetInfo(old)) is Code.INVALID_ARGUMENT
    create(nvml, A100_3G, 4, 4)
    assert nvml.nvmlGpuInstanceGetInfo(old).profileId == A100_3G


# (board, whether its minor number moves)
@pytest.mark.parametrize(("board", "minor"), [("a100-40gb:off", 1), ("h100-sxm5-80gb:off", 0)])
def test_a_mode_change_that_resets_the_gpu_can_give_it_another_minor(
    path: Path, tmp_path: Path, board: str, minor: int
) -> None:
    state = SimState.create(path, board)
    state.minors_move = True
    state.make_devices(tmp_path / "dev")
    state.save(path)
    nvml = simulate(path, board)
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.nvmlDeviceSetMigMode(gpu, 1) == Code.SUCCESS
    assert nvml.nvmlDeviceGetMinorNumber(gpu) == minor
    assert [node.name for node in (tmp_path / "dev").glob("nvidia[0-9]")] == [f"nvidia{minor}"]
    assert f"gpu{minor}/gi0/access" in (tmp_path / "dev/mig-minors").read_text()


@needs_root
def test_a_job_of_another_user_holds_its_device_although_its_environment_may_not_be_read(tmp_path: Path) -> None:
    device, other = "MIG-11111111-2222-3333-4444-555555555555", "MIG-66666666-7777-8888-9999-aaaaaaaaaaaa"
    processes = Processes({"PATH": "/usr/bin:/bin"})
    handle = processes.create(launch(job(), tmp_path, mig_uuid=device))
    unit = processes.start(handle)
    try:
        held = as_user(NOBODY, lambda: dict(holders([device, other])))
    finally:
        processes.stop(handle, 0)

    assert held == {device: [unit.pid], other: []}
    assert as_user(NOBODY, lambda: dict(holders([device]))) == {device: []}
