# ruff: noqa: ANN401 -- structs come from pynvml, which has no types
"""What NVML tells about one GPU, as values; nothing here changes anything."""

from __future__ import annotations

import re
from ctypes import byref, c_uint
from typing import Any, Final

from migctl.core.gpu.mig import ComputeSlices, Gpu, GpuProcess, MemorySlices, MigMode, Placement, Profile, profile_order
from migctl.nvml.api import Handle, Nvml
from migctl.nvml.codes import FIELD_RESETLESS_MIG, NO_INSTANCE, PROFILE_LIMIT, Code, code_of
from migctl.nvml.listing import NEEDS_ROOT, WITHOUT_NAMES, Known, list_instances, mig_devices, text
from migctl.nvml.plausible import MOST_OF_ONE_GPU, Implausible, bounded, checked

_MIB: Final = 1 << 20
_BUS_ID: Final = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")
_NO_SUCH_VALUE: Final = (
    Code.NOT_SUPPORTED,
    Code.NO_PERMISSION,
    Code.FUNCTION_NOT_FOUND,
    Code.ARGUMENT_VERSION_MISMATCH,
)
"""Answers that leave one value unknown; any other error makes the GPU unreadable."""


def read_gpu(nvml: Nvml, handle: Handle, index: int, uuid: str, known: Known) -> Gpu:
    """Everything about one GPU.

    Raises:
        NVMLError: the GPU does not answer the questions that every GPU answers.
        Implausible: it answers what cannot be.
    """
    mig = read_mode(nvml, handle)
    profiles = known.profiles.get(uuid, ()) if mig else ()
    if mig and not profiles:
        profiles = known.profiles[uuid] = read_profiles(nvml, handle)
    instances, gap = list_instances(nvml, handle, uuid, known) if mig and mig.current else ((), None)
    processes, processes_reason = _processes(nvml, handle, mig)
    gpu = Gpu(
        index=index,
        uuid=uuid,
        name=text(nvml.nvmlDeviceGetName(handle)),
        pci_bus_id=sysfs_address(text(nvml.nvmlDeviceGetPciInfo(handle).busId)),
        minor=_minor(nvml, handle),
        memory_mib=_memory_mib(nvml, handle, profiles),
        mig=mig,
        resetless_mig=_resetless(nvml, handle) if mig else None,
        profiles=profiles,
        instances=instances,
        instances_reason=gap.reason if gap is not None else None,
        instances_doubtful=gap is not None and not gap.rights,
        processes=processes,
        processes_reason=processes_reason,
    )
    return checked(gpu)


def read_mode(nvml: Nvml, handle: Handle) -> MigMode | None:
    """Current and pending MIG mode; `None`: the driver says that this product has no MIG, or is older than MIG."""
    try:
        current, pending = nvml.nvmlDeviceGetMigMode(handle)
    except nvml.NVMLError as error:
        if code_of(error) in (Code.NOT_SUPPORTED, Code.FUNCTION_NOT_FOUND):
            return None
        raise
    return MigMode(current=current == 1, pending=pending == 1)


def read_profiles(nvml: Nvml, handle: Handle) -> tuple[Profile, ...]:
    """The GPU instance profiles that the driver offers; none where it answers only with MIG mode on."""
    offered: list[tuple[int, Any, tuple[Placement, ...]]] = []
    for index in range(PROFILE_LIMIT):
        try:
            info = _profile_info(nvml, handle, index)
        except nvml.NVMLError as error:
            match code_of(error):
                case Code.NOT_SUPPORTED:
                    continue
                case Code.INVALID_ARGUMENT | Code.FUNCTION_NOT_FOUND:
                    break
                case _:
                    raise
        if placements := _placements(nvml, handle, info.id):
            offered.append((index, info, placements))
    nameless = any(not _name(info) for _, info, _ in offered)
    largest_mib = max((info.memorySizeMB for _, info, _ in offered), default=0)
    total_mib = _whole_memory_mib(nvml, handle, largest_mib) if nameless else 0
    found = [
        Profile(
            name=_name(info) or unnamed_profile(index, info.sliceCount, info.memorySizeMB, total_mib),
            index=index,
            id=info.id,
            compute_slices=ComputeSlices(info.sliceCount),
            memory_mib=info.memorySizeMB,
            multiprocessors=info.multiprocessorCount,
            max_instances=info.instanceCount,
            placements=placements,
        )
        for index, info, placements in offered
    ]
    return tuple(sorted(found, key=profile_order))


def sysfs_address(bus_id: str) -> str:
    """NVML's `00000000:3B:00.0` as sysfs writes it: `0000:3b:00.0`."""
    found = _BUS_ID.fullmatch(bus_id.lower())
    if found is None:
        raise Implausible(f"the PCI address {bus_id[:40]!r}")
    return f"{int(found[1], 16):04x}:{found[2]}"


