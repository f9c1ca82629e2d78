"""What no GPU can be: an answer of the driver beyond these bounds is refused before anything is counted by it."""

from __future__ import annotations

from typing import Final

from migctl.core.gpu.mig import Gpu, Instance, Profile

MOST_GPUS: Final = 512
MOST_OF_ONE_GPU: Final = 64
"""Profiles, instances, devices and processes' instances; NVML's own arrays end far below."""
_MOST_SLICES: Final = 32
"""A GPU has eight memory slices at most so far."""
_MOST_MIB: Final = 16 << 20
_MOST_SMS: Final = 10_000
_LONGEST_NAME: Final = 96
"""NVML_DEVICE_NAME_V2_BUFFER_SIZE."""


class Implausible(ValueError):  # noqa: N818 -- what the answer is
    """The text says which value it is."""


def bounded(value: int, most: int, what: str, least: int = 0) -> int:
    """The value itself.

    Raises:
        Implausible: it is smaller or larger than any.
    """
    if not least <= value <= most:
        raise Implausible(f"{what} {value}")
    return value


def checked(gpu: Gpu) -> Gpu:
    """The GPU itself, with every value one that a GPU can have.

    Raises:
        Implausible: one is not.
    """
    _name(gpu.name, "the name")
    _name(gpu.uuid, "the UUID")
    bounded(gpu.memory_mib, _MOST_MIB, "MiB of memory")
    if gpu.minor is not None:
        bounded(gpu.minor, 1 << 20, "minor number")
    for profile in gpu.profiles:
        _check_profile(profile)
    if len({profile.id for profile in gpu.profiles}) != len(gpu.profiles):
        raise Implausible("two profiles of one id")
    for instance in gpu.instances:
        _check_instance(instance)
    return gpu


def _check_profile(profile: Profile) -> None:
    _name(profile.name, "the name of a profile")
    bounded(profile.compute_slices, _MOST_SLICES, "compute slices", 1)
    bounded(profile.memory_mib, _MOST_MIB, "MiB of memory", 1)
    bounded(profile.multiprocessors, _MOST_SMS, "SMs")
    bounded(profile.max_instances, MOST_OF_ONE_GPU, "instances of a profile")
    if len({placement.size for placement in profile.placements}) != 1:
        raise Implausible("placements of different sizes")
    for placement in profile.placements:
        bounded(placement.size, _MOST_SLICES, "memory slices", 1)
        bounded(placement.end, _MOST_SLICES, "memory slice")


def _check_instance(instance: Instance) -> None:
    bounded(instance.gi_id, 2**31 - 1, "GPU instance")
    bounded(instance.placement.size, _MOST_SLICES, "memory slices")
    bounded(instance.placement.start, _MOST_SLICES, "memory slice", -1)
    for compute in instance.compute_instances:
        bounded(compute.ci_id, 2**31 - 1, "compute instance")
        _name(compute.mig_uuid, "the UUID of a MIG device")


def _name(text: str, what: str) -> None:
    if not text or len(text) > _LONGEST_NAME or not text.isprintable():
        raise Implausible(f"{what} {text[:40]!r}")
