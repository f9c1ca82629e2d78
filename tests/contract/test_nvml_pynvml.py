"""The seam is pynvml's: the simulator has pynvml's functions, argument names, structs and numbers."""

import ctypes
import inspect
from typing import Any

import pynvml
import pytest

from migctl.nvml import codes, structs
from migctl.nvml.api import Nvml
from migctl.nvml.codes import Code
from migctl.nvml.simulator import Simulator

FUNCTIONS = [name for name in vars(Nvml) if name.startswith("nvml")]
STRUCTS = [
    name
    for name, value in vars(structs).items()
    if isinstance(value, type) and name.endswith("_t") and hasattr(value, "_fields_")
]
POINTERS = ["c_nvmlDevice_t", "c_nvmlGpuInstance_t", "c_nvmlComputeInstance_t", "c_nvmlGpmSample_t"]
INDICES = {
    0: "1_SLICE",
    1: "2_SLICE",
    2: "3_SLICE",
    3: "4_SLICE",
    4: "7_SLICE",
    7: "1_SLICE_REV1",
    8: "2_SLICE_REV1",
    9: "1_SLICE_REV2",
}


def arguments(function: Any) -> list[tuple[str, object]]:
    return [(p.name, p.default) for p in inspect.signature(function).parameters.values() if p.name != "self"]


def test_the_protocol_has_functions() -> None:
    assert len(FUNCTIONS) > 25


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_has_pynvmls_arguments(name: str) -> None:
    assert arguments(getattr(Nvml, name)) == arguments(getattr(pynvml, name))
    assert arguments(getattr(Simulator, name)) == arguments(getattr(pynvml, name))


def test_the_simulator_has_no_function_that_pynvml_lacks() -> None:
    assert [name for name in dir(Simulator) if name.startswith("nvml") and name not in FUNCTIONS] == []


def shape(struct: Any) -> list[tuple[str, int, int]]:
    return [(name, getattr(struct, name).offset, getattr(struct, name).size) for name, *_ in struct._fields_]


@pytest.mark.parametrize("name", STRUCTS)
def test_struct_has_pynvmls_layout(name: str) -> None:
    assert shape(getattr(structs, name)) == shape(getattr(pynvml, name))
    assert ctypes.sizeof(getattr(structs, name)) == ctypes.sizeof(getattr(pynvml, name))


@pytest.mark.parametrize("name", ["c_nvmlGpuInstanceProfileInfo_v2_t", "c_nvmlComputeInstanceProfileInfo_v2_t"])
def test_version_words_are_pynvmls(name: str) -> None:
    assert getattr(structs, name)().version == getattr(pynvml, name)().version


def test_all_structs_that_cross_the_seam_are_compared() -> None:
    assert {
        "c_nvmlGpuInstancePlacement_t",
        "c_nvmlGpuInstanceInfo_t",
        "c_nvmlComputeInstanceInfo_t",
        "nvmlPciInfo_t",
    } <= set(STRUCTS)


@pytest.mark.parametrize("name", POINTERS)
def test_handles_are_pointers_as_in_pynvml(name: str) -> None:
    assert issubclass(getattr(structs, name), ctypes._Pointer)
    assert issubclass(getattr(pynvml, name), ctypes._Pointer)


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.SUCCESS])
def test_return_code_is_pynvmls(code: Code) -> None:
    assert getattr(pynvml, f"NVML_ERROR_{code.name}") == code


def test_other_numbers_are_pynvmls() -> None:
    assert codes.FIELD_RESETLESS_MIG == pynvml.NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED
    assert codes.FIELD_MIG_QUERIES_WITHOUT_MODE == pynvml.NVML_FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE
    assert codes.ENGINE_PROFILE_SHARED == pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
    assert pynvml.NVML_COMPUTE_INSTANCE_ID_ANY == codes.NO_INSTANCE
    assert pynvml.NVML_DEVICE_MIG_ENABLE == 1
    assert codes.TEMPERATURE_OF_GPU == pynvml.NVML_TEMPERATURE_GPU
    assert codes.CLOCK_OF_SMS == pynvml.NVML_CLOCK_SM
    assert codes.GPM_VERSION == pynvml.NVML_GPM_METRICS_GET_VERSION == pynvml.NVML_GPM_SUPPORT_VERSION
    assert codes.GPM_GRAPHICS_UTIL == pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL
    assert set(codes.SLOWING) == {
        pynvml.nvmlClocksThrottleReasonSwPowerCap,
        pynvml.nvmlClocksThrottleReasonHwSlowdown,
        pynvml.nvmlClocksThrottleReasonSwThermalSlowdown,
        pynvml.nvmlClocksThrottleReasonHwThermalSlowdown,
        pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
    }
    assert {index: getattr(pynvml, f"NVML_GPU_INSTANCE_PROFILE_{name}") for index, name in INDICES.items()} == {
        i: i for i in INDICES
    }


def test_pynvmls_errors_carry_their_code_as_ours_do() -> None:
    assert codes.code_of(pynvml.NVMLError(19)) == Code.IN_USE
    assert codes.code_of(Simulator.NVMLError(19)) == Code.IN_USE
    assert codes.code_of(ValueError()) == Code.UNKNOWN
    assert codes.code_name(12345) == "code 12345"
