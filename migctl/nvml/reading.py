# ruff: noqa: ANN401 -- structs come from pynvml, which has no types
"""What NVML tells about one GPU, as values; nothing here changes anything."""

from __future__ import annotations

from ctypes import byref, c_uint
from dataclasses import dataclass, field
from typing import Any, Final

from migctl.core.mig import (
    UNKNOWN_PLACEMENT,
    ComputeInstance,
    ComputeSlices,
    Gpu,
    GpuProcess,
    Instance,
    MemorySlices,
    MigMode,
    Placement,
    Profile,
    profile_order,
)
from migctl.nvml.api import Handle, Nvml
from migctl.nvml.codes import ENGINE_PROFILE_SHARED, FIELD_RESETLESS_MIG, NO_INSTANCE, PROFILE_LIMIT, Code, code_of

_MIB: Final = 1 << 20
_NEEDS_ROOT: Final = "needs root"
_NO_SUCH_VALUE: Final = (
    Code.NOT_SUPPORTED,
    Code.NO_PERMISSION,
    Code.FUNCTION_NOT_FOUND,
    Code.ARGUMENT_VERSION_MISMATCH,
)
"""Answers that leave one value unknown; any other error makes the GPU unreadable."""


@dataclass(frozen=True, slots=True)
class ComputeProfile:
    """A compute instance profile of one GPU instance profile; `id` differs from the index it was asked by."""

    index: int
    id: int
    slices: int
    multiprocessors: int
    max_instances: int


@dataclass(slots=True)
class Known:
    """What stays true while the driver runs, kept for one session: profiles by GPU UUID."""

    profiles: dict[str, tuple[Profile, ...]] = field(default_factory=dict)
    compute: dict[tuple[str, int], tuple[ComputeProfile, ...]] = field(default_factory=dict)
    """By GPU UUID and GPU instance profile id."""


def read_gpu(nvml: Nvml, handle: Handle, index: int, uuid: str, known: Known) -> Gpu:
    """Everything about one GPU.

    Raises:
        NVMLError: the GPU does not answer the questions that every GPU answers.
    """
    mig = read_mode(nvml, handle)
    profiles = known.profiles.get(uuid, ()) if mig else ()
    if mig and not profiles:
        profiles = known.profiles[uuid] = read_profiles(nvml, handle)
    instances, instances_reason = _instances(nvml, handle, uuid, known) if mig and mig.current else ((), None)
    processes, processes_reason = _processes(nvml, handle, mig)
    return Gpu(
        index=index,
        uuid=uuid,
        name=_text(nvml.nvmlDeviceGetName(handle)),
        pci_bus_id=sysfs_address(_text(nvml.nvmlDeviceGetPciInfo(handle).busId)),
        minor=_minor(nvml, handle),
        memory_mib=_memory_mib(nvml, handle, profiles),
        mig=mig,
        resetless_mig=_resetless(nvml, handle) if mig else None,
        profiles=profiles,
        instances=instances,
        instances_reason=instances_reason,
        processes=processes,
        processes_reason=processes_reason,
    )


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
    profiles: list[Profile] = []
    for index in range(PROFILE_LIMIT):
        try:
            info = _profile_info(nvml, handle, index)
            placements = _placements(nvml, handle, info.id)
        except nvml.NVMLError as error:
            match code_of(error):
                case Code.NOT_SUPPORTED:
                    continue
                case Code.INVALID_ARGUMENT | Code.FUNCTION_NOT_FOUND:
                    break
                case _:
                    raise
        if placements:
            profiles.append(
                Profile(
                    name=_profile_name(nvml, handle, info, index),
                    index=index,
                    id=info.id,
                    compute_slices=ComputeSlices(info.sliceCount),
                    memory_mib=info.memorySizeMB,
                    multiprocessors=info.multiprocessorCount,
                    max_instances=info.instanceCount,
                    placements=placements,
                )
            )
    return tuple(sorted(profiles, key=profile_order))


