# ruff: noqa: ANN401 -- structs come from pynvml, which has no types
"""The instances of one GPU, by both ways that NVML has to list them: what only one of them knows is not kept quiet."""

from __future__ import annotations

from ctypes import byref, c_uint
from dataclasses import dataclass, field, replace
from typing import Any, Final

from migctl.core.gpu.mig import (
    UNKNOWN_PLACEMENT,
    ComputeInstance,
    ComputeProfile,
    Instance,
    MemorySlices,
    Placement,
    Profile,
)
from migctl.nvml.api import Handle, Nvml
from migctl.nvml.codes import ENGINE_PROFILE_SHARED, PROFILE_LIMIT, Code, code_of
from migctl.nvml.plausible import MOST_OF_ONE_GPU, bounded

NEEDS_ROOT: Final = "needs root"
WITHOUT_NAMES: Final = (Code.FUNCTION_NOT_FOUND, Code.ARGUMENT_VERSION_MISMATCH)
"""Answers of a driver that knows only the first version of a profile query, which has no names (before R510)."""
_LOOKS: Final = 3
"""How often it is listed anew: somebody makes or removes an instance just then, and old handles are invalid or mean another."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Why what was listed may not be all there is."""

    reason: str
    rights: bool = False
    """Whether root would know more; else it lies with the driver."""


@dataclass(slots=True)
class Known:
    """What stays true while the driver runs, kept for one session: profiles by GPU UUID."""

    profiles: dict[str, tuple[Profile, ...]] = field(default_factory=dict)
    compute: dict[tuple[str, int], tuple[ComputeProfile, ...]] = field(default_factory=dict)
    """By GPU UUID and GPU instance profile id."""


def list_instances(nvml: Nvml, handle: Handle, uuid: str, known: Known) -> tuple[tuple[Instance, ...], Gap | None]:
    """All instances of a GPU in MIG mode, and why that may not be all of them.

    By profile the driver lists GPU instances, also those without a compute instance, to the privileged; by index it lists MIG
    devices to everybody. Both must agree on what they both can tell.

    Raises:
        NVMLError: the driver refuses for another reason than rights.
    """
    for _ in range(_LOOKS - 1):
        try:
            found, gap = _both(nvml, handle, uuid, known)
        except nvml.NVMLError as error:
            if code_of(error) not in (Code.INVALID_ARGUMENT, Code.NOT_FOUND):
                raise
            continue
        if gap is None or gap.rights:
            return found, gap
    return _both(nvml, handle, uuid, known)


def read_instances(nvml: Nvml, handle: Handle, uuid: str, known: Known) -> tuple[Instance, ...]:
    """All GPU instances as the driver lists them by profile, also those without a compute instance.

    Raises:
        NVMLError: NO_PERMISSION without root or the mig/config capability, NOT_SUPPORTED where it does not list them.
    """
    names = {profile.id: profile.name for profile in known.profiles[uuid]}
    found: list[Instance] = []
    for profile in known.profiles[uuid]:
        room, count = (nvml.c_nvmlGpuInstance_t * _room(profile.max_instances))(), c_uint()
        nvml.nvmlDeviceGetGpuInstances(handle, profile.id, room, byref(count))
        for i in range(bounded(count.value, len(room), "instances of a profile")):
            info = nvml.nvmlGpuInstanceGetInfo(room[i])
            found.append(
                Instance(
                    gpu_uuid=uuid,
                    gi_id=info.id,
                    profile_id=info.profileId,
                    profile=names.get(info.profileId, "?"),
                    placement=Placement(info.placement.start, MemorySlices(info.placement.size)),
                    compute_instances=_compute_instances(nvml, room[i], uuid, info.profileId, known),
                )
            )
    return tuple(sorted(found, key=lambda instance: instance.gi_id))


def mig_devices(nvml: Nvml, handle: Handle) -> list[Handle]:
    """Handles of all MIG devices of a GPU."""
    devices: list[Handle] = []
    for index in range(bounded(nvml.nvmlDeviceGetMaxMigDeviceCount(handle), MOST_OF_ONE_GPU, "MIG devices")):
        try:
            devices.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))
        except nvml.NVMLError as error:
            if code_of(error) != Code.NOT_FOUND:  # a hole: indices stay when other instances go
                raise
    return devices


