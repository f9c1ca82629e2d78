"""The GPU side in NVIDIA's words: profiles, placements, instances and MIG mode, as NVML reported them.

Three number spaces that must not be mixed: the profile *index* (NVML's enum, argument of the profile query), the profile *id*
(device-specific, printed by `nvidia-smi mig -lgip`, argument of create and list) and the *GI id* (of one living instance).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

ComputeSlices = NewType("ComputeSlices", int)
"""A number of compute slices (the `g` of a profile name)."""
MemorySlices = NewType("MemorySlices", int)
"""A number of memory slices (the unit of the placement axis)."""


@dataclass(frozen=True, slots=True, order=True)
class Placement:
    """Where an instance lies on the memory-slice axis."""

    start: int
    size: MemorySlices

    @property
    def end(self) -> int:
        """First memory slice behind it."""
        return self.start + self.size

    def overlaps(self, other: Placement) -> bool:
        """Whether both need one memory slice."""
        return self.start < other.end and other.start < self.end

    def __str__(self) -> str:
        return f"{self.start}:{self.size}" if self.size else "?"


UNKNOWN_PLACEMENT = Placement(-1, MemorySlices(0))
"""Of an instance that this user may see but not look into; only beside `Gpu.instances_reason`. Overlaps nothing."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One GPU instance profile of one GPU, as its driver reports it."""

    name: str
    """Without NVML's optional `MIG ` prefix: `3g.20gb`, `1g.5gb+me`."""
    index: int
    """NVML_GPU_INSTANCE_PROFILE_* enum value."""
    id: int
    """Device-specific profile id."""
    compute_slices: ComputeSlices
    memory_mib: int
    multiprocessors: int
    max_instances: int
    """How many the driver allows on an empty GPU."""
    placements: tuple[Placement, ...]
    """All possible ones on an empty GPU, ascending."""

    @property
    def memory_slices(self) -> MemorySlices:
        """Memory slices one instance takes."""
        return self.placements[0].size

    @property
    def attribute(self) -> str:
        """What follows the size in the name: `+me`, `+gfx`, `-me`, `+me.all`, or nothing."""
        for sign in "+-":
            _, found, rest = self.name.partition(sign)
            if found:
                return sign + rest
        return ""


@dataclass(frozen=True, slots=True)
class ComputeProfile:
    """One compute instance profile of a GPU instance."""

    index: int
    """NVML_COMPUTE_INSTANCE_PROFILE_* enum value."""
    id: int
    """Argument of create and list; a number space of its own, though listings show it equal to the index."""
    slices: int
    """Compute slices one takes."""
    multiprocessors: int
    max_instances: int


def profile_order(profile: Profile) -> tuple[int, int, int]:
    """Sort key for a GPU's profiles: small before large, plain before its variants."""
    return profile.compute_slices, profile.memory_slices, profile.index


@dataclass(frozen=True, slots=True)
class ComputeInstance:
    """A compute instance and the MIG device that CUDA sees through it."""

    ci_id: int
    mig_uuid: str


@dataclass(frozen=True, slots=True)
class Instance:
    """A living GPU instance with its compute instances (none: unusable; several: made by somebody else)."""

    gpu_uuid: str
    gi_id: int
    profile_id: int
    profile: str
    """Profile name, `?` where the driver would not tell."""
    placement: Placement
    compute_instances: tuple[ComputeInstance, ...] = ()


@dataclass(frozen=True, slots=True)
class MigMode:
    """MIG mode of one GPU; both values, since a change can be outstanding."""

    current: bool
    pending: bool

    @property
    def settled(self) -> bool:
        """No change is outstanding."""
        return self.current == self.pending


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process with a CUDA context on the GPU, or on one of its instances (`gi_id`)."""

    pid: int
    gi_id: int | None
    used_memory_mib: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU as observed."""

    index: int
    uuid: str
    name: str
    pci_bus_id: str
    """Like sysfs: four-digit domain, lower case (`0000:3b:00.0`)."""
    minor: int | None = None
    memory_mib: int
    mig: MigMode | None
    """`None`: this product has no MIG."""
    resetless_mig: bool | None = None
    """Whether changing the mode needs no GPU reset; `None`: the driver does not tell."""
    profiles: tuple[Profile, ...] = ()
    """Empty where the GPU has no MIG, or where the driver answers only with MIG mode on."""
    instances: tuple[Instance, ...] = ()
    instances_reason: str | None = None
    """Why `instances` is not known (no rights), else nothing."""
    instances_doubtful: bool = False
    """Whether that lies with the driver: root would not know more either."""
    processes: tuple[GpuProcess, ...] = ()
    processes_reason: str | None = None

    @property
    def memory_slices(self) -> MemorySlices:
        """Width of the placement axis."""
        return MemorySlices(max((p.end for profile in self.profiles for p in profile.placements), default=0))

    @property
    def compute_slices(self) -> ComputeSlices:
        """Compute slices of the whole GPU."""
        return ComputeSlices(max((profile.compute_slices for profile in self.profiles), default=0))

    @property
    def multiprocessors(self) -> int:
        """SMs of the largest profile."""
        return max((profile.multiprocessors for profile in self.profiles), default=0)

    def profile_named(self, name: str) -> Profile | None:
        """The profile of this name on this very GPU."""
        return next((profile for profile in self.profiles if profile.name == name), None)
