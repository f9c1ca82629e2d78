"""What GPUs and their instances do at this moment: memory, activity, power, temperature and clocks, each figure by itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from migctl.core.gpu.mig import Gpu, Instance
from migctl.core.seeing.readings import GpuReading, InstanceReading
from migctl.errors import MigctlError
from migctl.nvml.api import Handle, Nvml
from migctl.nvml.codes import (
    CLOCK_OF_SMS,
    GPM_GRAPHICS_UTIL,
    GPM_VERSION,
    SLOWING,
    TEMPERATURE_OF_GPU,
    Code,
    code_name,
    code_of,
)
from migctl.nvml.driver import ANSWER_TIMEOUT_S, Driver

R = TypeVar("R")

APART_S: Final = 0.25
"""Between the two samples of the performance counters; nvml.h asks for more than 0.1 s."""
NO_COUNTERS: Final = "this GPU has no performance counters that NVML reads (before Hopper); DCGM has"
_MIB: Final = 1 << 20


def read_gauges(
    driver: Driver, now: Callable[[], float] = time.time, pause: Callable[[float], None] = time.sleep
) -> tuple[GpuReading, ...]:
    """Every GPU that answers, side by side; takes `APART_S` where there are counters. What one GPU does not tell is unknown.

    Raises:
        MigctlError: the driver does not even count its GPUs.
    """
    gpus = driver.gpus()
    found: dict[str, GpuReading] = {}

    def look(gpu: Gpu) -> None:
        try:
            found[gpu.uuid] = _reading(driver, gpu, now, pause)
        except MigctlError as error:
            found[gpu.uuid] = GpuReading(
                at_s=now(), uuid=gpu.uuid, index=gpu.index, name=gpu.name, unknown={"gpu": error.message}
            )

    # a thread each, which a call that never returns keeps and not the others
    threads = [threading.Thread(target=look, args=(gpu,), daemon=True) for gpu in gpus]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    silent = "it does not answer"
    return tuple(
        found.get(g.uuid, GpuReading(at_s=now(), uuid=g.uuid, index=g.index, name=g.name, unknown={"gpu": silent}))
        for g in gpus
    )


@dataclass
class _Figures:
    """Figures of one GPU as they are asked for; what is refused is noted with its reason."""

    driver: Driver
    uuid: str
    unknown: dict[str, str] = field(default_factory=dict)

    def ask(self, name: str, question: Callable[[Nvml, Handle], R]) -> R | None:
        """The answer, or `None`."""

        def asked(nvml: Nvml, handle: Handle) -> R | str:
            try:
                return question(nvml, handle)
            except nvml.NVMLError as error:
                if code_of(error) in (Code.GPU_IS_LOST, Code.UNINITIALIZED):
                    raise
                return _Refusal(_why(code_of(error)))

        answer = self.driver.ask("reading its gauges", self.uuid, asked)
        if isinstance(answer, _Refusal):
            self.unknown[name] = answer
            return None
        return answer  # type: ignore[return-value]  # no question of ours answers with a refusal


class _Refusal(str):
    """Why a figure is not to be had."""

    __slots__ = ()


def _why(code: int) -> str:
    match code:
        case Code.NO_PERMISSION:
            return "needs root"
        case Code.NOT_SUPPORTED:
            return "this GPU or mode does not tell"
        case Code.FUNCTION_NOT_FOUND | Code.ARGUMENT_VERSION_MISMATCH:
            return "this driver is too old to tell"
        case _:
            return f"the driver answers {code_name(code)}"


def _reading(driver: Driver, gpu: Gpu, now: Callable[[], float], pause: Callable[[float], None]) -> GpuReading:
    figures = _Figures(driver, gpu.uuid)
    milliwatts = figures.ask("power_w", lambda nvml, handle: nvml.nvmlDeviceGetPowerUsage(handle))
    limit = figures.ask("power_limit_w", lambda nvml, handle: nvml.nvmlDeviceGetEnforcedPowerLimit(handle))
    reasons = figures.ask("throttles", lambda nvml, handle: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
    at_s = now()
    return GpuReading(
        at_s=at_s,
        uuid=gpu.uuid,
        index=gpu.index,
        name=gpu.name,
        power_w=milliwatts / 1000 if milliwatts is not None else None,
        power_limit_w=limit / 1000 if limit is not None else None,
        temperature_c=figures.ask(
            "temperature_c", lambda nvml, handle: nvml.nvmlDeviceGetTemperature(handle, TEMPERATURE_OF_GPU)
        ),
        sm_clock_mhz=figures.ask(
            "sm_clock_mhz", lambda nvml, handle: nvml.nvmlDeviceGetClockInfo(handle, CLOCK_OF_SMS)
        ),
        sm_clock_max_mhz=figures.ask(
            "sm_clock_max_mhz", lambda nvml, handle: nvml.nvmlDeviceGetMaxClockInfo(handle, CLOCK_OF_SMS)
        ),
        throttles=None
        if reasons is None
        else tuple(dict.fromkeys(word for bit, word in SLOWING.items() if reasons & bit)),
        instances=_instances(driver, gpu, at_s, pause),
        unknown=figures.unknown,
    )


def _instances(driver: Driver, gpu: Gpu, at_s: float, pause: Callable[[float], None]) -> tuple[InstanceReading, ...]:
    if gpu.mig is not None and gpu.mig.current:
        found = [_instance(driver, gpu, instance, at_s) for instance in gpu.instances]
    else:
        found = [_whole(driver, gpu, at_s)]
    return tuple(_with_activity(driver, gpu, found, pause))


def _instance(driver: Driver, gpu: Gpu, instance: Instance, at_s: float) -> InstanceReading:
    unknown: dict[str, str] = {}
    mig_uuid = instance.compute_instances[0].mig_uuid if instance.compute_instances else None
    memory = driver.device_memory(mig_uuid) if mig_uuid is not None else None
    if memory is None:
        why = "it has no compute instance" if mig_uuid is None else "the driver does not tell"
        unknown |= {"memory_used_mib": why, "memory_total_mib": why}
    if gpu.processes_reason is not None:
        unknown["pids"] = gpu.processes_reason
    return InstanceReading(
        at_s=at_s,
        gpu_uuid=gpu.uuid,
        gi_id=instance.gi_id,
        mig_uuid=mig_uuid,
        profile=instance.profile,
        memory_used_mib=memory[0] if memory else None,
        memory_total_mib=memory[1] if memory else None,
        pids=None
        if gpu.processes_reason is not None
        else tuple(p.pid for p in gpu.processes if p.gi_id == instance.gi_id),
        unknown=unknown,
    )


def _whole(driver: Driver, gpu: Gpu, at_s: float) -> InstanceReading:
    figures = _Figures(driver, gpu.uuid)
    memory = figures.ask("memory_used_mib", lambda nvml, handle: nvml.nvmlDeviceGetMemoryInfo(handle))
    percent = figures.ask("activity_share", lambda nvml, handle: int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu))
    if gpu.processes_reason is not None:
        figures.unknown["pids"] = gpu.processes_reason
    return InstanceReading(
        at_s=at_s,
        gpu_uuid=gpu.uuid,
        memory_used_mib=int(memory.used) // _MIB if memory is not None else None,
        memory_total_mib=int(memory.total) // _MIB if memory is not None else None,
        activity_share=percent / 100 if percent is not None else None,
        activity_source="NVML" if percent is not None else "",
        pids=None if gpu.processes_reason is not None else tuple(p.pid for p in gpu.processes),
        unknown=figures.unknown,
    )


def _with_activity(
    driver: Driver, gpu: Gpu, found: Sequence[InstanceReading], pause: Callable[[float], None]
) -> list[InstanceReading]:
    """The same with what the performance counters tell, between two samples of each."""
    figures = _Figures(driver, gpu.uuid)
    support = figures.ask("support", lambda nvml, handle: int(nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice))
    if not support:
        why = figures.unknown.get("support", NO_COUNTERS)
        return [
            one if one.activity_share is not None else replace(one, unknown={**one.unknown, "activity_share": why})
            for one in found
        ]
    before = [_sample(figures, one.gi_id) for one in found]
    pause(APART_S)
    after = [_sample(figures, one.gi_id) for one in found]
    answers: list[InstanceReading] = []
    for one, first, second in zip(found, before, after, strict=True):
        percent = _between(figures, first, second) if first is not None and second is not None else None
        if percent is not None:
            rest = {name: why for name, why in one.unknown.items() if name != "activity_share"}
            answers.append(replace(one, activity_share=percent / 100, activity_source="GPM", unknown=rest))
        elif one.activity_share is None:
            why = figures.unknown.get("activity_share", "the driver does not tell")
            answers.append(replace(one, unknown={**one.unknown, "activity_share": why}))
        else:
            answers.append(one)
    for sample in (*before, *after):
        if sample is not None:
            _free(figures, sample)
    return answers


def _sample(figures: _Figures, gi_id: int | None) -> Handle | None:
    def take(nvml: Nvml, handle: Handle) -> Handle:
        sample = nvml.nvmlGpmSampleAlloc()
        try:
            if gi_id is None:
                nvml.nvmlGpmSampleGet(handle, sample)
            else:
                nvml.nvmlGpmMigSampleGet(handle, gi_id, sample)
        except nvml.NVMLError:
            nvml.nvmlGpmSampleFree(sample)
            raise
        return sample

    return figures.ask("activity_share", take)


def _free(figures: _Figures, sample: Handle) -> None:
    figures.ask("free", lambda nvml, _: nvml.nvmlGpmSampleFree(sample))


def _between(figures: _Figures, first: Handle, second: Handle) -> float | None:
    def ask(nvml: Nvml, _: Handle) -> float | None:
        wanted = nvml.c_nvmlGpmMetricsGet_t()
        wanted.version, wanted.numMetrics = GPM_VERSION, 1
        wanted.sample1, wanted.sample2 = first, second
        wanted.metrics[0].metricId = GPM_GRAPHICS_UTIL
        answer = nvml.nvmlGpmMetricsGet(wanted).metrics[0]
        return min(100.0, max(0.0, float(answer.value))) if answer.nvmlReturn == Code.SUCCESS else None

    return figures.ask("activity_share", ask)