def compute_profiles(
    nvml: Nvml, instance: Handle, uuid: str, profile_id: int, known: Known
) -> tuple[ComputeProfile, ...]:
    """The compute instance profiles of a GPU instance, by asking it."""
    key = (uuid, profile_id)
    if key not in known.compute:
        found: list[ComputeProfile] = []
        for index in range(PROFILE_LIMIT):
            try:
                info = _compute_profile_info(nvml, instance, index)
            except nvml.NVMLError as error:
                match code_of(error):
                    case Code.NOT_SUPPORTED:
                        continue
                    case Code.INVALID_ARGUMENT:
                        break
                    case _:
                        raise
            found.append(ComputeProfile(index, info.id, info.sliceCount, info.multiprocessorCount, info.instanceCount))
        if nvml.nvmlGpuInstanceGetInfo(instance).profileId != profile_id:
            return tuple(found)  # its handle means another by now; one that means none has just been refused
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
    return ComputeInstance(info.id, text(nvml.nvmlDeviceGetUUID(info.device)))


def text(value: object) -> str:
    """What pynvml calls a string: some of its versions give bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _both(nvml: Nvml, handle: Handle, uuid: str, known: Known) -> tuple[tuple[Instance, ...], Gap | None]:
    walked = _walk(nvml, handle, uuid, known)
    try:
        listed = read_instances(nvml, handle, uuid, known)
    except nvml.NVMLError as error:
        if code_of(error) == Code.NO_PERMISSION:
            return walked, Gap(f"{NEEDS_ROOT}: placements, and instances without a compute instance", rights=True)
        if code_of(error) == Code.NOT_SUPPORTED:
            return walked, Gap("the driver does not list them: placements, and instances without a compute instance")
        raise
    if not known.profiles[uuid]:
        return walked, Gap("the driver tells no profile, and so lists no instance")
    by_id = {instance.gi_id: instance for instance in listed}
    doubtful = sorted({i.gi_id for i in _with_devices(listed)} ^ {i.gi_id for i in walked})
    doubtful += [
        i.gi_id for i in walked if i.gi_id in by_id and by_id[i.gi_id].compute_instances != i.compute_instances
    ]
    if not doubtful:
        return listed, None
    unlisted = [instance for instance in walked if instance.gi_id not in by_id]
    word = "instance" if len(set(doubtful)) == 1 else "instances"
    return (
        tuple(sorted((*listed, *unlisted), key=lambda instance: instance.gi_id)),
        Gap(
            f"the driver's list of GPU instances and its list of MIG devices differ: GPU {word} "
            + ", ".join(str(gi_id) for gi_id in sorted(set(doubtful)))
        ),
    )


def _with_devices(instances: tuple[Instance, ...]) -> list[Instance]:
    return [instance for instance in instances if instance.compute_instances]


def _walk(nvml: Nvml, handle: Handle, uuid: str, known: Known) -> tuple[Instance, ...]:
    """The GPU instances that MIG devices belong to; their placements are not told."""
    by_id: dict[int, Instance] = {}
    for device in mig_devices(nvml, handle):
        gi_id = nvml.nvmlDeviceGetGpuInstanceId(device)
        compute = ComputeInstance(nvml.nvmlDeviceGetComputeInstanceId(device), text(nvml.nvmlDeviceGetUUID(device)))
        if gi_id not in by_id:
            name = text(nvml.nvmlDeviceGetName(device)).rpartition(" MIG ")[2]
            profile = next((p for p in known.profiles[uuid] if name == p.name or name.endswith(f"c.{p.name}")), None)
            by_id[gi_id] = Instance(
                gpu_uuid=uuid,
                gi_id=gi_id,
                profile_id=-1 if profile is None else profile.id,
                profile="?" if profile is None else profile.name,
                placement=UNKNOWN_PLACEMENT,
            )
        there = sorted((*by_id[gi_id].compute_instances, compute), key=lambda one: one.ci_id)
        by_id[gi_id] = replace(by_id[gi_id], compute_instances=tuple(there))
    return tuple(by_id[gi_id] for gi_id in sorted(by_id))


def _compute_profile_info(nvml: Nvml, instance: Handle, index: int) -> Any:
    try:
        return nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, index, ENGINE_PROFILE_SHARED)
    except nvml.NVMLError as error:
        if code_of(error) not in WITHOUT_NAMES:
            raise
        return nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, index, ENGINE_PROFILE_SHARED, version=1)


def _room(most: int) -> int:
    return max(1, bounded(most, MOST_OF_ONE_GPU, "instances of a profile"))


def _compute_instances(
    nvml: Nvml, instance: Handle, uuid: str, profile_id: int, known: Known
) -> tuple[ComputeInstance, ...]:
    found: list[ComputeInstance] = []
    for profile in compute_profiles(nvml, instance, uuid, profile_id, known):
        room, count = (nvml.c_nvmlComputeInstance_t * _room(profile.max_instances))(), c_uint()
        nvml.nvmlGpuInstanceGetComputeInstances(instance, profile.id, room, byref(count))
        there = bounded(count.value, len(room), "compute instances of a profile")
        found += [compute_instance(nvml, room[i]) for i in range(there)]
    return tuple(sorted(found, key=lambda compute: compute.ci_id))
