"""Both stand-ins for a driver, the C library under pynvml and the simulator, answer every question alike, refusals included."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from migctl.nvml.simmodel import SimProcess
from migctl.nvml.simstate import SimState
from tests.support.nvml_library import HAS_COMPILER, compiled, python

pytestmark = pytest.mark.skipif(not HAS_COMPILER, reason="needs a C compiler (cc)")

TELL = """
import json, sys
from ctypes import byref, c_uint
from pathlib import Path

kind, state, lines = sys.argv[1:]
if kind == "library":
    import pynvml as nvml
else:
    from migctl.nvml.models import parse_boards
    from migctl.nvml.simulator import Simulator
    nvml = Simulator(parse_boards("a100-40gb"), Path(state))

def create(profile, start, size):
    return nvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, profile, byref(nvml.c_nvmlGpuInstancePlacement_t(start, size)))

def listed(profile):
    room, count = (nvml.c_nvmlGpuInstance_t * 7)(), c_uint()
    nvml.nvmlDeviceGetGpuInstances(gpu, profile, room, byref(count))
    return sorted(nvml.nvmlGpuInstanceGetInfo(room[i]).id for i in range(count.value))

def compute_listed(instance, profile):
    room, count = (nvml.c_nvmlComputeInstance_t * 7)(), c_uint()
    nvml.nvmlGpuInstanceGetComputeInstances(instance, profile, room, byref(count))
    return [nvml.nvmlComputeInstanceGetInfo_v2(room[i]).id for i in range(count.value)]

def places(profile):
    count = c_uint()
    nvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu, profile, None, byref(count))
    room = (nvml.c_nvmlGpuInstancePlacement_t * count.value)()
    nvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu, profile, room, byref(count))
    return [(room[i].start, room[i].size) for i in range(count.value)]

def told(info):
    return [getattr(info, name) for name, *_ in info._fields_ if isinstance(getattr(info, name), (int, str))]

def about(instance):
    info = nvml.nvmlGpuInstanceGetInfo(instance)
    return [info.id, info.profileId, info.placement.start, info.placement.size]

answers, names = [], globals()
for line in json.loads(lines):
    try:
        exec("answer = " + line, names)
        answers.append([line, answer if isinstance(answer, (int, str, list)) else "ok"])
    except nvml.NVMLError as error:
        answers.append([line, f"refused: {error.value}"])
    except NameError:
        answers.append([line, "about what was not made"])
