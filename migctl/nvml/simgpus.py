# ruff: noqa: N802, N803, N815, ANN401 -- names and opaque handles are pynvml's
"""Simulated NVML, first half: sessions, GPUs, MIG mode and MIG devices, and how every call meets its planned failures."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

from migctl.core.mig import Profile
from migctl.nvml import simdevices, simfaults, simrules, structs
from migctl.nvml.codes import FIELD_MIG_QUERIES_WITHOUT_MODE, FIELD_RESETLESS_MIG, NO_INSTANCE, Code
from migctl.nvml.models import Board, BoardSlot, resolve_board
from migctl.nvml.simfaults import NVMLError
from migctl.nvml.simhandles import Handles, reachable
from migctl.nvml.simmodel import SimCompute, SimGpu, SimInstance
from migctl.nvml.simstate import SimState, StateFile

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="SimulatedGpus")

_MIB: Final = 1 << 20
_ACTIVATION: Final = {
    "immediate": Code.SUCCESS,
    "in-use": Code.IN_USE,
    "reset-required": Code.RESET_REQUIRED,
    "not-supported": Code.NOT_SUPPORTED,
}


def nvml_call(function: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """An NVML function: needs nvmlInit, and meets the failures planned for it."""
    nvml_function = function.__name__

    @wraps(function)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._sessions == 0 and nvml_function != "nvmlInit":
            raise NVMLError(Code.UNINITIALIZED)
        state = self.file.read()
        due = simfaults.count(self.file, nvml_function, self._gpu_index(state, args)) if state.faults else ()
        simfaults.meet(due, after=False)
        if any(fault.effect == "pretend" for fault in due):
            return cast(
                "R", int(Code.SUCCESS)
            )  # only for functions whose result is a return code, see SimState.set_fault
        self._now.misplacing = any(fault.effect == "misplace" for fault in due)
        result = function(self, *args, **kwargs)
        simfaults.meet(due, after=True)
        return result

    return call


class SimulatedGpus:
    """Implements `Nvml`. Its state lies in a file; one object serves one process, from any number of threads."""

    NVMLError: type[Exception] = simfaults.NVMLError
    c_nvmlGpuInstancePlacement_t = structs.c_nvmlGpuInstancePlacement_t
    c_nvmlGpuInstance_t = structs.c_nvmlGpuInstance_t
    c_nvmlComputeInstance_t = structs.c_nvmlComputeInstance_t

    def __init__(self, slots: Sequence[BoardSlot], path: Path) -> None:
        self.file = StateFile(path, slots)
        self._sessions = 0
        self._now = threading.local()
        """What the call of this thread is to do otherwise: `misplacing`."""
        self._lock = threading.Lock()
        self._busy: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self.handles = Handles()
        self._opened: list[int] = []
        """Device files, open while a session is: as long as NVML is used, its user holds the GPUs."""

    @property
    def boot_id(self) -> str:
        """Boot id of the simulated machine."""
        return self.file.read().boot_id

    # -- sessions and GPUs

    @nvml_call
    def nvmlInit(self) -> None:
        state = self.file.read()
        with self._lock:
            self._sessions += 1
            if state.devices and not self._opened:
                self._opened = simdevices.open_nodes(Path(state.devices), len(state.gpus))

    @nvml_call
    def nvmlShutdown(self) -> None:
        with self._lock:
            self._sessions -= 1
            while self._sessions == 0 and self._opened:
                os.close(self._opened.pop())

    @nvml_call
    def nvmlSystemGetDriverVersion(self) -> str:
        return self.file.read().driver

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
            for instance, compute in _mig_devices(gpu):
                if simrules.mig_uuid(gpu.uuid, instance.gi_id, compute.ci_id) == uuid:
                    return self.handles.mig_handle(gpu, instance, compute)
        raise NVMLError(Code.NOT_FOUND)

    @nvml_call
    def nvmlDeviceGetUUID(self, handle: Any) -> str:
        gpu, instance, compute = self.handles.device(self.file.read(), handle)
        return (
            gpu.uuid
            if instance is None or compute is None
            else simrules.mig_uuid(gpu.uuid, instance.gi_id, compute.ci_id)
        )

    @nvml_call
    def nvmlDeviceGetName(self, handle: Any) -> str:
        gpu, instance, compute = self.handles.device(self.file.read(), handle)
        board = resolve_board(gpu.board)
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
        state = self.file.read()
        return state.gpus.index(self.handles.gpu(state, handle))

    @nvml_call
    def nvmlDeviceGetMemoryInfo(self, handle: Any, version: int | None = None) -> structs.c_nvmlMemory_t:
        if version is not None:
            raise NVMLError(Code.FUNCTION_NOT_FOUND)
        gpu, instance, _ = self.handles.device(self.file.read(), handle)
        board = resolve_board(gpu.board)
        total = board.memory_mib if instance is None else profile_of(board, instance).memory_mib
        used = min(total, sum(process.used_mib for process in gpu.living(None if instance is None else instance.gi_id)))
        return structs.c_nvmlMemory_t(total=total * _MIB, free=(total - used) * _MIB, used=used * _MIB)

    @nvml_call
    def nvmlDeviceGetFieldValues(self, handle: Any, fieldIds: list[int]) -> Any:
        state = self.file.read()
        board = resolve_board(self.handles.gpu(state, handle).board)
        known = {FIELD_RESETLESS_MIG: board.resetless_mig, FIELD_MIG_QUERIES_WITHOUT_MODE: state.profiles_with_mig_off}
        values = (structs.c_nvmlFieldValue_t * len(fieldIds))()
        for value, wanted in zip(values, fieldIds, strict=True):
            value.fieldId = wanted
            value.nvmlReturn = Code.SUCCESS if board.profiles and wanted in known else Code.NOT_SUPPORTED
            value.value.uiVal = int(known.get(wanted, 0))
        return values

    @nvml_call
    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle: Any) -> list[Any]:
        gpu, instance, compute = self.handles.device(self.file.read(), handle)
        if instance is None and gpu.current and self.file.read().no_permission:
            raise NVMLError(Code.NO_PERMISSION)
        return [
            SimpleNamespace(
                pid=process.pid,
                usedGpuMemory=process.used_mib * _MIB,
                gpuInstanceId=NO_INSTANCE if process.gi_id is None else process.gi_id,
                computeInstanceId=NO_INSTANCE if process.gi_id is None else (compute.ci_id if compute else 0),
            )
            for process in gpu.living(None if instance is None else instance.gi_id)
        ]

    # -- MIG mode

    @nvml_call
    def nvmlDeviceGetMigMode(self, device: Any) -> list[int]:
        gpu = self.mig_gpu(self.file.read(), device)
        return [int(gpu.current), int(gpu.pending)]

    @nvml_call
    def nvmlDeviceSetMigMode(self, device: Any, mode: int) -> int:
        with self.change(device, "set_mode") as (state, gpu):
            mig_board(gpu)
            gpu.pending = bool(mode)
            if gpu.pending == gpu.current:
                return Code.SUCCESS
            held = gpu.held or bool(gpu.living()) or self.node_open(state, gpu)
            status = Code.IN_USE if held else _ACTIVATION[gpu.activation]
            if status is Code.SUCCESS:
                gpu.apply_pending()
            return int(status)

    # -- MIG devices

    @nvml_call
    def nvmlDeviceGetMaxMigDeviceCount(self, device: Any) -> int:
        gpu = self.handles.gpu(self.file.read(), device)
        return resolve_board(gpu.board).compute_slices if gpu.current else 0

    @nvml_call
    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: Any, index: int) -> Any:
        gpu = self.mig_gpu(self.file.read(), device)
        for instance, compute in _mig_devices(gpu):
            if compute.index == index:
                return self.handles.mig_handle(gpu, instance, compute)
        raise NVMLError(Code.NOT_FOUND)

    @nvml_call
    def nvmlDeviceGetGpuInstanceId(self, device: Any) -> int:
        return self.handles.compute(self.file.read(), device, "mig")[1].gi_id

    @nvml_call
    def nvmlDeviceGetComputeInstanceId(self, device: Any) -> int:
        return self.handles.compute(self.file.read(), device, "mig")[2].ci_id

    # -- inside

    @contextmanager
    def change(self, handle: Any, kind: str) -> Iterator[tuple[SimState, SimGpu]]:
        """Change the state: rights first, then the time it takes (one change of a GPU after the other), then the effect."""
        state = self.file.read()
        gpu = self.handles.gpu(state, handle)
        if state.no_permission:
            raise NVMLError(Code.NO_PERMISSION)
        with self._lock:
            busy = self._busy[gpu.uuid]
        with busy:
            if delay_s := state.delays_s.get(kind, 0):
                time.sleep(delay_s)
            with self.file.edit() as state:
                yield state, self.handles.gpu(state, handle)

    def node_open(self, state: SimState, gpu: SimGpu, gi_id: int | None = None, *ci_ids: int) -> bool:
        """Whether another process has the device file of the GPU, or of this instance of it, open."""
        if not state.devices:
            return False
        folder, index = Path(state.devices), state.gpus.index(gpu)
        if gi_id is None:
            return simdevices.opened([simdevices.gpu_node(folder, index)])
        return simdevices.opened([simdevices.instance_node(folder, index, gi_id, ci) for ci in (None, *ci_ids)])

    def mig_gpu(self, state: SimState, device: Any) -> SimGpu:
        gpu = self.handles.gpu(state, device)
        mig_board(gpu)
        return gpu

    def _gpu_index(self, state: SimState, args: tuple[object, ...]) -> int | None:
        """Which GPU a call is about, from its first argument: an index, a UUID or a handle."""
        match args:
            case (int(index), *_):
                return index
            case (str(uuid), *_):
                wanted = uuid
            case (handle, *_):
                wanted = self.handles.key(handle).gpu_uuid
            case _:
                return None
        return next((i for i, gpu in enumerate(state.gpus) if gpu.uuid == wanted), None)


def mig_board(gpu: SimGpu) -> Board:
    board = resolve_board(gpu.board)
    if not board.profiles:
        raise NVMLError(Code.NOT_SUPPORTED)
    return board


def profile_of(board: Board, instance: SimInstance) -> Profile:
    found = board.profile(instance.profile_id)
    assert found is not None  # checked when the file was read
    return found


def _mig_devices(gpu: SimGpu) -> Iterator[tuple[SimInstance, SimCompute]]:
    for instance in gpu.instances:
        for compute in instance.compute:
            yield instance, compute
