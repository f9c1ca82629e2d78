"""NVML's numbers that migctl needs: return codes, field ids and limits, as nvml.h gives them."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Code(IntEnum):
    """Return codes (nvmlReturn_t in nvml.h); the names are pynvml's without `NVML_ERROR_`."""

    SUCCESS = 0
    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    INSUFFICIENT_SIZE = 7
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    LIB_RM_VERSION_MISMATCH = 18
    IN_USE = 19
    INSUFFICIENT_RESOURCES = 23
    ARGUMENT_VERSION_MISMATCH = 25
    NOT_READY = 27
    INVALID_STATE = 29
    UNKNOWN = 999


REFUSALS: Final = frozenset(
    {
        Code.INVALID_ARGUMENT,
        Code.NOT_SUPPORTED,
        Code.NO_PERMISSION,
        Code.NOT_FOUND,
        Code.RESET_REQUIRED,
        Code.IN_USE,
        Code.INSUFFICIENT_RESOURCES,
        Code.ARGUMENT_VERSION_MISMATCH,
        Code.NOT_READY,
        Code.INVALID_STATE,
    }
)
"""Answers that mean no. UNKNOWN, TIMEOUT and GPU_IS_LOST leave open whether the call had its effect."""
FIELD_RESETLESS_MIG: Final = 184
"""NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED."""
FIELD_MIG_QUERIES_WITHOUT_MODE: Final = 199
"""NVML_FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE."""
ENGINE_PROFILE_SHARED: Final = 0
"""NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, the only engine profile."""
NO_INSTANCE: Final = 0xFFFFFFFF
"""Instance id of a process that runs on the whole GPU."""
TEMPERATURE_OF_GPU: Final = 0
"""NVML_TEMPERATURE_GPU: the sensor on the die."""
CLOCK_OF_SMS: Final = 1
"""NVML_CLOCK_SM."""
GPM_VERSION: Final = 1
"""NVML_GPM_METRICS_GET_VERSION."""
GPM_GRAPHICS_UTIL: Final = 1
"""NVML_GPM_METRIC_GRAPHICS_UTIL: percent of the time in which its engines worked; of an instance, that instance's."""
SLOWING: Final = {
    0x04: "its power cap",
    0x08: "a hardware slowdown",
    0x20: "temperature",
    0x40: "temperature",
    0x80: "the power supply's brake",
}
"""nvmlClocksThrottleReason… that slow a GPU down: SwPowerCap, HwSlowdown, SwThermalSlowdown, HwThermalSlowdown, HwPowerBrake."""
PROFILE_LIMIT: Final = 64
"""Where counting profile indices ends at the latest: drivers grow the enum (18 in nvml.h 13.3) and end it by INVALID_ARGUMENT."""


def code_of(error: BaseException) -> int:
    """The NVML code that an `NVMLError` carries, pynvml's or the simulator's."""
    value = getattr(error, "value", Code.UNKNOWN)
    return value if isinstance(value, int) else Code.UNKNOWN


def code_name(code: int) -> str:
    """`IN_USE` for 19; the number itself where this list lacks it."""
    try:
        return Code(code).name
    except ValueError:
        return f"code {code}"
