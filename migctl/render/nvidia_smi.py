"""The plain `nvidia-smi mig` lines that make and take away a layout, with each instance's placement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from migctl.core.allocation import Assignment


def create_line(assignments: Iterable[Assignment], names: Mapping[str, str]) -> list[str]:
    """One line a GPU: `nvidia-smi mig -i 0 -cgi 9:4,14:2 -C`, profile id and first memory slice of each instance."""
    lines = []
    for gpu, made in by_gpu(assignments).items():
        tuples = ",".join(profile_tuple(a) for a in made)
        told = ", ".join(a.profile.name for a in made if a.profile is not None)
        lines.append(f"nvidia-smi mig -i {names[gpu]} -cgi {tuples} -C    # {told}")
    return lines


def destroy_lines(assignments: Iterable[Assignment], names: Mapping[str, str]) -> list[str]:
    """With the instance ids that `nvidia-smi mig -lgi` lists, so that nobody else's instance goes."""
    lines = []
    for gpu in by_gpu(assignments):
        which = f"nvidia-smi mig -i {names[gpu]}"
        lines.append(f"{which} -dci -gi ID,ID && {which} -dgi -gi ID,ID    # the ids of these: {which} -lgi")
    return lines


def profile_tuple(a: Assignment) -> str:
    """`9:4`: the profile's id on this very GPU, and where the instance begins."""
    assert a.profile is not None
    return f"{a.profile.id}" if a.placement is None else f"{a.profile.id}:{a.placement.start}"


def by_gpu(assignments: Iterable[Assignment]) -> dict[str, list[Assignment]]:
    """Those with an instance to be made, by GPU; large ones first, as the driver packs them best."""
    found: dict[str, list[Assignment]] = {}
    for a in assignments:
        here = found.setdefault(a.gpu_uuid, []) if a.profile is not None and a.instance_uuid is None else None
        # Jobs that share an instance have its place.
        if here is not None and (a.placement is None or all(other.placement != a.placement for other in here)):
            here.append(a)
    return {gpu: sorted(made, key=lambda a: a.placement.start if a.placement else 0) for gpu, made in found.items()}
