"""The only code path to GPUs: reading them and changing their instances and MIG mode, over pynvml or the simulator."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import byref
from functools import partial
from typing import Final, ParamSpec, Self, TypeVar

from migctl.core.gpu.mig import ComputeInstance, Gpu, Instance, MemorySlices, MigMode, Placement, Profile
from migctl.errors import HostError, MigctlError
from migctl.nvml import listing, reading
from migctl.nvml.api import Handle, Nvml
from migctl.nvml.calls import call_of, naming_calls
from migctl.nvml.codes import Code, code_of
from migctl.nvml.errors import (
    WrongPlacement,
    gpu_word,
    mode_pending,
    no_answer,
    no_mig,
    no_such_gpu,
    nvml_error,
    still_there,
    strange_answer,
)
from migctl.nvml.plausible import MOST_GPUS, Implausible, bounded
from migctl.nvml.readers import Readers

P = ParamSpec("P")
R = TypeVar("R")

ANSWER_TIMEOUT_S: Final = 10.0
"""A driver that has not answered for so long does not answer: listing all MIG devices takes up to seconds under load."""
_TURN_PATIENCE: Final = 6
"""Answers' worth of time that a thread waits for its turn: others may be creating instances on the same GPU, seconds each."""
_MIB: Final = 1 << 20


