"""From what a job asks for to a profile of one GPU: by name, by memory or by compute slices."""

from __future__ import annotations

import difflib
import re
from typing import assert_never

from migctl.core.gpu.mig import Gpu, Profile
from migctl.core.plan import Auto, ByInstance, ByMemory, ByProfile, BySlices, GpuRequest
from migctl.errors import DoesNotFit, HostError, MigctlError, Notice, PlanError

_SIZE = re.compile(r"([0-9]+)g\.([0-9]+)gb(.*)")
_LABEL = re.compile(r"(gb)\.([a-z])")
"""In a Kubernetes resource name a dot stands for the plus sign, which is not allowed there."""
NEAR_MISS = 0.9
"""A profile with at least this part of the memory asked for is named as the near miss it is."""


def options(request: GpuRequest, gpu: Gpu) -> Profile:
    """The profile that a request means on this very GPU.

    Raises:
        PlanError: no profile has that name or number of slices here.
        DoesNotFit: no profile has that much memory.
        HostError: the driver names no profiles, which many do only with MIG mode on.
    """
    if not gpu.profiles:
        raise HostError(
            "no-profiles",
            f"the driver names no profiles of GPU {gpu.index} ({gpu.name})"
            + (": many do so only in MIG mode" if gpu.mig is not None else ": it has no MIG"),
            where=f"GPU {gpu.index}",
            hint="plan for this board without its driver: migctl plan --on BOARD"
            if gpu.mig is not None
            else "strategy: shared",
        )
    match request:
        case ByProfile(name):
            return _by_name(name, gpu)
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


def _by_name(name: str, gpu: Gpu) -> Profile:
    """The profile of this name; nvidia-smi's `MIG 1g.5gb` and Kubernetes' `1g.5gb.me` (for `+me`) are understood."""
    plain = name.strip()
    if plain.lower().startswith("mig "):
        plain = plain[4:].strip()
    found = gpu.profile_named(plain) or gpu.profile_named(_LABEL.sub(r"\1+\2", plain))
    if found is None:
        raise _unknown(plain, gpu)
    return found


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
    return max(close, key=lambda profile: (profile.memory_mib, profile.compute_slices), default=None)


def _near(memory_mib: int, gpu: Gpu) -> str:
    close = near_miss(memory_mib, gpu)
    return f". A near miss: {close.name} has {_gib(close.memory_mib)}" if close else ""


def near_miss_notice(request: GpuRequest, gpu: Gpu) -> Notice | None:
    """What to say where a little less memory would have needed a smaller profile: `2g.10gb has 9.6 GiB`."""
    if not isinstance(request, ByMemory):
        return None
    close = near_miss(request.memory_mib, gpu)
    chosen = options(request, gpu)
    if close is None or close.memory_slices >= chosen.memory_slices:
        return None
    return Notice(
        "near-miss",
        f"memory: {_gib(request.memory_mib)} takes {chosen.name}; {close.name} has {_gib(close.memory_mib)}",
        hint=f"memory: {close.memory_mib}MiB or profile: {close.name}, if that is enough",
    )


def _unknown(name: str, gpu: Gpu) -> MigctlError:
    names = [profile.name for profile in gpu.profiles]
    by_id = next((profile.name for profile in gpu.profiles if str(profile.id) == name), None)
    near = by_id or _nearest(name, gpu)
    return PlanError(
        "no-such-profile",
        f"GPU {gpu.index} ({gpu.name}) has no profile {name}; it offers {', '.join(names)}",
        hint=f"did you mean {near}?" if near else "migctl profiles",
        data={"profiles": names},
    )


def _nearest(name: str, gpu: Gpu) -> str | None:
    """Of the same compute slices and attribute the nearest memory, since names differ in it between boards; else like spelling."""
    size = _SIZE.fullmatch(name)
    if size is not None:
        same = [
            (abs(int(other[2]) - int(size[2])), profile.name)
            for profile in gpu.profiles
            if (other := _SIZE.fullmatch(profile.name)) and (other[1], other[3]) == (size[1], size[3])
        ]
        if same:
            return min(same)[1]
    close = difflib.get_close_matches(name, [profile.name for profile in gpu.profiles], 1, cutoff=0.5)
    return close[0] if close else None


def _gib(mib: int) -> str:
    return f"{mib / 1024:.1f} GiB"