def _processes(nvml: Nvml, handle: Handle, mig: MigMode | None) -> tuple[tuple[GpuProcess, ...], str | None]:
    try:
        return tuple(_process(p) for p in nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)), None
    except nvml.NVMLError as error:
        if code_of(error) not in _NO_SUCH_VALUE:
            raise
        code = code_of(error)
    if mig is None or not mig.current or code != Code.NO_PERMISSION:
        return (), NEEDS_ROOT if code == Code.NO_PERMISSION else "the driver does not tell"
    try:
        return tuple(
            _process(p) for d in mig_devices(nvml, handle) for p in nvml.nvmlDeviceGetComputeRunningProcesses_v3(d)
        ), None
    except nvml.NVMLError as error:
        if code_of(error) not in _NO_SUCH_VALUE:
            raise
        return (), NEEDS_ROOT


def _process(info: Any) -> GpuProcess:
    used = info.usedGpuMemory
    return GpuProcess(
        pid=info.pid,
        gi_id=None if info.gpuInstanceId == NO_INSTANCE else info.gpuInstanceId,
        used_memory_mib=None if used is None else used // _MIB,
    )


def _profile_info(nvml: Nvml, handle: Handle, index: int) -> Any:
    try:
        return nvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, index)
    except nvml.NVMLError as error:
        # every driver knows index 0: refused as an argument, it is the query's version that the driver does not know
        if code_of(error) not in WITHOUT_NAMES and not (index == 0 and code_of(error) == Code.INVALID_ARGUMENT):
            raise
        return nvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, index, version=1)


def _name(info: Any) -> str:
    return text(getattr(info, "name", "")).removeprefix("MIG ")


def unnamed_profile(index: int, slices: int, memory_mib: int, total_mib: int) -> str:
    """The name of a profile where the driver (before R510) gives none, as nvidia-smi wrote it: eighths of the GPU's memory."""
    eighths = -(-8 * memory_mib // total_mib) if total_mib else 8
    gigabytes = round(eighths / 8 * -(-total_mib // 1024))
    return f"{slices}g.{gigabytes}gb" + ("+me" if index in (7, 8) else "")


def _placements(nvml: Nvml, handle: Handle, profile_id: int) -> tuple[Placement, ...]:
    """Where a profile can lie; nowhere, if the driver does not tell."""
    count = c_uint()
    try:
        nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile_id, None, byref(count))
        room = (nvml.c_nvmlGpuInstancePlacement_t * max(1, _placed(count.value)))()
        nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile_id, room, byref(count))
        bounded(count.value, len(room), "placements")
    except nvml.NVMLError as error:
        if code_of(error) not in (*_NO_SUCH_VALUE, Code.INVALID_ARGUMENT):
            raise
        return ()
    return tuple(sorted(Placement(room[i].start, MemorySlices(room[i].size)) for i in range(count.value)))


def _placed(count: int) -> int:
    return bounded(count, MOST_OF_ONE_GPU, "placements")


def _memory_mib(nvml: Nvml, handle: Handle, profiles: tuple[Profile, ...]) -> int:
    """Memory of the whole GPU; of its largest profile where only root may know."""
    largest_mib = max((profile.memory_mib for profile in profiles), default=0)
    return _told_memory_mib(nvml, handle) or largest_mib


def _whole_memory_mib(nvml: Nvml, handle: Handle, largest_mib: int) -> int:
    """The same as the whole GPU was sold: the largest profile is it less 2 %, and products come in eighths of whole GiB."""
    return _told_memory_mib(nvml, handle) or -(-largest_mib // 8192) * 8192


def _told_memory_mib(nvml: Nvml, handle: Handle) -> int | None:
    try:
        return int(nvml.nvmlDeviceGetMemoryInfo(handle).total) // _MIB
    except nvml.NVMLError as error:
        if code_of(error) not in _NO_SUCH_VALUE:
            raise
        return None


def _minor(nvml: Nvml, handle: Handle) -> int | None:
    try:
        return nvml.nvmlDeviceGetMinorNumber(handle)
    except nvml.NVMLError as error:
        if code_of(error) not in _NO_SUCH_VALUE:
            raise
        return None


def _resetless(nvml: Nvml, handle: Handle) -> bool | None:
    try:
        (value,) = nvml.nvmlDeviceGetFieldValues(handle, [FIELD_RESETLESS_MIG])
    except nvml.NVMLError as error:
        if code_of(error) not in (*_NO_SUCH_VALUE, Code.INVALID_ARGUMENT):
            raise
        return None
    return bool(value.value.uiVal) if value.nvmlReturn == Code.SUCCESS else None
