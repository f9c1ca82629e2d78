"""The ways in which people name the GPU of a container, as keys of a job."""

from __future__ import annotations

import re
from collections.abc import Sequence

from migctl.errors import PlanError
from migctl.planfile.importers.sketch import JobSketch, shown

MIG_UUID = re.compile(r"MIG-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
OLD_MIG = re.compile(r"MIG-GPU-[0-9a-fA-F-]+/(?P<gi>\d+)/(?P<ci>\d+)")
GPU_UUID = re.compile(r"GPU-[0-9A-Za-z-]+")
VARIABLES = frozenset({"NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"})
OTHER_VARIABLES = re.compile(r"NVIDIA_MIG_\w+|NVIDIA_IMEX_CHANNELS|CUDA_MPS_\w+|DOCKER_RESOURCE_\w+")
PROFILE = re.compile(r"(?:.*[_.:-])?(?P<name>[0-9]{1,2}g\.[0-9]{1,4}gb(?:[+.-][a-z0-9.]+)?)")


def set_devices(job: JobSketch, ids: Sequence[str], where: str) -> None:
    """What a list of device ids asks for.

    Raises:
        PlanError: it is more than one MIG device.
    """
    found = [one for one in dict.fromkeys(word.strip() for text in ids for word in text.split(",")) if one]
    instances = [one for one in found if one.startswith("MIG-")]
    if len(instances) > 1:
        raise PlanError(
            "two-instances",
            f"{job.name} has {len(instances)} MIG devices ({', '.join(instances)}); one job gets one GPU instance: CUDA uses "
            "a single MIG device in a process, whatever it sees",
            where=where,
            hint="write a job for each, or ask for one larger profile",
        )
    for one in found:
        if old := OLD_MIG.fullmatch(one):
            job.leave(
                f"{where} {one}",
                f"the form before driver 470, GPU instance {old['gi']}, compute instance {old['ci']}: "
                "`nvidia-smi -L` prints today's UUID; write instance: MIG-…",
            )
        elif MIG_UUID.fullmatch(one):
            _instance(job, one, where)
        elif one.isdigit() or GPU_UUID.fullmatch(one):
            job.keys.setdefault("gpu", int(one) if one.isdigit() else one)
            job.note(f"{where}: {one} is a whole GPU; without profile the job gets an instance of it")
        elif re.fullmatch(r"\d+:\d+", one):
            job.leave(
                f"{where} {one}", "GPU and device number, which shift with other instances: write instance: MIG-…"
            )
        elif one not in ("all", "void", "none"):
            job.leave(f"{where} {shown(one)}", "the job gets an instance by its profile")


def _instance(job: JobSketch, uuid: str, where: str) -> None:
    before = job.keys.get("instance")
    if before not in (None, uuid):
        job.leave(f"{where} {uuid}", f"the job has {before} already")
        return
    job.keys["instance"] = uuid


def gpu_variable(job: JobSketch, name: str, value: str) -> bool:
    """Whether this variable chooses a GPU, or is migctl's own; its choice becomes keys of the job then.

    Raises:
        PlanError: as `set_devices`.
    """
    if name.startswith("MIGCTL_"):
        job.leave(f"{name}={shown(value)}", "migctl hands it to the job itself")
        return True
    if OTHER_VARIABLES.fullmatch(name):
        job.leave(f"{name}={shown(value)}", "it would choose GPUs past the plan")
        return True
    if name not in VARIABLES:
        return False
    known = job.keys.get("instance")
    if known is None and (MIG_UUID.fullmatch(value) or "," in value):
        set_devices(job, [value], name)
    elif known != value:
        reason = f"the device is {known}" if known else "migctl gives the job its instance"
        job.leave(f"{name}={shown(value)}", reason)
    return True


def profile_in(text: str) -> str | None:
    """The profile that a name ends with: `a100_3g.40gb`, `nvidia.com/mig-1g.5gb.me`."""
    found = PROFILE.fullmatch(text)
    if found is None:
        return None
    head, _, attribute = found["name"].partition("gb")
    return f"{head}gb+{attribute[1:]}" if attribute.startswith(".") else found["name"]
