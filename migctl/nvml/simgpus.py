# ruff: noqa: N802, N803, ANN401 -- names and opaque handles are pynvml's
"""Simulated GPUs and their MIG devices: what they are, who is on them, and their MIG mode."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Final

from migctl.nvml import structs
from migctl.nvml.codes import FIELD_MIG_QUERIES_WITHOUT_MODE, FIELD_RESETLESS_MIG, NO_INSTANCE, Code
from migctl.nvml.models import Board
from migctl.nvml.simdriver import driver_age
from migctl.nvml.simfaults import NVMLError
from migctl.nvml.simgauges import SimulatedGauges
from migctl.nvml.simhandles import reachable
from migctl.nvml.simholders import holders
from migctl.nvml.simmodel import SimCompute, SimGpu, SimInstance
from migctl.nvml.simrules import profile_of
from migctl.nvml.simsession import nvml_call
from migctl.nvml.simstate import SimState

_MIB: Final = 1 << 20
_ACTIVATION: Final = {
    "immediate": Code.SUCCESS,
    "in-use": Code.IN_USE,
    "reset-required": Code.RESET_REQUIRED,
    "not-supported": Code.NOT_SUPPORTED,
}


class SimulatedGpus(SimulatedGauges):
    """The functions of `Nvml` that are about whole GPUs and MIG devices."""

    # -- what they are

    @nvml_call
    def nvmlDeviceGetCount(self) -> int:
        return len(self.file.read().gpus)

    @nvml_call
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        gpus = self.file.read().gpus
        if not 0 <= index < len(gpus):
            raise NVMLError(Code.INVALID_ARGUMENT)
        return self.handles.gpu_handle(reachable(gpus[index]))

    @nvml_call
    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any:
        for gpu in self.file.read().gpus:
            if gpu.uuid == uuid:
                return self.handles.gpu_handle(reachable(gpu))
            for instance, compute in mig_devices(gpu):
                if compute.mig_uuid == uuid:
                    return self.handles.mig_handle(gpu, instance, compute)
        raise NVMLError(Code.NOT_FOUND)

    @nvml_call
    def nvmlDeviceGetIndex(self, handle: Any) -> int:
        state = self.file.read()
        gpu, _, compute = self.handles.device(state, handle)
        if compute is not None:
            return compute.index
        return [one.uuid for one in state.gpus].index(gpu.uuid)

    @nvml_call
    def nvmlDeviceGetUUID(self, handle: Any) -> str:
        gpu, _, compute = self.handles.device(self.file.read(), handle)
        return gpu.uuid if compute is None else compute.mig_uuid

    @nvml_call
    def nvmlDeviceGetName(self, handle: Any) -> str:
        state = self.file.read()
        gpu, instance, compute = self.handles.device(state, handle)
        board = state.board(gpu)
        if instance is None or compute is None:
            return board.name
        profile = profile_of(board, instance)
        part = "" if compute.slices == profile.compute_slices else f"{compute.slices}c."
        return f"{board.name} MIG {part}{profile.name}"

    @nvml_call
    def nvmlDeviceGetPciInfo(self, handle: Any) -> structs.nvmlPciInfo_t:
        gpu = self.handles.gpu(self.file.read(), handle)
        return structs.nvmlPciInfo_t(busIdLegacy=gpu.pci.upper().encode(), busId=f"0000{gpu.pci}".upper().encode())

    @nvml_call
    def nvmlDeviceGetMinorNumber(self, handle: Any) -> int:
        return self.handles.gpu(self.file.read(), handle).minor

    @nvml_call
    def nvmlDeviceGetMemoryInfo(self, handle: Any, version: int | None = None) -> structs.c_nvmlMemory_t:
        if version is not None:
            raise NVMLError(Code.FUNCTION_NOT_FOUND)
        state = self.file.read()
        gpu, instance, _ = self.handles.device(state, handle)
        _guard_parent(state, gpu, instance)
        board = state.board(gpu)
        total = board.memory_mib if instance is None else profile_of(board, instance).memory_mib
        used = min(total, sum(process.used_mib for process in gpu.living(None if instance is None else instance.gi_id)))
        return structs.c_nvmlMemory_t(total=total * _MIB, free=(total - used) * _MIB, used=used * _MIB)

    @nvml_call
    def nvmlDeviceGetFieldValues(self, handle: Any, fieldIds: list[int]) -> Any:
        state = self.file.read()
        board = state.board(self.handles.gpu(state, handle))
        known = {FIELD_RESETLESS_MIG: board.resetless_mig, FIELD_MIG_QUERIES_WITHOUT_MODE: profiles_with_mig_off(state)}
        values = (structs.c_nvmlFieldValue_t * len(fieldIds))()
        for value, wanted in zip(values, fieldIds, strict=True):
            value.fieldId = wanted
            value.nvmlReturn = Code.SUCCESS if board.profiles and wanted in known else Code.NOT_SUPPORTED
            value.value.uiVal = int(known.get(wanted, 0))
        return values

    # -- who is on them

    @nvml_call
    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle: Any) -> list[Any]:
        state = self.file.read()
        if not driver_age(state.driver).versioned_queries:
            raise NVMLError(Code.FUNCTION_NOT_FOUND)
        gpu, instance, compute = self.handles.device(state, handle)
        _guard_parent(state, gpu, instance)
        told = [
            _process(
                process.pid,
                process.used_mib,
                process.gi_id,
                None if process.gi_id is None else compute.ci_id if compute else 0,
            )
            for process in gpu.living(None if instance is None else instance.gi_id)
        ]
        there = list(mig_devices(gpu)) if instance is None or compute is None else [(instance, compute)]
        handed = holders([one.mig_uuid for _, one in there])
        known = {process.pid for process in told}
        return told + [
            _process(pid, 0, gi.gi_id, ci.ci_id) for gi, ci in there for pid in handed[ci.mig_uuid] if pid not in known
        ]

    # -- MIG mode

    @nvml_call
    def nvmlDeviceGetMigMode(self, device: Any) -> list[int]:
        gpu = self.mig_gpu(self.file.read(), device)
        return [int(gpu.current), int(gpu.pending)]

    @nvml_call
    def nvmlDeviceSetMigMode(self, device: Any, mode: int) -> int:
        with self.change(device, "set_mode") as (state, gpu):
            mig_board(state, gpu)
            if bool(mode) == gpu.current:
                gpu.pending = gpu.current
                return Code.SUCCESS
            used = gpu.living() or any(holders([compute.mig_uuid for _, compute in mig_devices(gpu)]).values())
            held = gpu.held or bool(used) or self.node_open(state, gpu)
            if held and state.in_use_by_code:
                raise NVMLError(Code.IN_USE)
            gpu.pending = bool(mode)
            status = Code.IN_USE if held else _ACTIVATION[gpu.activation]
            if status is Code.SUCCESS:
                state.change_mode(gpu)
            return int(status)

    # -- MIG devices

    @nvml_call
    def nvmlDeviceGetMaxMigDeviceCount(self, device: Any) -> int:
        state = self.file.read()
        gpu = self.handles.gpu(state, device)
        return state.board(gpu).compute_slices if gpu.current else 0

    @nvml_call
    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: Any, index: int) -> Any:
        state = self.file.read()
        gpu = self.mig_gpu(state, device)
        if not gpu.current:
            raise NVMLError(Code.NOT_SUPPORTED)
        if not 0 <= index < state.board(gpu).compute_slices:
            raise NVMLError(Code.INVALID_ARGUMENT)
        for instance, compute in mig_devices(gpu):
            if compute.index == index:
                return self.handles.mig_handle(gpu, instance, compute)
        raise NVMLError(Code.NOT_FOUND)

    @nvml_call
    def nvmlDeviceGetGpuInstanceId(self, device: Any) -> int:
        return self.handles.compute(self.file.read(), device, "mig")[1].gi_id

    @nvml_call
    def nvmlDeviceGetComputeInstanceId(self, device: Any) -> int:
        return self.handles.compute(self.file.read(), device, "mig")[2].ci_id

    def mig_gpu(self, state: SimState, device: Any) -> SimGpu:
        """The GPU of a handle, which must be one that has MIG."""
        gpu = self.handles.gpu(state, device)
        mig_board(state, gpu)
        return gpu


def mig_board(state: SimState, gpu: SimGpu) -> Board:
    """The board of a GPU that has MIG; NOT_SUPPORTED for another."""
    board = state.board(gpu)
    if not board.profiles:
        raise NVMLError(Code.NOT_SUPPORTED)
    return board


def mig_devices(gpu: SimGpu) -> Iterator[tuple[SimInstance, SimCompute]]:
    """All compute instances, each a MIG device."""
    for instance in gpu.instances:
        for compute in instance.compute:
            yield instance, compute


def profiles_with_mig_off(state: SimState) -> bool:
    """Whether profile queries answer while MIG mode is off."""
    return state.profiles_with_mig_off and driver_age(state.driver).queries_without_mode


def _guard_parent(state: SimState, gpu: SimGpu, instance: SimInstance | None) -> None:
    """What is of all instances together, only the privileged may know (nvml.h)."""
    if instance is None and gpu.current and state.no_permission:
        raise NVMLError(Code.NO_PERMISSION)


def _process(pid: int, used_mib: int, gi_id: int | None, ci_id: int | None) -> SimpleNamespace:
    return SimpleNamespace(
        pid=pid,
        usedGpuMemory=used_mib * _MIB,
        gpuInstanceId=NO_INSTANCE if gi_id is None else gi_id,
        computeInstanceId=NO_INSTANCE if ci_id is None else ci_id,
    )
