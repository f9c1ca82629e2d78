# ruff: noqa: ANN401 -- a handle is one of three pointer types
"""Handles of the simulator: opaque numbers outside, keys inside; an old one is refused, or stands for something newer."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from migctl.nvml import structs
from migctl.nvml.codes import Code
from migctl.nvml.simfaults import NVMLError
from migctl.nvml.simmodel import SimCompute, SimGpu, SimInstance
from migctl.nvml.simstate import SimState

Kind = Literal["gpu", "instance", "compute", "mig"]


@dataclass(frozen=True, slots=True)
class Key:
    """What a handle stands for; `serial` is that of the instance or compute instance."""

    kind: Kind
    gpu_uuid: str
    gi_id: int = 0
    ci_id: int = 0
    serial: int = 0


_POINTER: dict[Kind, Any] = {
    "gpu": structs.c_nvmlDevice_t,
    "instance": structs.c_nvmlGpuInstance_t,
    "compute": structs.c_nvmlComputeInstance_t,
    "mig": structs.c_nvmlDevice_t,
}


class Handles:
    """All handles that one simulator has given out."""

    def __init__(self) -> None:
        self._keys: list[Key] = []
        self._numbers: dict[Key, int] = {}
        self._lock = threading.Lock()

    def gpu_handle(self, gpu: SimGpu) -> Any:
        """Handle of a GPU."""
        return self._handle(Key("gpu", gpu.uuid))

    def instance_handle(self, gpu: SimGpu, instance: SimInstance) -> Any:
        """Handle of a GPU instance."""
        return self._handle(Key("instance", gpu.uuid, instance.gi_id, 0, instance.serial))

    def compute_handle(self, gpu: SimGpu, instance: SimInstance, compute: SimCompute) -> Any:
        """Handle of a compute instance."""
        return self._handle(Key("compute", gpu.uuid, instance.gi_id, compute.ci_id, compute.serial))

    def mig_handle(self, gpu: SimGpu, instance: SimInstance, compute: SimCompute) -> Any:
        """Handle of a MIG device."""
        return self._handle(Key("mig", gpu.uuid, instance.gi_id, compute.ci_id, compute.serial))

    def key(self, handle: object) -> Key:
        """What a handle stands for."""
        try:
            return self._keys[structs.address(handle) // 16 - 1]
        except (IndexError, ctypes.ArgumentError) as error:
            raise NVMLError(Code.INVALID_ARGUMENT) from error

    def gpu(self, state: SimState, handle: object) -> SimGpu:
        """The GPU of a handle of any kind; refused when it is lost."""
        found = state.gpu(self.key(handle).gpu_uuid)
        if found is None:
            raise NVMLError(Code.INVALID_ARGUMENT)
        return reachable(found)

    def instance(self, state: SimState, handle: object) -> tuple[SimGpu, SimInstance]:
        """The GPU instance of a handle.

        Raises:
            NVMLError: INVALID_ARGUMENT where it is gone, unless this machine gives old handles to what is made later.
        """
        key, gpu = self.key(handle), self.gpu(state, handle)
        if key.kind != "instance":
            raise NVMLError(Code.INVALID_ARGUMENT)
        serial = _now(key.serial, [instance.serial for instance in gpu.instances], state.handles_reused)
        return gpu, next(instance for instance in gpu.instances if instance.serial == serial)

    def compute(self, state: SimState, handle: object, kind: Kind) -> tuple[SimGpu, SimInstance, SimCompute]:
        """The compute instance of a handle of itself or of its MIG device.

        Raises:
            NVMLError: as for `instance`.
        """
        key, gpu = self.key(handle), self.gpu(state, handle)
        if key.kind != kind:
            raise NVMLError(Code.INVALID_ARGUMENT)
        there = {compute.serial: (instance, compute) for instance in gpu.instances for compute in instance.compute}
        return gpu, *there[_now(key.serial, list(there), state.handles_reused)]

    def device(self, state: SimState, handle: object) -> tuple[SimGpu, SimInstance | None, SimCompute | None]:
        """The GPU, or the MIG device, of a device handle."""
        if self.key(handle).kind == "mig":
            return self.compute(state, handle, "mig")
        return self.gpu(state, handle), None, None

    def _handle(self, key: Key) -> Any:
        with self._lock:
            if key not in self._numbers:
                self._keys.append(key)
                self._numbers[key] = len(self._keys) * 16
            return ctypes.cast(ctypes.c_void_p(self._numbers[key]), _POINTER[key.kind])


def _now(serial: int, living: Sequence[int], reused: bool) -> int:
    """The serial of what a handle stands for by now."""
    if serial in living:
        return serial
    heir = min((other for other in living if other > serial), default=None) if reused else None
    if heir is None:
        raise NVMLError(Code.INVALID_ARGUMENT)
    return heir


def reachable(gpu: SimGpu) -> SimGpu:
    """The GPU, unless it fell off the bus."""
    if gpu.lost:
        raise NVMLError(Code.GPU_IS_LOST)
    return gpu
