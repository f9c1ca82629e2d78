"""What a refusal of the driver means, read from the error that was made of it: who acts on it needs no code of NVML."""

from __future__ import annotations

from enum import Enum
from typing import Final

from migctl.errors import MigctlError
from migctl.nvml.codes import REFUSALS, Code, code_name

IN_USE: Final = "gpu-in-use"
STILL_THERE: Final = "still-there"
PENDING: Final = "mig-mode-pending"


class Creation(Enum):
    """What can be made, by the NVML function that has the effect."""

    GPU_INSTANCE = "nvmlDeviceCreateGpuInstanceWithPlacement"
    COMPUTE_INSTANCE = "nvmlGpuInstanceCreateComputeInstance"


def is_of_the_driver(error: MigctlError) -> bool:
    """Whether it is an answer of the driver, and not of anything else on the way."""
    return "nvml_call" in error.data


def is_no_to(error: MigctlError, creation: Creation) -> bool:
    """Whether the very call that creates was answered by no.

    What fails after it, and an answer that leaves it open (UNKNOWN, a lost GPU), may have made the instance.
    """
    return error.data.get("nvml_call") == creation.value and error.data.get("nvml_code") in REFUSALS


def says_in_use(error: MigctlError) -> bool:
    """Whether the driver's own answer was "in use", also where something else ended the attempt; the effect may be there."""
    return error.data.get("nvml_code") == Code.IN_USE


def is_in_use(error: MigctlError) -> bool:
    """Whether the driver refused because somebody holds the GPU; "not supported" and "reset required" are other answers."""
    return error.id == IN_USE or _activation(error) == code_name(Code.IN_USE)


def is_still_there(error: MigctlError) -> bool:
    """Whether the driver reported a removal that has not happened."""
    return error.id == STILL_THERE


def is_outstanding(error: MigctlError) -> bool:
    """Whether the driver accepted a change of the MIG mode that is not in force: it stays wished for."""
    return _activation(error) is not None


def needs_a_reboot(error: MigctlError) -> bool:
    """Whether such a change cannot come into force by a reset of the GPU, which this machine does not allow."""
    return _activation(error) == code_name(Code.NOT_SUPPORTED)


def _activation(error: MigctlError) -> object:
    """The activation status of an outstanding change; `None` for every other error."""
    return error.data.get("activation") if error.id == PENDING else None
