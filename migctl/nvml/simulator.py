# ruff: noqa: N802, N803, ANN401 -- names and opaque handles are pynvml's
"""Simulated NVML, whole: on top of its GPUs, what makes, lists and removes their instances, refusing what hardware refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from migctl.core.gpu.mig import ComputeProfile, MemorySlices, Placement, Profile
from migctl.nvml import simrules, structs
from migctl.nvml.codes import Code
from migctl.nvml.simdriver import DriverAge, driver_age
from migctl.nvml.simfaults import NVMLError
from migctl.nvml.simgpus import SimulatedGpus, mig_board, profiles_with_mig_off
from migctl.nvml.simholders import holders
from migctl.nvml.simmodel import SimGpu, SimInstance
from migctl.nvml.simsession import nvml_call
from migctl.nvml.simstate import SimState

_LAST_COMPUTE_INDEX: Final = 8
"""NVML_COMPUTE_INSTANCE_PROFILE_COUNT - 1."""


class Simulator(SimulatedGpus):
    """Implements `Nvml`. Its state lies in a file; one object serves one process, from any number of threads."""

    # -- GPU instances

    @nvml_call
    def nvmlDeviceGetGpuInstanceProfileInfo(self, device: Any, profile: int, version: int = 2) -> Any:
        state = self.file.read()
        age = _queried(state, version)
        gpu = self.mig_gpu(state, device)
        if not 0 <= profile <= age.last_profile_index:
            raise NVMLError(Code.INVALID_ARGUMENT)
        board = state.board(gpu)
        found = next((p for p in board.profiles if p.index == profile), None)
        if found is None or not (gpu.current or profiles_with_mig_off(state)):
            raise NVMLError(Code.NOT_SUPPORTED)
        info: Any = (
            structs.c_nvmlGpuInstanceProfileInfo_v2_t() if version == 2 else structs.c_nvmlGpuInstanceProfileInfo_t()
        )
        info.id, info.sliceCount, info.instanceCount = found.id, found.compute_slices, found.max_instances
        info.multiprocessorCount, info.memorySizeMB = found.multiprocessors, found.memory_mib
        copy, info.decoderCount, info.encoderCount, info.jpegCount, info.ofaCount = board.engines[found.id]
        info.copyEngineCount = copy
        if version == 2:
            info.name = f"{age.name_prefix}{found.name}".encode()
        return info

    @nvml_call
    def nvmlDeviceGetGpuInstancePossiblePlacements(
        self, device: Any, profileId: int, placementsRef: Any, countRef: Any
    ) -> int:
        found = self._profile_of_id(device, profileId)
        _fill(
            placementsRef, countRef, [structs.c_nvmlGpuInstancePlacement_t(p.start, p.size) for p in found.placements]
        )
        return Code.SUCCESS

    @nvml_call
    def nvmlDeviceCreateGpuInstanceWithPlacement(self, device: Any, profileId: int, placement: Any) -> Any:
        found = self._profile_of_id(device, profileId)
        place: Any = structs.target(placement)
        with self.change(device, "create") as (state, gpu):
            board, wanted = mig_board(state, gpu), Placement(place.start, MemorySlices(place.size))
            if gpu.current and self._whole_gpu_used(state, gpu):
                raise NVMLError(Code.IN_USE)
            if self.misplacing:
                others = (p for p in found.placements if p != wanted and not simrules.refusal(board, gpu, found, p))
                wanted = next(others, wanted)
            if (code := simrules.refusal(board, gpu, found, wanted)) is not None:
                raise NVMLError(code)
            made = simrules.add_instance(board, gpu, found, wanted, state.next_serial())
        return self.handles.instance_handle(gpu, made)

    @nvml_call
    def nvmlDeviceGetGpuInstances(self, device: Any, profileId: int, gpuInstancesRef: Any, countRef: Any) -> int:
        found = self._profile_of_id(device, profileId)
        gpu = self._instances_of(device)
        _fill(
            gpuInstancesRef,
            countRef,
            [self.handles.instance_handle(gpu, i) for i in gpu.instances if i.profile_id == found.id],
        )
        return Code.SUCCESS

    @nvml_call
    def nvmlDeviceGetGpuInstanceById(self, device: Any, gpuInstanceId: int) -> Any:
        gpu = self._instances_of(device)
        instance = gpu.instance(gpuInstanceId)
        if instance is None:
            raise NVMLError(Code.NOT_FOUND)
        return self.handles.instance_handle(gpu, instance)

    @nvml_call
    def nvmlGpuInstanceGetInfo(self, gpuInstance: Any) -> structs.c_nvmlGpuInstanceInfo_t:
        gpu, instance = self.handles.instance(self.file.read(), gpuInstance)
        info = structs.c_nvmlGpuInstanceInfo_t(
            device=self.handles.gpu_handle(gpu), id=instance.gi_id, profileId=instance.profile_id
        )
        info.placement.start, info.placement.size = instance.start, instance.size
        return info

    @nvml_call
    def nvmlGpuInstanceDestroy(self, gpuInstance: Any) -> int:
        with self.change(gpuInstance, "destroy") as (state, _):
            gpu, instance = self.handles.instance(state, gpuInstance)
            used = instance.compute or gpu.living(instance.gi_id) or self.node_open(state, gpu, instance.gi_id)
            held = state.still_held(instance.serial, bool(used))
            if not held:
                gpu.instances.remove(instance)
        if held:
            raise NVMLError(Code.IN_USE)
        return Code.SUCCESS

    # -- compute instances

    @nvml_call
    def nvmlGpuInstanceGetComputeInstanceProfileInfo(
        self, device: Any, profile: int, engProfile: int, version: int = 2
    ) -> Any:
        state = self.file.read()
        _queried(state, version)
        if not 0 <= profile <= _LAST_COMPUTE_INDEX or engProfile != 0:
            raise NVMLError(Code.INVALID_ARGUMENT)
        gpu, instance = self.handles.instance(state, device)
        found = next((p for p in _compute_profiles(state, gpu, instance) if p.index == profile), None)
        if found is None:
            raise NVMLError(Code.NOT_SUPPORTED)
        info: Any = (
            structs.c_nvmlComputeInstanceProfileInfo_v2_t()
            if version == 2
            else structs.c_nvmlComputeInstanceProfileInfo_t()
        )
        info.id, info.sliceCount, info.instanceCount = found.id, found.slices, found.max_instances
        info.multiprocessorCount = found.multiprocessors
        return info

    @nvml_call
    def nvmlGpuInstanceCreateComputeInstance(self, gpuInstance: Any, profileId: int) -> Any:
        with self.change(gpuInstance, "create") as (state, _):
            gpu, instance = self.handles.instance(state, gpuInstance)
            found = _compute_profile_of_id(state, gpu, instance, profileId)
            if (code := simrules.compute_refusal(state.board(gpu), instance, found)) is not None:
                raise NVMLError(code)
            made = state.add_compute(gpu, instance, found)
        return self.handles.compute_handle(gpu, instance, made)

    @nvml_call
    def nvmlGpuInstanceGetComputeInstances(
        self, gpuInstance: Any, profileId: int, computeInstancesRef: Any, countRef: Any
    ) -> int:
        state = self.file.read()
        gpu, instance = self.handles.instance(state, gpuInstance)
        wanted = _compute_profile_of_id(state, gpu, instance, profileId)
        handles = [
            self.handles.compute_handle(gpu, instance, compute)
            for compute in instance.compute
            if compute.profile_index == wanted.index
        ]
        _fill(computeInstancesRef, countRef, handles)
        return Code.SUCCESS

    @nvml_call
    def nvmlGpuInstanceGetComputeInstanceById(self, gpuInstance: Any, computeInstanceId: int) -> Any:
        gpu, instance = self.handles.instance(self.file.read(), gpuInstance)
        for compute in instance.compute:
            if compute.ci_id == computeInstanceId:
                return self.handles.compute_handle(gpu, instance, compute)
        raise NVMLError(Code.NOT_FOUND)

    @nvml_call
    def nvmlComputeInstanceGetInfo_v2(self, computeInstance: Any) -> structs.c_nvmlComputeInstanceInfo_t:
        state = self.file.read()
        gpu, instance, compute = self.handles.compute(state, computeInstance, "compute")
        profiles = _compute_profiles(state, gpu, instance)
        return structs.c_nvmlComputeInstanceInfo_t(
            device=self.handles.mig_handle(gpu, instance, compute),
            gpuInstance=self.handles.instance_handle(gpu, instance),
            id=compute.ci_id,
            profileId=next(p.id for p in profiles if p.index == compute.profile_index),
        )

    @nvml_call
    def nvmlComputeInstanceDestroy(self, computeInstance: Any) -> int:
        with self.change(computeInstance, "destroy") as (state, _):
            gpu, instance, compute = self.handles.compute(state, computeInstance, "compute")
            used = gpu.living(instance.gi_id) or self.node_open(state, gpu, instance.gi_id, compute.ci_id)
            handed = holders([compute.mig_uuid])[compute.mig_uuid]
            held = state.still_held(compute.serial, bool(used or handed))
            if not held:
                instance.compute.remove(compute)
        if held:
            raise NVMLError(Code.IN_USE)
        return Code.SUCCESS

    def _instances_of(self, device: Any) -> SimGpu:
        state = self.file.read()
        gpu = self.mig_gpu(state, device)
        if not gpu.current:
            raise NVMLError(Code.NOT_SUPPORTED)
        if state.no_permission:
            raise NVMLError(Code.NO_PERMISSION)
        return gpu

    def _profile_of_id(self, device: Any, profile_id: int) -> Profile:
        state = self.file.read()
        found = mig_board(state, self.handles.gpu(state, device)).profile(profile_id)
        if found is None:
            raise NVMLError(Code.INVALID_ARGUMENT)
        return found

    def _whole_gpu_used(self, state: SimState, gpu: SimGpu) -> bool:
        """Whether somebody else computes on the GPU as a whole: a process on no instance, or a client that is none."""
        return gpu.held or any(p.gi_id is None for p in gpu.living()) or self.node_open(state, gpu, writing=True)


def _queried(state: SimState, version: int) -> DriverAge:
    """The driver's age, where it has the function of this version of the query; pynvml itself knows no third."""
    age = driver_age(state.driver)
    if version not in (1, 2) or (version == 2 and not age.versioned_queries):
        raise NVMLError(Code.FUNCTION_NOT_FOUND)
    return age


def _compute_profiles(state: SimState, gpu: SimGpu, instance: SimInstance) -> tuple[ComputeProfile, ...]:
    board = state.board(gpu)
    return simrules.compute_profiles(board, simrules.profile_of(board, instance))


def _compute_profile_of_id(state: SimState, gpu: SimGpu, instance: SimInstance, profile_id: int) -> ComputeProfile:
    found = next((p for p in _compute_profiles(state, gpu, instance) if p.id == profile_id), None)
    if found is None:
        raise NVMLError(Code.INVALID_ARGUMENT)
    return found


def _fill(array_reference: Any, count_reference: Any, items: Sequence[Any]) -> None:
    """Hand out items as NVML does: into the caller's array (none: only count them) and the caller's counter."""
    array: Any = structs.target(array_reference)
    if array is not None:
        if len(array) < len(items):
            raise NVMLError(Code.INSUFFICIENT_SIZE)
        for position, item in enumerate(items):
            array[position] = item
    counter: Any = structs.target(count_reference)
    counter.value = len(items)
