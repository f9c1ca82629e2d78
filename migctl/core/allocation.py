"""Who gets what: the values that planning produces and that starting a job consumes."""

from __future__ import annotations

from dataclasses import dataclass

from migctl.core.choices import Strategy
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.pool import Pool
from migctl.core.gpu.company import weight
from migctl.core.gpu.mig import ComputeSlices, MemorySlices, Placement, Profile
from migctl.core.plan import Job
from migctl.errors import MigctlError, Notice

WHOLE_GPU_SLICES = ComputeSlices(7)
"""A job with a whole GPU counts as one with the largest instance when cores are shared out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuGrant:
    """The CPUs of one job and what follows from them."""

    cpus: CpuSet
    cores: int
    """Physical cores of `cpus`; 1 where it has one hardware thread of a core."""
    num_workers: int
    threads: int
    """For the thread variables (OMP_NUM_THREADS …): workers × threads never exceeds the cores."""
    mems: CpuSet | None = None
    """NUMA nodes the memory is bound to; `None` = not bound (first touch is local)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Everything one job gets."""

    job: Job
    gpu_uuid: str
    gpu_name: str
    profile: Profile | None
    """`None` under `shared`."""
    placement: Placement | None
    memory_mib: int
    """GPU memory that the job may use: the instance's, or the whole GPU's under `shared`."""
    cpu: CpuGrant
    batch_size: int | None = None
    instance_uuid: str | None = None
    """MIG UUID of an administrator's instance (`instance:`), which is used and never destroyed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """What is left over."""

    compute_slices: ComputeSlices
    memory_slices: MemorySlices
    cores: int
    could_add: tuple[str, ...] = ()
    """Profiles of which one more could still be created beside this allocation, `name × count`-free names, largest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The answer to a plan on a machine."""

    strategy: Strategy
    assignments: tuple[Assignment, ...]
    """In the plan's order."""
    waiting: tuple[str, ...] = ()
    """Jobs that do not run at once, in the plan's order."""
    conflict: tuple[str, ...] = ()
    """The smallest set of jobs that cannot run at once."""
    blocked: MigctlError | None = None
    """Why the waiting jobs do not run at once, as an error."""
    idle: Idle
    pool: Pool
    """The cores the plan may use, and why the others are not in it."""
    notices: tuple[Notice, ...] = ()

    @property
    def weights(self) -> tuple[int, ...]:
        """Compute slices of its jobs, by which cores are shared out."""
        return tuple(
            weight(a.profile.compute_slices, a.job.per_instance) if a.profile else WHOLE_GPU_SLICES
            for a in self.assignments
        )
