"""A MIG device that an administrator made and a job asks for by its UUID: found, or refused where it may not be used."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from migctl.core.choices import Strategy
from migctl.core.gpu.mig import UNKNOWN_PLACEMENT, ComputeInstance, Gpu, Instance, Profile
from migctl.core.gpu.selection import plan_gpus, select_gpus
from migctl.core.gpu.share import GpuShare
from migctl.core.machine import Machine
from migctl.core.plan import ByInstance, Job, Plan
from migctl.errors import Busy, HostError, PlanError

_OLD_FORM = re.compile(r"MIG-(GPU-[0-9a-fA-F-]+)/(\d+)/(\d+)")
_LISTED = 8
"""Devices named before "and N more"."""


@dataclass(frozen=True, slots=True)
class Device:
    """A MIG device and where it is."""

    gpu: Gpu
    instance: Instance
    compute: ComputeInstance


def device(uuid: str, gpus: Sequence[Gpu]) -> Device | None:
    """The MIG device of this UUID."""
    return next((d for d in _devices(gpus) if d.compute.mig_uuid.lower() == uuid.lower()), None)


def chosen_gpus(plan: Plan, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """The GPUs that the plan means; where it names none and every job names its instance, those of the instances.

    Raises:
        MigctlError: as `select_gpus`.
    """
    asked = [job.request.mig_uuid for job in plan.jobs if isinstance(job.request, ByInstance)]
    if not plan.gpus and asked and len(asked) == len(plan.jobs):
        found = {d.gpu.uuid for d in (device(uuid, gpus) for uuid in asked) if d is not None}
        if found:
            return tuple(gpu for gpu in gpus if gpu.uuid in found)
    return plan_gpus(plan, gpus)


def administered(
    plan: Plan, machine: Machine, gpus: Sequence[Gpu], placed: Mapping[str, GpuShare]
) -> dict[str, GpuShare]:
    """The shares of the jobs that name their instance and have none yet.

    Args:
        plan: what is asked for.
        machine: what is there.
        gpus: those that the plan means.
        placed: jobs that have a place already.

    Raises:
        PlanError: there is no such device, it is of a run, two jobs name it, or its GPU is not one of the plan's.
        Busy: somebody's process runs on it.
    """
    takers = {share.instance_uuid: name for name, share in placed.items() if share.instance_uuid is not None}
    shares: dict[str, GpuShare] = {}
    for job in plan.jobs:
        if not isinstance(job.request, ByInstance) or job.name in placed:
            continue
        found = device(job.request.mig_uuid, machine.gpus)
        if found is None:
            raise _unknown(job.request.mig_uuid, job, machine)
        uuid = found.compute.mig_uuid
        _refuse_other_gpu(found, job, gpus)
        _refuse_taken(found, job, takers.get(uuid), machine)
        takers[uuid] = job.name
        profile = _profile(found)
        known = found.instance.placement != UNKNOWN_PLACEMENT
        shares[job.name] = GpuShare(
            gpu=found.gpu,
            profile=profile,
            placement=found.instance.placement if known else None,
            memory_mib=profile.memory_mib,
            instance_uuid=uuid,
        )
    return shares


def _devices(gpus: Sequence[Gpu]) -> Iterator[Device]:
    for gpu in gpus:
        for instance in gpu.instances:
            for compute in instance.compute_instances:
                yield Device(gpu, instance, compute)


def _profile(found: Device) -> Profile:
    """Without root the driver tells its name, not its id."""
    for profile in found.gpu.profiles:
        if found.instance.profile_id == profile.id or found.instance.profile == profile.name:
            return profile
    raise HostError(
        "profile-unknown",
        f"the driver does not tell the profile of {found.compute.mig_uuid}, so its memory is not known",
        where=f"GPU {found.gpu.index}",
        hint="run it with sudo",
    )


def _refuse_other_gpu(found: Device, job: Job, gpus: Sequence[Gpu]) -> None:
    allowed = select_gpus(job.gpus, gpus, Strategy.MIG) if job.gpus else gpus
    if all(found.gpu.uuid != gpu.uuid for gpu in allowed):
        raise PlanError(
            "instance-elsewhere",
            f"{found.compute.mig_uuid} is on GPU {found.gpu.index}, and gpu: selects "
            f"{', '.join(f'GPU {gpu.index}' for gpu in allowed)}",
            where=job.place("gpu", "instance"),
            hint=f"gpu: {found.gpu.index}, or leave gpu: away where every job names its instance",
        )


def _refuse_taken(found: Device, job: Job, taker: str | None, machine: Machine) -> None:
    uuid = found.compute.mig_uuid
    if taker is not None:
        raise PlanError(
            "instance-twice",
            f"{taker} and {job.name} both name {uuid}: one instance carries one job",
            where=job.place("instance"),
            hint="give each job an instance of its own",
        )
    owner = machine.owners.get((found.gpu.uuid, found.instance.gi_id))
    if owner is not None:
        raise PlanError(
            "instance-of-a-run",
            f"{uuid} is the instance of {owner}, a run of migctl's: it is in use, and goes away with that run",
            where=job.place("instance"),
            hint=f"profile: {found.instance.profile} gives the job an instance of its own",
        )
    if len(found.instance.compute_instances) > 1:
        return  # whose process is on which part of the GPU instance the driver does not tell
    users = [p.pid for p in found.gpu.processes if p.gi_id == found.instance.gi_id]
    if users:
        raise Busy(
            "instance-in-use",
            f"{uuid} is in use by {', '.join(machine.processes.get(pid, f'pid {pid}') for pid in users[:_LISTED])}",
            where=job.place("instance"),
            hint="try again when they have ended, or name another instance",
            data={"pids": users},
        )


def _unknown(uuid: str, job: Job, machine: Machine) -> PlanError:
    if old := _OLD_FORM.fullmatch(uuid):
        gpu, gi_id, ci_id = old[1].lower(), int(old[2]), int(old[3])
        meant = [
            d.compute.mig_uuid
            for d in _devices(machine.gpus)
            if d.gpu.uuid.lower().startswith(gpu) and (d.instance.gi_id, d.compute.ci_id) == (gi_id, ci_id)
        ]
        return PlanError(
            "old-mig-uuid",
            f"{uuid} is the form before driver 470 (GPU instance {gi_id}, compute instance {ci_id}); drivers since do not know it",
            where=job.place("instance"),
            hint=f"write {meant[0]}"
            if len(meant) == 1
            else "nvidia-smi -L and migctl status print the new one: MIG- and a UUID",
            data={"instances": meant},
        )
    free = [d for d in _devices(machine.gpus) if (d.gpu.uuid, d.instance.gi_id) not in machine.owners]
    words = [f"{d.compute.mig_uuid} ({d.instance.profile}, GPU {d.gpu.index})" for d in free[:_LISTED]]
    words += [f"and {len(free) - _LISTED} more"] if len(free) > _LISTED else []
    there = f"there {'is' if len(free) == 1 else 'are'} {', '.join(words)}" if free else "nobody has made any"
    near = difflib.get_close_matches(uuid, [d.compute.mig_uuid for d in free], 1, cutoff=0.8)
    return PlanError(
        "no-such-instance",
        f"no MIG device has the UUID {uuid}; {there}",
        where=job.place("instance"),
        hint=f"did you mean {near[0]}?" if near else "nvidia-smi -L lists them; profile: lets migctl make one",
        data={"instances": [d.compute.mig_uuid for d in free]},
    )
