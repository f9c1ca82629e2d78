"""Raw NVML calls on a simulated machine, and the codes that refuse them."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref
from pathlib import Path
from typing import Any

from migctl.nvml.codes import Code, code_of
from migctl.nvml.models import parse_boards
from migctl.nvml.simulator import Simulator

A100_1G, A100_1G_ME, A100_1G10, A100_2G, A100_3G, A100_4G, A100_7G = 19, 20, 15, 14, 9, 5, 0
"""GPU instance profile ids."""
C1, C2, C4 = 16, 17, 19
"""Compute instance profile ids: of 1, 2 and 4 slices."""
NO_PROCESS = 2**22 + 5
"""Above the kernel's largest pid."""


def simulate(path: Path, boards: str = "a100-40gb") -> Simulator:
    """An open session."""
    simulator = Simulator(parse_boards(boards), path)
    simulator.nvmlInit()
    return simulator


def create(nvml: Simulator, profile: int, start: int, size: int, gpu: int = 0) -> Any:
    """A GPU instance's handle."""
    place = nvml.c_nvmlGpuInstancePlacement_t(start, size)
    return nvml.nvmlDeviceCreateGpuInstanceWithPlacement(nvml.nvmlDeviceGetHandleByIndex(gpu), profile, byref(place))


def refusal(call: Callable[[], object]) -> Code | None:
    """What a call is refused with; nothing where it is not."""
    try:
        call()
    except Simulator.NVMLError as error:
        return Code(code_of(error))
    return None