class Driver:
    """NVML for the length of a `with` block; usable from several threads, which take turns at each GPU.

    Every method raises MigctlError and nothing else for what NVML refuses. `HostError` no-permission, no-such-gpu and gpu-no-answer
    can come from all of them.

    Args:
        nvml: pynvml, or the simulator.
        simulated: the boards simulated, in words; nothing for real ones.
        boot_id: of the simulated machine.
    """

    def __init__(
        self,
        nvml: Nvml,
        *,
        simulated: str = "",
        boot_id: str | None = None,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> None:
        self._nvml = naming_calls(nvml)
        self._boards = simulated
        self.boot_id = boot_id
        self._answer_timeout_s = answer_timeout_s
        self._known = listing.Known()
        self._handles: dict[str, Handle] = {}
        self._guard = threading.Lock()
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._indices: dict[str, int] = {}
        self._readers = Readers(answer_timeout_s)
        self._failures: tuple[MigctlError, ...] = ()

    def __enter__(self) -> Self:
        self._do("opening the NVIDIA driver", None, self._nvml.nvmlInit)
        return self

    def __exit__(self, *_: object) -> None:
        self._handles.clear()  # they are of this session
        if self._readers.any_stuck:
            return  # NVML would wait for the call that never returns; the end of the process closes the device as well
        try:
            self._nvml.nvmlShutdown()
        except self._nvml.NVMLError:
            pass  # nothing is left to be done with it

    @property
    def simulated(self) -> bool:
        """Whether these are no real GPUs."""
        return bool(self._boards)

    @property
    def label(self) -> str:
        """What stands behind it, for people: `NVIDIA driver 580.65.06`, `simulated a100-40gb x2`."""
        return f"simulated {self._boards}" if self._boards else f"NVIDIA driver {self.version}"

    @property
    def version(self) -> str:
        """The driver's version."""
        return self._do("asking for the driver's version", None, self._nvml.nvmlSystemGetDriverVersion)

    @property
    def failures(self) -> tuple[MigctlError, ...]:
        """Why GPUs are missing from the last `gpus()`."""
        return self._failures

    def gpus(self) -> tuple[Gpu, ...]:
        """All GPUs in index order. One that fails, or does not answer in time, is left out and told by `failures`."""
        count = self._do("counting the GPUs", None, lambda: bounded(self._nvml.nvmlDeviceGetCount(), MOST_GPUS, "GPUs"))
        found, failed = self._readers.read({index: partial(self._gpu_at, index) for index in range(count)})
        self._failures = tuple(failed[index] for index in range(count) if index in failed)
        return tuple(found[index] for index in range(count) if index in found)

    def gpu(self, uuid: str) -> Gpu:
        """The GPU of this UUID; no other one is asked for anything, so none can stand in its way.

        Raises:
            MigctlError: this GPU fails, or does not answer in time.
        """
        key = self._indices.get(uuid, uuid)
        found, failed = self._readers.read({key: partial(self._gpu_of, uuid)})
        if key in failed:
            raise failed[key]
        return found[key]

    def set_mig_mode(self, gpu_uuid: str, enabled: bool) -> MigMode:
        """Change the MIG mode and read it back.

        Raises:
            HostError: mig-mode-pending where the change is not in force (its hint tells what to do), no-mig where there is no MIG.
        """
        doing = f"{'enabling' if enabled else 'disabling'} MIG mode"
        with self._turn(gpu_uuid) as handle:
            before = self._do("reading the MIG mode", gpu_uuid, reading.read_mode, self._nvml, handle)
            if before is None:
                raise no_mig(
                    gpu_uuid, self._do("reading the GPU's name", gpu_uuid, self._nvml.nvmlDeviceGetName, handle)
                )
            activation = self._do(doing, gpu_uuid, self._nvml.nvmlDeviceSetMigMode, handle, int(enabled))
            # the driver may have reset the GPU meanwhile: handles and minor numbers are new ones
            self._handles.clear()
            self._known.profiles.pop(gpu_uuid, None)
            mode = self._do("reading the MIG mode", gpu_uuid, reading.read_mode, self._nvml, self._handle(gpu_uuid))
        if mode is None or mode != MigMode(current=enabled, pending=enabled):
            raise mode_pending(gpu_uuid, wanted=enabled, mode=mode or before, activation=activation)
        return mode

    def create_gpu_instance(self, gpu_uuid: str, profile: Profile, placement: Placement) -> int:
        """Make a GPU instance exactly there; returns its GI id.

        Raises:
            Busy: no-room, naming the instance in the way.
            WrongPlacement: the driver put it elsewhere; `left` is what could not be removed again.
        """
        doing = f"creating {profile.name} at {placement}"
        with self._turn(gpu_uuid) as handle:
            where = self._nvml.c_nvmlGpuInstancePlacement_t(placement.start, placement.size)
            try:
                made = self._nvml.nvmlDeviceCreateGpuInstanceWithPlacement(handle, profile.id, byref(where))
            except self._nvml.NVMLError as error:
                in_the_way = (
                    self._in_the_way(gpu_uuid, handle, placement)
                    if code_of(error) == Code.INSUFFICIENT_RESOURCES
                    else ""
                )
                raise self._refused(error, doing + in_the_way, gpu_uuid) from error
            info = self._do(doing, gpu_uuid, self._nvml.nvmlGpuInstanceGetInfo, made)
            there = (info.profileId, info.placement.start, info.placement.size)
            if there != (profile.id, placement.start, placement.size):
                elsewhere = Instance(
                    gpu_uuid=gpu_uuid,
                    gi_id=int(info.id),
                    profile_id=there[0],
                    profile=profile.name if there[0] == profile.id else "?",
                    placement=Placement(there[1], MemorySlices(there[2])),
                )
                try:
                    self._nvml.nvmlGpuInstanceDestroy(made)
                except self._nvml.NVMLError as error:
                    raise WrongPlacement(doing, elsewhere, removed=False) from error
                raise WrongPlacement(doing, elsewhere, removed=True)
            return int(info.id)

    def create_compute_instance(self, gpu_uuid: str, gi_id: int) -> ComputeInstance:
        """Make the compute instance that takes all of a GPU instance."""
        doing = f"creating the compute instance of GPU instance {gi_id}"
        with self._turn(gpu_uuid) as handle:
            instance = self._do(doing, gpu_uuid, self._nvml.nvmlDeviceGetGpuInstanceById, handle, gi_id)
            profile_id = self._do(doing, gpu_uuid, self._nvml.nvmlGpuInstanceGetInfo, instance).profileId
            profile = next((p for p in self._profiles(gpu_uuid, handle) if p.id == profile_id), None)
            offered = self._do(
                doing, gpu_uuid, listing.compute_profiles, self._nvml, instance, gpu_uuid, profile_id, self._known
            )
            whole = listing.whole_compute_profile(offered, profile.compute_slices) if profile else None
            if whole is None:
                raise HostError(
                    "no-compute-profile",
                    f"{doing} failed: the driver offers none that takes the whole instance",
                    where=gpu_word(gpu_uuid),
                    hint="update the NVIDIA driver",
                )
            made = self._do(doing, gpu_uuid, self._nvml.nvmlGpuInstanceCreateComputeInstance, instance, whole.id)
            return self._do(doing, gpu_uuid, listing.compute_instance, self._nvml, made)

    def destroy_compute_instance(self, gpu_uuid: str, gi_id: int, ci_id: int, *, mig_uuid: str | None = None) -> None:
        """Remove a compute instance, and look that it is gone; one that is gone already is fine.

        Args:
            mig_uuid: what it must still be: another one in its place by now is left alone, ours is gone then.

        Raises:
            Busy: gpu-in-use while a process runs on it; still-there where the driver only said that it removed it.
        """
        doing = f"removing compute instance {ci_id} of GPU instance {gi_id}"
        with self._turn(gpu_uuid) as handle, self._unless_gone(doing, gpu_uuid, handle):
            instance = self._nvml.nvmlDeviceGetGpuInstanceById(handle, gi_id)
            compute = self._nvml.nvmlGpuInstanceGetComputeInstanceById(instance, ci_id)
            if mig_uuid is not None and listing.compute_instance(self._nvml, compute).mig_uuid != mig_uuid:
                return
            self._nvml.nvmlComputeInstanceDestroy(compute)
            self._nvml.nvmlGpuInstanceGetComputeInstanceById(instance, ci_id)
            raise still_there(doing, gpu_uuid)

    def destroy_gpu_instance(
        self, gpu_uuid: str, gi_id: int, *, profile_id: int | None = None, placement: Placement | None = None
    ) -> None:
        """Remove a GPU instance, and look that it is gone; one that is gone already is fine.

        Args:
            profile_id, placement: what it must still be: another one with its id by now is left alone, ours is gone then.

        Raises:
            Busy: gpu-in-use while it has a compute instance or a process; still-there where the driver only said that it
                removed it.
        """
        doing = f"removing GPU instance {gi_id}"
        with self._turn(gpu_uuid) as handle, self._unless_gone(doing, gpu_uuid, handle):
            instance = self._nvml.nvmlDeviceGetGpuInstanceById(handle, gi_id)
            if profile_id is not None or placement is not None:
                info = self._nvml.nvmlGpuInstanceGetInfo(instance)
                there = Placement(info.placement.start, MemorySlices(info.placement.size))
                if profile_id not in (None, info.profileId) or placement not in (None, there):
                    return
            self._nvml.nvmlGpuInstanceDestroy(instance)
            self._nvml.nvmlDeviceGetGpuInstanceById(handle, gi_id)
            raise still_there(doing, gpu_uuid)

    def ask(self, doing: str, gpu_uuid: str, question: Callable[[Nvml, Handle], R]) -> R:
        """Put a question that changes nothing to one GPU, in this thread's turn."""
        with self._turn(gpu_uuid) as handle:
            return self._do(doing, gpu_uuid, question, self._nvml, handle)

    def device_memory(self, mig_uuid: str) -> tuple[int, int] | None:
        """Used and total memory of a MIG device in MiB; `None` where the driver does not tell or the device is gone."""
        try:
            memory = self._nvml.nvmlDeviceGetMemoryInfo(self._nvml.nvmlDeviceGetHandleByUUID(mig_uuid))
        except self._nvml.NVMLError as error:
            if code_of(error) in (Code.NOT_FOUND, Code.INVALID_ARGUMENT, Code.NO_PERMISSION, Code.NOT_SUPPORTED):
                return None
            raise self._refused(error, f"reading the memory of {mig_uuid}", None) from error
        return int(memory.used) // _MIB, int(memory.total) // _MIB

    # -- inside

    def _gpu_at(self, index: int) -> Gpu:
        doing = "reading the GPU"
        handle = self._do(doing, str(index), self._nvml.nvmlDeviceGetHandleByIndex, index)
        uuid = self._do(doing, str(index), self._nvml.nvmlDeviceGetUUID, handle)
        self._handles[uuid] = handle
        self._indices[uuid] = index
        with self._turn(uuid):
            return self._do(doing, uuid, reading.read_gpu, self._nvml, handle, index, uuid, self._known)

    def _gpu_of(self, uuid: str) -> Gpu:
        doing = "reading the GPU"
        self._handles.pop(uuid, None)  # the old handle of a GPU that is lost would still answer some questions
        with self._turn(uuid) as handle:
            index = self._indices[uuid] = self._do(doing, uuid, self._nvml.nvmlDeviceGetIndex, handle)
            return self._do(doing, uuid, reading.read_gpu, self._nvml, handle, index, uuid, self._known)

    @contextmanager
    def _turn(self, uuid: str) -> Iterator[Handle]:
        """Wait until no other thread is at this GPU; its handle."""
        with self._guard:
            turn = self._turns[uuid]
        patience_s = self._answer_timeout_s * _TURN_PATIENCE
        if not turn.acquire(timeout=patience_s):
            raise no_answer(uuid, patience_s)
        try:
            yield self._handle(uuid)
        finally:
            turn.release()

    def _handle(self, uuid: str) -> Handle:
        if uuid not in self._handles:
            try:
                self._handles[uuid] = self._nvml.nvmlDeviceGetHandleByUUID(uuid)
            except self._nvml.NVMLError as error:
                if code_of(error) in (Code.NOT_FOUND, Code.INVALID_ARGUMENT):
                    raise no_such_gpu(uuid) from error
                raise self._refused(error, "finding the GPU", uuid) from error
        return self._handles[uuid]

    def _profiles(self, uuid: str, handle: Handle) -> tuple[Profile, ...]:
        if not self._known.profiles.get(uuid):
            self._known.profiles[uuid] = self._do(
                "reading the profiles", uuid, reading.read_profiles, self._nvml, handle
            )
        return self._known.profiles[uuid]

    def _in_the_way(self, uuid: str, handle: Handle, placement: Placement) -> str:
        """The driver's refusal is ambiguous; what exists there tells more."""
        self._profiles(uuid, handle)
        try:
            instances = listing.read_instances(self._nvml, handle, uuid, self._known)
        except self._nvml.NVMLError:
            return ""
        taken = [
            f"{i.profile} at {i.placement} (GPU instance {i.gi_id})"
            for i in instances
            if i.placement.overlaps(placement)
        ]
        return f", where {' and '.join(taken)} lies," if taken else ""

    @contextmanager
    def _unless_gone(self, doing: str, uuid: str, handle: Handle) -> Iterator[None]:
        try:
            yield
        except self._nvml.NVMLError as error:
            if code_of(error) == Code.NOT_FOUND:
                return
            if code_of(error) == Code.NOT_SUPPORTED:
                mode = self._do("reading the MIG mode", uuid, reading.read_mode, self._nvml, handle)
                if mode is not None and not mode.current:
                    return  # switching the mode off took all instances with it
            raise self._refused(error, doing, uuid) from error

    def _do(self, doing: str, gpu: str | None, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except self._nvml.NVMLError as error:
            raise self._refused(error, doing, gpu) from error
        except Implausible as error:
            raise strange_answer(error, doing=doing, gpu=gpu) from error

    def _refused(self, error: Exception, doing: str, gpu: str | None) -> MigctlError:
        return nvml_error(code_of(error), call=call_of(error), doing=doing, gpu=gpu)
