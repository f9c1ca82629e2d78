# ruff: noqa: N802, N803, N815, ANN401, A002 -- names and opaque handles are pynvml's
"""Simulated power, temperature, clocks and performance counters, refused where hardware has none."""

from __future__ import annotations

import ctypes
import threading
import time
from dataclasses import dataclass
from typing import Any, Final

from migctl.nvml import structs
from migctl.nvml.codes import CLOCK_OF_SMS, GPM_GRAPHICS_UTIL, GPM_VERSION, TEMPERATURE_OF_GPU, Code
from migctl.nvml.simdriver import driver_age
from migctl.nvml.simfaults import NVMLError
from migctl.nvml.simhandles import reachable
from migctl.nvml.simmodel import SimGpu
from migctl.nvml.simsession import SimulatedSession, nvml_call
from migctl.nvml.simstate import SimState

_APART_S: Final = 0.1
"""nvml.h: two samples less than this apart have nothing to tell."""
_WITHOUT_GPM: Final = ("Turing", "Ampere")
_FIRST_BRANCH: Final = 520
"""nvmlGpm… came with R520, the branch of Hopper."""


@dataclass
class _Sample:
    """What a sample's memory holds: of whom, when, and how busy."""

    taken_at: float | None = None
    of: tuple[str, int | None] = ("", None)
    activity: float = 0.0


class SimulatedGauges(SimulatedSession):
    """The functions of `Nvml` that measure."""

    c_nvmlGpmMetricsGet_t = structs.c_nvmlGpmMetricsGet_t

    def _gauge(self, device: Any) -> SimGpu:
        return reachable(self.handles.gpu(self.file.read(), device))

    @nvml_call
    def nvmlDeviceGetPowerUsage(self, handle: Any) -> int:
        return round(self._gauge(handle).power_w * 1000)

    @nvml_call
    def nvmlDeviceGetEnforcedPowerLimit(self, handle: Any) -> int:
        return round(self._gauge(handle).power_limit_w * 1000)

    @nvml_call
    def nvmlDeviceGetTemperature(self, handle: Any, sensor: int) -> int:
        if sensor != TEMPERATURE_OF_GPU:
            raise NVMLError(Code.INVALID_ARGUMENT)
        return self._gauge(handle).temperature_c

    @nvml_call
    def nvmlDeviceGetClockInfo(self, handle: Any, type: int) -> int:
        if type != CLOCK_OF_SMS:
            raise NVMLError(Code.NOT_SUPPORTED)
        return self._gauge(handle).sm_clock_mhz

    @nvml_call
    def nvmlDeviceGetMaxClockInfo(self, handle: Any, type: int) -> int:
        if type != CLOCK_OF_SMS:
            raise NVMLError(Code.NOT_SUPPORTED)
        return self._gauge(handle).sm_clock_max_mhz

    @nvml_call
    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: Any) -> int:
        return self._gauge(handle).throttle_reasons

    @nvml_call
    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> structs.c_nvmlUtilization_t:
        gpu = self._gauge(handle)
        if gpu.current:
            raise NVMLError(Code.NOT_SUPPORTED)  # nvml.h: not with MIG mode on, neither of the GPU nor of an instance
        return structs.c_nvmlUtilization_t(gpu=round(100 * gpu.activity), memory=0)

    # -- performance counters

    @nvml_call
    def nvmlGpmQueryDeviceSupport(self, device: Any) -> structs.c_nvmlGpmSupport_t:
        state = self._with_gpm()
        board = state.board(self.handles.gpu(state, device))
        supported = not board.architecture.startswith(_WITHOUT_GPM)
        return structs.c_nvmlGpmSupport_t(version=GPM_VERSION, isSupportedDevice=int(supported))

    @nvml_call
    def nvmlGpmSampleAlloc(self) -> Any:
        self._with_gpm()
        with self._samples_lock:
            self._samples.append(_Sample())
            return ctypes.cast(ctypes.c_void_p(16 * len(self._samples)), structs.c_nvmlGpmSample_t)

    @nvml_call
    def nvmlGpmSampleFree(self, gpmSample: Any) -> None:
        self._sample(gpmSample).of = ("freed", None)

    @nvml_call
    def nvmlGpmSampleGet(self, device: Any, gpmSample: Any) -> Any:
        state = self._with_gpm()
        gpu, instance, _ = self.handles.device(state, device)
        activity = gpu.activity if instance is None else instance.activity
        self._take(state, gpu, instance.serial if instance is not None else None, activity, gpmSample)
        return gpmSample

    @nvml_call
    def nvmlGpmMigSampleGet(self, device: Any, gpuInstanceId: int, gpmSample: Any) -> Any:
        state = self._with_gpm()
        gpu = self.handles.gpu(state, device)
        instance = gpu.instance(gpuInstanceId)
        if not gpu.current or instance is None:
            raise NVMLError(Code.INVALID_ARGUMENT)
        self._take(state, gpu, instance.serial, instance.activity, gpmSample)
        return gpmSample

    @nvml_call
    def nvmlGpmMetricsGet(self, metricsGet: Any) -> Any:
        self._with_gpm()
        first, second = self._sample(metricsGet.sample1), self._sample(metricsGet.sample2)
        taken = first.taken_at, second.taken_at
        if metricsGet.version != GPM_VERSION or None in taken or first.of != second.of:
            raise NVMLError(Code.INVALID_ARGUMENT)
        if (second.taken_at or 0.0) - (first.taken_at or 0.0) < _APART_S:
            raise NVMLError(Code.INVALID_ARGUMENT)
        for number in range(metricsGet.numMetrics):
            metric = metricsGet.metrics[number]
            known = metric.metricId == GPM_GRAPHICS_UTIL
            metric.nvmlReturn = Code.SUCCESS if known else Code.NOT_SUPPORTED
            metric.value = 50 * (first.activity + second.activity) if known else 0.0
        return metricsGet

    def _with_gpm(self) -> SimState:
        state = self.file.read()
        if driver_age(state.driver).branch < _FIRST_BRANCH:
            raise NVMLError(Code.FUNCTION_NOT_FOUND)
        return state

    def _sample(self, handle: Any) -> _Sample:
        number = structs.address(handle) // 16 - 1
        if not 0 <= number < len(self._samples) or self._samples[number].of[0] == "freed":
            raise NVMLError(Code.INVALID_ARGUMENT)
        return self._samples[number]

    def _take(self, state: SimState, gpu: SimGpu, serial: int | None, activity: float, handle: Any) -> None:
        sample = self._sample(handle)
        if state.board(gpu).architecture.startswith(_WITHOUT_GPM):
            raise NVMLError(Code.NOT_SUPPORTED)
        if state.no_permission:
            raise NVMLError(Code.NO_PERMISSION)  # as with the driver's RestrictProfilingToAdminUsers
        sample.taken_at, sample.of, sample.activity = time.monotonic(), (gpu.uuid, serial), activity

    @property
    def _samples(self) -> list[_Sample]:
        found: list[_Sample] = self.__dict__.setdefault("_samples_taken", [])
        return found

    @property
    def _samples_lock(self) -> threading.Lock:
        return self._lock
