# ruff: noqa: N802, N815, ANN401 -- names and opaque handles are pynvml's
"""A session with the simulated NVML: opened and closed, and how every call meets its planned failures and every change its turn."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from migctl.nvml import simdevices, simfaults, structs
from migctl.nvml.codes import Code
from migctl.nvml.models import BoardSlot
from migctl.nvml.simfaults import NVMLError
from migctl.nvml.simhandles import Handles
from migctl.nvml.simmodel import SimGpu
from migctl.nvml.simstate import SimState, StateFile

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="SimulatedSession")


def nvml_call(function: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """An NVML function: needs nvmlInit, and meets the failures planned for it."""
    nvml_function = function.__name__

    @wraps(function)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._sessions == 0 and nvml_function != "nvmlInit":
            raise NVMLError(Code.UNINITIALIZED)
        state = self.file.read()
        gpu = self._gpu_index(state, args) if state.faults else None
        due = simfaults.count(self.file, nvml_function, gpu, after=False) if state.faults else ()
        simfaults.meet(due)
        if any(fault.effect == "pretend" for fault in due):
            return cast(
                "R", int(Code.SUCCESS)
            )  # only for functions whose result is a return code, see SimState.set_fault
        self._now.misplacing = any(fault.effect == "misplace" for fault in due)
        result = function(self, *args, **kwargs)
        if state.faults:
            simfaults.meet(simfaults.count(self.file, nvml_function, gpu, after=True))
        return result

    return call


class SimulatedSession:
    """What all simulated functions stand on. One object serves one process, from any number of threads."""

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

    @nvml_call
    def nvmlInit(self) -> None:
        state = self.file.read()
        with self._lock:
            self._sessions += 1
            if state.devices and not self._opened:
                self._opened = simdevices.open_nodes(Path(state.devices), [gpu.minor for gpu in state.gpus])

    @nvml_call
    def nvmlShutdown(self) -> None:
        with self._lock:
            self._sessions -= 1
            while self._sessions == 0 and self._opened:
                os.close(self._opened.pop())

    @nvml_call
    def nvmlSystemGetDriverVersion(self) -> str:
        return self.file.read().driver

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

    def node_open(
        self, state: SimState, gpu: SimGpu, gi_id: int | None = None, *ci_ids: int, writing: bool = False
    ) -> bool:
        """Whether another process has the device file of the GPU (`writing`: to compute on it), or of this instance, open."""
        if not state.devices:
            return False
        folder = Path(state.devices)
        if gi_id is None:
            return simdevices.opened([simdevices.gpu_node(folder, gpu.minor)], writing=writing)
        return simdevices.opened([simdevices.instance_node(folder, gpu.minor, gi_id, ci) for ci in (None, *ci_ids)])

    @property
    def misplacing(self) -> bool:
        """Whether the call of this thread is to make its instance elsewhere."""
        return bool(self._now.misplacing)

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
