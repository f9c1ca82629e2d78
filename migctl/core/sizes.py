"""From what a job asks for to a profile of one GPU: by name, by memory or by compute slices."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import assert_never

from migctl.core.mig import Gpu, Profile
from migctl.core.plan import Auto, ByInstance, ByMemory, ByProfile, BySlices, GpuRequest
from migctl.errors import DoesNotFit, MigctlError, PlanError

NEAR_MISS = 0.9
"""A profile with at least this part of the memory asked for is named as the near miss it is."""


def options(request: GpuRequest, gpu: Gpu) -> Profile:
    """The profile that a request means on this very GPU.

    Raises:
        PlanError: no profile has that name or number of slices here.
        DoesNotFit: no profile has that much memory.
    """
    match request:
        case ByProfile(name):
            found = gpu.profile_named(name.removeprefix("MIG "))
            if found is None:
                raise _unknown(name, gpu)
            return found
        case ByMemory(memory_mib):
            return _by_memory(memory_mib, gpu)
        case BySlices(compute_slices):
            return _by_slices(compute_slices, gpu)
        case Auto() | ByInstance():
            raise PlanError("no-size", f"{request} names no profile by itself")
        case _:
            assert_never(request)


def auto_candidates(gpu: Gpu) -> tuple[Profile, ...]:
    """What `auto` can mean, largest first; `+me`, `+gfx` and their kin only by name."""
    return tuple(sorted(_plain(gpu), key=lambda p: (p.compute_slices, p.memory_mib), reverse=True))


def _plain(gpu: Gpu) -> list[Profile]:
    return [profile for profile in gpu.profiles if not profile.attribute]


def _by_memory(memory_mib: int, gpu: Gpu) -> Profile:
    """Fewest memory slices that hold it, then most compute slices."""
    holding = [profile for profile in _plain(gpu) if profile.memory_mib >= memory_mib]
    if not holding:
        largest = max(_plain(gpu), key=lambda profile: profile.memory_mib, default=None)
        has = f"{largest.name} has {_gib(largest.memory_mib)}" if largest else "it offers none"
        raise DoesNotFit(
            "never-fits",
            f"no profile of {gpu.name} has {_gib(memory_mib)} of memory: the largest, {has}" + _near(memory_mib, gpu),
            hint="ask for less memory, or for another GPU",
        )
    return min(holding, key=lambda p: (p.memory_slices, -p.compute_slices, p.memory_mib))


def _by_slices(compute_slices: int, gpu: Gpu) -> Profile:
    """Exactly so many compute slices, fewest memory slices."""
    exact = [profile for profile in _plain(gpu) if profile.compute_slices == compute_slices]
    if not exact:
        known = sorted({profile.compute_slices for profile in _plain(gpu)})
        raise PlanError(
            "no-such-slices",
            f"no profile of {gpu.name} has {compute_slices} compute slices; there are profiles with "
            + ", ".join(map(str, known)),
            hint="migctl profiles",
        )
    return min(exact, key=lambda profile: (profile.memory_slices, profile.memory_mib))


def near_miss(memory_mib: int, gpu: Gpu) -> Profile | None:
    """The profile that has almost as much memory as was asked for, one size below."""
    close = [p for p in _plain(gpu) if memory_mib * NEAR_MISS <= p.memory_mib < memory_mib]
    return max(close, key=lambda profile: profile.memory_mib, default=None)


def _near(memory_mib: int, gpu: Gpu) -> str:
    close = near_miss(memory_mib, gpu)
    return f". A near miss: {close.name} has {_gib(close.memory_mib)}" if close else ""


def _unknown(name: str, gpu: Gpu) -> MigctlError:
    names: Sequence[str] = [profile.name for profile in gpu.profiles]
    near = difflib.get_close_matches(name, names, 1, cutoff=0.5)
    return PlanError(
        "no-such-profile",
        f"GPU {gpu.index} ({gpu.name}) has no profile {name}; it offers {', '.join(names)}",
        hint=f"did you mean {near[0]}?" if near else "migctl profiles",
        data={"profiles": list(names)},
    )


def _gib(mib: int) -> str:
    return f"{mib / 1024:.1f} GiB"
