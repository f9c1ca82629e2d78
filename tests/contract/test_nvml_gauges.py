"""What GPUs do at a moment: over the real pynvml and a small C library as over the simulator, and each figure by itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from migctl.core.seeing.readings import GpuReading
from migctl.nvml.gauges import NO_COUNTERS, read_gauges
from migctl.nvml.open import open_driver
from migctl.nvml.simmodel import SimProcess
from migctl.nvml.simstate import SimState
from tests.support.nvml_library import HAS_COMPILER, compiled, python

TELL = """
import json
from migctl.nvml.gauges import read_gauges
from migctl.nvml.open import open_driver

with open_driver("", sim_state=None) as driver:
    (gpu,) = driver.gpus()
    for place in (0, 1):
        if gpu.mig.current:
            profile = gpu.profile_named("1g.5gb")
            driver.create_compute_instance(gpu.uuid, driver.create_gpu_instance(gpu.uuid, profile, profile.placements[place]))
    (read,) = read_gauges(driver)
print(json.dumps([read.power_w, read.power_limit_w, read.temperature_c, read.sm_clock_mhz, read.throttles, dict(read.unknown)]
    + [[i.gi_id, i.memory_used_mib, i.memory_total_mib, i.activity_share, i.activity_source] for i in read.instances]))
"""
WHOLE_GPU = [62.0, 400.0, 34, 1410, [], {}]

# What the machine is told → what the reading says of its instances.
OVER_THE_LIBRARY = {
    "MIG and counters": (
        {"NVML_STUB_MIG": "1", "NVML_STUB_GPM": "87"},
        [[7, 0, 4864, 0.87, "GPM"], [8, 0, 4864, 0.87, "GPM"]],
    ),
    "MIG without counters": ({"NVML_STUB_MIG": "1"}, [[7, 0, 4864, None, ""], [8, 0, 4864, None, ""]]),
    "no MIG, counters": ({"NVML_STUB_GPM": "87"}, [[None, 0, 40960, 0.87, "GPM"]]),
    "no MIG, no counters": ({}, [[None, 0, 40960, 0.0, "NVML"]]),
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("gauges"), "-Wall", "-Wextra", "-Werror")


@pytest.mark.skipif(not HAS_COMPILER, reason="needs a C compiler (cc)")
@pytest.mark.parametrize("name", OVER_THE_LIBRARY)
def test_through_pynvml_and_a_library(name: str, library: Path) -> None:
    environment, instances = OVER_THE_LIBRARY[name]

    told = python(TELL, library, **environment)

    assert told == [*WHOLE_GPU, *instances]


def reading(path: Path, boards: str = "h100-sxm5-80gb") -> GpuReading:
    with open_driver(f"sim:{boards}", sim_state=path) as driver:
        (found,) = read_gauges(driver)
    return found


def machine(path: Path, boards: str = "h100-sxm5-80gb") -> SimState:
    """One GPU with two instances."""
    state = SimState.create(path, boards)
    smallest = min(state.board(state.gpus[0]).profiles, key=lambda p: (p.compute_slices, p.memory_mib, p.index)).name
    for start in (0, 1):
        state.add_foreign_instance(0, smallest, start)
    state.save(path)
    return state


def test_counters_tell_of_each_instance_by_itself(tmp_path: Path) -> None:
    state = machine(tmp_path / "sim.json")
    state.gpus[0].instances[0].activity, state.gpus[0].instances[1].activity = 0.95, 0.1
    state.save(tmp_path / "sim.json")

    found = reading(tmp_path / "sim.json")

    assert [round(i.activity_share or 0, 3) for i in found.instances] == [0.95, 0.1]
    assert {i.activity_source for i in found.instances} == {"GPM"}
    assert not any(i.unknown for i in found.instances)


def test_before_hopper_activity_is_unknown_with_its_reason_and_never_0(tmp_path: Path) -> None:
    machine(tmp_path / "sim.json", "a100-40gb")

    found = reading(tmp_path / "sim.json", "a100-40gb")

    assert [(i.activity_share, i.unknown["activity_share"]) for i in found.instances] == [(None, NO_COUNTERS)] * 2
    assert all(i.memory_total_mib for i in found.instances)


# How the machine differs; the figures that are unknown then, with a word of the reason.
TROUBLE = {
    "the driver lacks the counters": ({"driver": "515.86.01"}, "instances", "activity_share", "too old"),
    "only root may read the counters": ({"no_permission": True}, "instances", "activity_share", "needs root"),
    "power is refused": (("nvmlDeviceGetPowerUsage", 3), "gpu", "power_w", "does not tell"),
    "the clock is refused": (("nvmlDeviceGetClockInfo", 4), "gpu", "sm_clock_mhz", "needs root"),
    "counters fail once": (("nvmlGpmMigSampleGet", 999), "instances", "activity_share", "UNKNOWN"),
}


@pytest.mark.parametrize("name", TROUBLE)
def test_a_figure_that_fails_blanks_only_itself_when(name: str, tmp_path: Path) -> None:
    change, whose, figure, word = TROUBLE[name]
    path = tmp_path / "sim.json"
    state = machine(path)
    if isinstance(change, dict):
        for key, value in change.items():
            setattr(state, key, value)
    else:
        state.set_fault(change[0], code=change[1], times=0)
    state.save(path)

    found = reading(path)

    blank = found.unknown if whose == "gpu" else found.instances[0].unknown
    assert word in blank[figure]
    assert found.temperature_c == 34
    assert whose == "gpu" or state.no_permission or found.instances[0].memory_total_mib


def test_a_gpu_that_is_lost_is_no_reason_to_say_nothing_of_the_other(tmp_path: Path) -> None:
    path = tmp_path / "sim.json"
    state = SimState.create(path, "a100-40gb,h100-sxm5-80gb:off")
    state.gpus[1].activity = 0.5
    state.set_fault("nvmlDeviceGetPowerUsage", code=15, times=0, gpu=0)
    state.save(path)

    with open_driver("sim:a100-40gb,h100-sxm5-80gb", sim_state=path) as driver:
        first, second = read_gauges(driver)

    assert "gpu" in first.unknown
    assert [(i.gi_id, i.activity_share) for i in second.instances] == [(None, 0.5)]


def test_throttling_is_told_in_words_and_processes_by_instance(tmp_path: Path) -> None:
    path = tmp_path / "sim.json"
    state = machine(path)
    gpu = state.gpus[0]
    gpu.throttle_reasons, gpu.sm_clock_mhz = 0x01 | 0x20 | 0x40, 990
    gpu.processes = [SimProcess(os.getpid(), gpu.instances[1].gi_id, 700)]
    state.save(path)

    found = reading(path)

    assert found.throttles == ("temperature",)
    assert found.sm_clock_mhz == 990
    assert [i.pids for i in found.instances] == [(), (os.getpid(),)]
    assert [i.memory_used_mib for i in found.instances] == [0, 700]