print(json.dumps(answers))
"""

OPEN = ["nvml.nvmlDeviceGetCount()", "nvml.nvmlInit()", "(gpu := nvml.nvmlDeviceGetHandleByIndex(0))"]
LOOK = [
    "nvml.nvmlSystemGetDriverVersion()",
    "nvml.nvmlDeviceGetCount()",
    "nvml.nvmlDeviceGetHandleByIndex(1)",
    "nvml.nvmlDeviceGetHandleByUUID('GPU-none')",
    "nvml.nvmlDeviceGetIndex(gpu)",
    "nvml.nvmlDeviceGetName(gpu)",
    "nvml.nvmlDeviceGetMigMode(gpu)",
    "nvml.nvmlDeviceGetMinorNumber(gpu)",
    "nvml.nvmlDeviceGetMemoryInfo(gpu).total",
    "[p.pid for p in nvml.nvmlDeviceGetComputeRunningProcesses_v3(gpu)]",
    "nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)",
    *[f"nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, {index})" for index in (0, 6, 7, 99)],
    *[f"told(nvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, {index}, 1))" for index in (0, 2, 5, 7 + 1, 17, 18)],
    *[f"told(nvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, {index}))" for index in (0, 2, 5, 17, 18, 99)],
    "nvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 0, 3)",
    *[f"places({profile})" for profile in (9, 19, 77)],
    *[f"listed({profile})" for profile in (9, 19, 77)],
    "nvml.nvmlDeviceGetGpuInstanceById(gpu, 7)",
    "nvml.nvmlDeviceGetGpuInstanceId(gpu)",
]
MAKE = [
    "create(77, 0, 1)",
    "create(19, 7, 1)",
    "create(19, 0, 2)",
    "create(9, 2, 4)",
    "about(large := create(9, 4, 4))",
    "about(small := create(19, 0, 1))",
    "create(19, 0, 1)",
    "create(19, 5, 1)",
    *[f"told(nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(large, {index}, 0, 1))" for index in (0, 2, 3, 8, 9)],
    *[f"told(nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(large, {index}, 0))[:5]" for index in (0, 2, 3, 8, 9)],
    "nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(large, 0, 1)",
    "nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(large, 0, 0, 3)",
    *[f"nvml.nvmlGpuInstanceCreateComputeInstance(large, {profile})" for profile in (0, 2, 19)],
    "told(nvml.nvmlComputeInstanceGetInfo_v2(whole := nvml.nvmlGpuInstanceCreateComputeInstance(large, 18)))",
    "nvml.nvmlGpuInstanceCreateComputeInstance(large, 16)",
    *[f"compute_listed(large, {profile})" for profile in (2, 16, 18)],
    "(one := nvml.nvmlGpuInstanceCreateComputeInstance(small, 16))",
    *[
        f"nvml.nvmlDeviceGetGpuInstanceId(nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, {index}))"
        for index in (0, 1, 2)
    ],
    "nvml.nvmlDeviceGetName(nvml.nvmlComputeInstanceGetInfo_v2(whole).device)",
    "nvml.nvmlDeviceGetIndex(nvml.nvmlComputeInstanceGetInfo_v2(whole).device)",
    "[p.pid for p in nvml.nvmlDeviceGetComputeRunningProcesses_v3(nvml.nvmlComputeInstanceGetInfo_v2(whole).device)]",
    "nvml.nvmlDeviceGetMemoryInfo(nvml.nvmlComputeInstanceGetInfo_v2(whole).device).total",
    "nvml.nvmlGpuInstanceGetComputeInstanceById(large, 1)",
]
REMOVE = [
    "nvml.nvmlGpuInstanceDestroy(small)",
    "nvml.nvmlComputeInstanceDestroy(one)",
    "nvml.nvmlComputeInstanceDestroy(one)",
    "nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 1)",
    "nvml.nvmlGpuInstanceDestroy(small)",
    "nvml.nvmlGpuInstanceDestroy(small)",
    "about(small)",
    "about(later := create(19, 3, 1))",
    "about(small)",
    "nvml.nvmlComputeInstanceGetInfo_v2(one).id",
    "(again := nvml.nvmlGpuInstanceCreateComputeInstance(later, 16))",
    "nvml.nvmlComputeInstanceGetInfo_v2(one).id",
    "listed(19)",
    "nvml.nvmlDeviceGetGpuInstanceId(nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 1))",
]
GAUGES = [
    "nvml.nvmlDeviceGetPowerUsage(gpu)",
    "nvml.nvmlDeviceGetEnforcedPowerLimit(gpu)",
    *[f"nvml.nvmlDeviceGetTemperature(gpu, {sensor})" for sensor in (0, 7)],
    *[f"nvml.nvmlDeviceGetClockInfo(gpu, {kind})" for kind in (1, 99)],
    *[f"nvml.nvmlDeviceGetMaxClockInfo(gpu, {kind})" for kind in (1, 99)],
    "nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)",
    "nvml.nvmlDeviceGetUtilizationRates(gpu).gpu",
    "nvml.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice",
    "(first := nvml.nvmlGpmSampleAlloc())",
    "(second := nvml.nvmlGpmSampleAlloc())",
    "(asked := nvml.c_nvmlGpmMetricsGet_t(1, 2, first, second))",
    "nvml.nvmlGpmMetricsGet(asked)",
    "nvml.nvmlGpmSampleGet(gpu, first)",
    "nvml.nvmlGpmMigSampleGet(gpu, 99, first)",
    "nvml.nvmlGpmMigSampleGet(gpu, 7, first)",
    "__import__('time').sleep(0.12)",
    "nvml.nvmlGpmMigSampleGet(gpu, 7, second)",
    "setattr(asked.metrics[0], 'metricId', 1)",
    "setattr(asked.metrics[1], 'metricId', 2)",
    "[[m.nvmlReturn, m.value] for m in nvml.nvmlGpmMetricsGet(asked).metrics[:2]]",
    "nvml.nvmlGpmSampleFree(first)",
    "nvml.nvmlGpmSampleFree(second)",
]
SWITCH = ["nvml.nvmlDeviceSetMigMode(gpu, 1)", "nvml.nvmlDeviceGetMigMode(gpu)", "nvml.nvmlDeviceGetMinorNumber(gpu)"]
CLOSE = ["nvml.nvmlShutdown()", "nvml.nvmlDeviceGetCount()"]
WHOLE = [*OPEN, *LOOK, *GAUGES, "create(19, 2, 1)", *SWITCH, *LOOK, *MAKE, *GAUGES, *REMOVE, *CLOSE]


@dataclass(frozen=True, kw_only=True)
class Circumstance:
    """The same trouble for both stand-ins."""

    library: Mapping[str, str] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    gpu: Mapping[str, Any] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    mig: bool = False
    but: str = "\0"
    """What only the simulator can tell then."""
    says: str = ""
    """One answer that shows that the circumstance is met at all."""


PID = str(os.getpid())
CIRCUMSTANCES = {
    "none": Circumstance(says="refused: 23"),
    "no rights, MIG mode off": Circumstance(
        library={"NVML_STUB_NO_PERMISSION": "1"}, state={"no_permission": True}, says="refused: 4"
    ),
    "no rights, MIG mode on": Circumstance(
        library={"NVML_STUB_NO_PERMISSION": "1"}, state={"no_permission": True}, mig=True, says="refused: 4"
    ),
    "a process has the whole GPU, MIG mode off": Circumstance(
        library={"NVML_STUB_PID": PID}, gpu={"processes": [SimProcess(int(PID), None, 3)]}, says="[0, 1]"
    ),
    "a process has the whole GPU, MIG mode on": Circumstance(
        library={"NVML_STUB_PID": PID}, gpu={"processes": [SimProcess(int(PID), None, 3)]}, mig=True, says="refused: 19"
    ),
    "jobs run on the instances": Circumstance(
        library={"NVML_STUB_BUSY": "1"},
        gpu={"processes": [SimProcess(int(PID), gi_id, 3) for gi_id in (1, 7, 10)]},
        mig=True,
        but="RunningProcesses",
        says="refused: 19",
    ),
    "the GPU must be reset": Circumstance(
        library={"NVML_STUB_ACTIVATION": "16"}, gpu={"activation": "reset-required"}, says="16"
    ),
    "old handles mean something newer": Circumstance(
        library={"NVML_STUB_REUSE": "1"}, state={"handles_reused": True}, says="[10, 19, 3, 1]"
    ),
    "a mode change gives another minor": Circumstance(
        library={"NVML_STUB_MINORS_MOVE": "1"}, state={"minors_move": True}, says="1"
    ),
    "a driver before R510": Circumstance(flags=("-DNVML_STUB_OLD",), state={"driver": "470.57.02"}, says="refused: 13"),
    "a driver before R510, MIG mode on": Circumstance(
        flags=("-DNVML_STUB_OLD",), state={"driver": "470.57.02"}, mig=True, says="refused: 13"
    ),
}


@pytest.mark.parametrize("name", CIRCUMSTANCES)
def test_both_answer_alike_when(name: str, tmp_path: Path) -> None:
    given = CIRCUMSTANCES[name]
    path = tmp_path / "sim.json"
    state = SimState.create(path, "a100-40gb" if given.mig else "a100-40gb:off")
    for key, value in given.state.items():
        setattr(state, key, value)
    for key, value in given.gpu.items():
        setattr(state.gpus[0], key, value)
    state.save(path)
    library = compiled(tmp_path, "-Wall", "-Wextra", "-Werror", *given.flags)
    environment = {**given.library, **({"NVML_STUB_MIG": "1"} if given.mig else {})}
    lines = [line for line in WHOLE if given.but not in line]

    over_library = python(TELL, library, "library", str(path), json.dumps(lines), **environment)
    over_simulator = python(TELL, None, "simulator", str(path), json.dumps(lines))

    assert over_library == over_simulator
    assert given.says in [str(answer) for _, answer in over_library]  # type: ignore[misc]  # pairs, from JSON
