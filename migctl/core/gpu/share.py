"""What planning decided about the GPU side, before the CPUs: one share a job, and what is left."""

from __future__ import annotations

from dataclasses import dataclass

from migctl.core.gpu.mig import ComputeSlices, Gpu, MemorySlices, Placement, Profile
from migctl.errors import MigctlError, Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuShare:
    """The GPU side of one job."""

    gpu: Gpu
    profile: Profile | None = None
    """`None` under `shared`."""
    placement: Placement | None = None
    memory_mib: int
    instance_uuid: str | None = None
    """MIG UUID of an administrator's instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What remains beside the shares, and who waits why."""

    waiting: tuple[str, ...] = ()
    conflict: tuple[str, ...] = ()
    blocked: MigctlError | None = None
    compute_slices: ComputeSlices = ComputeSlices(0)
    memory_slices: MemorySlices = MemorySlices(0)
    could_add: tuple[str, ...] = ()
    notices: tuple[Notice, ...] = ()