def read_instances(nvml: Nvml, handle: Handle, uuid: str, known: Known) -> tuple[Instance, ...]:
    """All GPU instances, also those without a compute instance.

    Raises:
        NVMLError: NO_PERMISSION without root or the mig/config capability.
    """
    found: list[Instance] = []
    for profile in known.profiles[uuid]:
        room, count = (nvml.c_nvmlGpuInstance_t * max(1, profile.max_instances))(), c_uint()
        try:
            nvml.nvmlDeviceGetGpuInstances(handle, profile.id, room, byref(count))
        except nvml.NVMLError as error:
            if code_of(error) == Code.NOT_SUPPORTED:
                continue
            raise
        for i in range(count.value):
            info = nvml.nvmlGpuInstanceGetInfo(room[i])
            found.append(
                Instance(
                    gpu_uuid=uuid,
                    gi_id=info.id,
                    profile_id=info.profileId,
                    profile=profile.name,
                    placement=Placement(info.placement.start, MemorySlices(info.placement.size)),
                    compute_instances=_compute_instances(nvml, room[i], uuid, profile.id, known),
                )
            )
    return tuple(sorted(found, key=lambda instance: instance.gi_id))


def compute_profiles(
    nvml: Nvml, instance: Handle, uuid: str, profile_id: int, known: Known
) -> tuple[ComputeProfile, ...]:
    """The compute instance profiles of a GPU instance, by asking it."""
    key = (uuid, profile_id)
    if key not in known.compute:
        found: list[ComputeProfile] = []
        for index in range(PROFILE_LIMIT):
            try:
                info = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, index, ENGINE_PROFILE_SHARED)
            except nvml.NVMLError as error:
                match code_of(error):
                    case Code.NOT_SUPPORTED:
                        continue
                    case Code.INVALID_ARGUMENT:
                        break
                    case _:
                        raise
            found.append(ComputeProfile(index, info.id, info.sliceCount, info.multiprocessorCount, info.instanceCount))
        known.compute[key] = tuple(found)
    return known.compute[key]


def whole_compute_profile(profiles: tuple[ComputeProfile, ...], slices: int) -> ComputeProfile | None:
    """The compute instance that takes all of a GPU instance of so many compute slices.

    Several can have that slice count: on a REV2 instance the driver's own default is 1_SLICE_REV1 (seen on GH200), which alone
    has all its SMs. So the most SMs count, then the lowest index (7_SLICE before 7_SLICE_NVL).
    """
    fitting = [profile for profile in profiles if profile.slices == slices]
    return max(fitting, key=lambda profile: (profile.multiprocessors, -profile.index), default=None)


def compute_instance(nvml: Nvml, handle: Handle) -> ComputeInstance:
    """A compute instance and its MIG UUID, straight from its handle."""
    info = nvml.nvmlComputeInstanceGetInfo_v2(handle)
    return ComputeInstance(info.id, _text(nvml.nvmlDeviceGetUUID(info.device)))


