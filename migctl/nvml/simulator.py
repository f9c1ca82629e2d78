# ruff: noqa: N802, N803, ANN401 -- names and opaque handles are pynvml's
"""Simulated NVML: pynvml's functions over simulated GPUs, refusing what hardware refuses; here what makes and lists instances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from migctl.core.mig import MemorySlices, Placement, Profile
from migctl.nvml import simrules, structs
from migctl.nvml.codes import Code
from migctl.nvml.models import resolve_board
from migctl.nvml.simfaults import NVMLError
from migctl.nvml.simgpus import SimulatedGpus, mig_board, nvml_call, profile_of
from migctl.nvml.simmodel import SimGpu, SimInstance

_LAST_INDEX: Final = 17
"""NVML_GPU_INSTANCE_PROFILE_COUNT - 1 of nvml.h 13.3."""
_LAST_COMPUTE_INDEX: Final = 8
"""NVML_COMPUTE_INSTANCE_PROFILE_COUNT - 1."""


class Simulator(SimulatedGpus):
    """Implements `Nvml`. Its state lies in a file; one object serves one process, from any number of threads."""

    # -- GPU instances

    @nvml_call
    def nvmlDeviceGetGpuInstanceProfileInfo(self, device: Any, profile: int, version: int = 2) -> Any:
        state = self.file.read()
        gpu = self.mig_gpu(state, device)
        board = mig_board(gpu)
        if not 0 <= profile <= _LAST_INDEX:
            raise NVMLError(Code.INVALID_ARGUMENT)
        found = next((p for p in board.profiles if p.index == profile), None)
        if found is None or not (gpu.current or state.profiles_with_mig_off):
            raise NVMLError(Code.NOT_SUPPORTED)
        info: Any = (
            structs.c_nvmlGpuInstanceProfileInfo_v2_t() if version == 2 else structs.c_nvmlGpuInstanceProfileInfo_t()
        )
        info.id, info.sliceCount, info.instanceCount = found.id, found.compute_slices, found.max_instances
        info.multiprocessorCount, info.memorySizeMB = found.multiprocessors, found.memory_mib
        copy, info.decoderCount, info.encoderCount, info.jpegCount, info.ofaCount = board.engines[found.id]
        info.copyEngineCount = copy
        if version == 2:
            info.name = f"MIG {found.name}".encode()
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
            board, wanted = mig_board(gpu), Placement(place.start, MemorySlices(place.size))
            if self._now.misplacing:
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
            if instance.compute or gpu.living(instance.gi_id) or self.node_open(state, gpu, instance.gi_id):
                raise NVMLError(Code.IN_USE)
            gpu.instances.remove(instance)
        return Code.SUCCESS

    # -- compute instances

    @nvml_call
    def nvmlGpuInstanceGetComputeInstanceProfileInfo(
        self, device: Any, profile: int, engProfile: int, version: int = 2
    ) -> Any:
        if not 0 <= profile <= _LAST_COMPUTE_INDEX or engProfile != 0:
            raise NVMLError(Code.INVALID_ARGUMENT)
        if version != 2:
            raise NVMLError(Code.FUNCTION_NOT_FOUND)
        gpu, instance = self.handles.instance(self.file.read(), device)
        found = _compute_profile(gpu, instance, profile)
        if found is None:
            raise NVMLError(Code.NOT_SUPPORTED)
        info: Any = structs.c_nvmlComputeInstanceProfileInfo_v2_t()
        info.id, info.sliceCount, info.instanceCount = found.index, found.slices, found.max_instances
        info.multiprocessorCount = found.multiprocessors
        return info

    @nvml_call
    def nvmlGpuInstanceCreateComputeInstance(self, gpuInstance: Any, profileId: int) -> Any:
        with self.change(gpuInstance, "create") as (state, _):
            gpu, instance = self.handles.instance(state, gpuInstance)
            found = _compute_profile(gpu, instance, profileId)
            if found is None:
                raise NVMLError(Code.INVALID_ARGUMENT)
            if (code := simrules.compute_refusal(resolve_board(gpu.board), instance, found)) is not None:
                raise NVMLError(code)
            made = simrules.add_compute(gpu, instance, found, state.next_serial())
        return self.handles.compute_handle(gpu, instance, made)

    @nvml_call
    def nvmlGpuInstanceGetComputeInstances(
        self, gpuInstance: Any, profileId: int, computeInstancesRef: Any, countRef: Any
    ) -> int:
        gpu, instance = self.handles.instance(self.file.read(), gpuInstance)
        if _compute_profile(gpu, instance, profileId) is None:
            raise NVMLError(Code.INVALID_ARGUMENT)
        handles = [
            self.handles.compute_handle(gpu, instance, compute)
            for compute in instance.compute
            if compute.profile_index == profileId
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
        gpu, instance, compute = self.handles.compute(self.file.read(), computeInstance, "compute")
        return structs.c_nvmlComputeInstanceInfo_t(
            device=self.handles.mig_handle(gpu, instance, compute),
            gpuInstance=self.handles.instance_handle(gpu, instance),
            id=compute.ci_id,
            profileId=compute.profile_index,
        )

    @nvml_call
    def nvmlComputeInstanceDestroy(self, computeInstance: Any) -> int:
        with self.change(computeInstance, "destroy") as (state, _):
            gpu, instance, compute = self.handles.compute(state, computeInstance, "compute")
            if gpu.living(instance.gi_id) or self.node_open(state, gpu, instance.gi_id, compute.ci_id):
                raise NVMLError(Code.IN_USE)
            instance.compute.remove(compute)
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
        found = mig_board(self.handles.gpu(self.file.read(), device)).profile(profile_id)
        if found is None:
            raise NVMLError(Code.INVALID_ARGUMENT)
        return found


def _compute_profile(gpu: SimGpu, instance: SimInstance, index: int) -> simrules.ComputeProfile | None:
    board = resolve_board(gpu.board)
    return next((p for p in simrules.compute_profiles(board, profile_of(board, instance)) if p.index == index), None)


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