def sysfs_address(bus_id: str) -> str:
    """NVML's `00000000:3B:00.0` as sysfs writes it: `0000:3b:00.0`."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def _compute_instances(
    nvml: Nvml, instance: Handle, uuid: str, profile_id: int, known: Known
) -> tuple[ComputeInstance, ...]:
    found: list[ComputeInstance] = []
    for profile in compute_profiles(nvml, instance, uuid, profile_id, known):
        room, count = (nvml.c_nvmlComputeInstance_t * max(1, profile.max_instances))(), c_uint()
        nvml.nvmlGpuInstanceGetComputeInstances(instance, profile.id, room, byref(count))
        found += [compute_instance(nvml, room[i]) for i in range(count.value)]
    return tuple(sorted(found, key=lambda compute: compute.ci_id))


def _instances(nvml: Nvml, handle: Handle, uuid: str, known: Known) -> tuple[tuple[Instance, ...], str | None]:
    try:
        return read_instances(nvml, handle, uuid, known), None
    except nvml.NVMLError as error:
        if code_of(error) != Code.NO_PERMISSION:
            raise
    by_id: dict[int, Instance] = {}
    for device in _mig_devices(nvml, handle):
        gi_id = nvml.nvmlDeviceGetGpuInstanceId(device)
        compute = ComputeInstance(nvml.nvmlDeviceGetComputeInstanceId(device), _text(nvml.nvmlDeviceGetUUID(device)))
        before = by_id[gi_id].compute_instances if gi_id in by_id else ()
        name = _text(nvml.nvmlDeviceGetName(device)).rpartition(" MIG ")[2]
        profile = next((p for p in known.profiles[uuid] if name == p.name or name.endswith(f"c.{p.name}")), None)
        by_id[gi_id] = Instance(
            gpu_uuid=uuid,
            gi_id=gi_id,
            profile_id=-1 if profile is None else profile.id,
            profile="?" if profile is None else profile.name,
            placement=UNKNOWN_PLACEMENT,
            compute_instances=(*before, compute),
        )
    return tuple(
        by_id[gi_id] for gi_id in sorted(by_id)
    ), f"{_NEEDS_ROOT}: placements, and instances without a compute instance"


def _mig_devices(nvml: Nvml, handle: Handle) -> list[Handle]:
    devices: list[Handle] = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            devices.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))
        except nvml.NVMLError as error:
            if code_of(error) != Code.NOT_FOUND:  # a hole: indices stay when other instances go
                raise
    return devices


def _processes(nvml: Nvml, handle: Handle, mig: MigMode | None) -> tuple[tuple[GpuProcess, ...], str | None]:
    try:
        return tuple(_process(p) for p in nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)), None
    except nvml.NVMLError as error:
        if code_of(error) not in _NO_SUCH_VALUE:
            raise
        code = code_of(error)
    if mig is None or not mig.current or code != Code.NO_PERMISSION:
        return (), _NEEDS_ROOT if code == Code.NO_PERMISSION else "the driver does not tell"
    try:
        return tuple(
            _process(p) for d in _mig_devices(nvml, handle) for p in nvml.nvmlDeviceGetComputeRunningProcesses_v3(d)
        ), None
    except nvml.NVMLError as error:
        if code_of(error) not in _NO_SUCH_VALUE:
            raise
        return (), _NEEDS_ROOT


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
        if code_of(error) not in (Code.FUNCTION_NOT_FOUND, Code.ARGUMENT_VERSION_MISMATCH):
            raise
        return nvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, index, version=1)


def _profile_name(nvml: Nvml, handle: Handle, info: Any, index: int) -> str:
    name = _text(getattr(info, "name", "")).removeprefix("MIG ")
    return name or unnamed_profile(index, info.sliceCount, info.memorySizeMB, _memory_mib(nvml, handle, ()))


def unnamed_profile(index: int, slices: int, memory_mib: int, total_mib: int) -> str:
    """The name of a profile where the driver (before R510) gives none, as nvidia-smi wrote it: eighths of the GPU's memory."""
    eighths = -(-8 * memory_mib // total_mib) if total_mib else 8
    gigabytes = round(eighths / 8 * -(-total_mib // 1024))
    return f"{slices}g.{gigabytes}gb" + ("+me" if index in (7, 8) else "")


def _placements(nvml: Nvml, handle: Handle, profile_id: int) -> tuple[Placement, ...]:
    count = c_uint()
    nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile_id, None, byref(count))
    room = (nvml.c_nvmlGpuInstancePlacement_t * max(1, count.value))()
    nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile_id, room, byref(count))
    return tuple(sorted(Placement(room[i].start, MemorySlices(room[i].size)) for i in range(count.value)))


def _memory_mib(nvml: Nvml, handle: Handle, profiles: tuple[Profile, ...]) -> int:
    """Memory of the whole GPU; of its largest profile where only root may know."""
    try:
        return int(nvml.nvmlDeviceGetMemoryInfo(handle).total) // _MIB
    except nvml.NVMLError as error:
        if code_of(error) not in _NO_SUCH_VALUE:
            raise
        return max((profile.memory_mib for profile in profiles), default=0)


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


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
