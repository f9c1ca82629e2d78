"""Whether an instance seen on a GPU is the one a record owns: all parts of the identity must match, or it is a stranger's."""

from __future__ import annotations

from enum import StrEnum

from migctl.core.gpu.mig import Gpu, Instance
from migctl.core.runs.observed import Observed
from migctl.core.runs.record import Action, Ownership, Record
from migctl.errors import HostError

NOT_OURS = "not ours"
"""Owner of what migctl did not make."""
ADMINISTRATORS = "administrator's"
"""Owner of an instance that a job uses by its UUID."""
NO_COMPUTE_INSTANCE = "unusable (no compute instance)"
"""A GPU instance in which nothing can run (NVIDIA MIG User Guide: both instances are needed)."""


class Standing(StrEnum):
    """What became of the instance that a record owns."""

    NONE = "none"
    """The record owns nothing."""
    OURS = "ours"
    """Everything matches: GPU UUID, GI id, profile id, placement, MIG UUID, boot id; of an administrator's: it is there."""
    HALF = "half"
    """Our GPU instance without a compute instance."""
    GONE = "gone"
    """Not there any more (destroyed by hand, reset, reboot)."""
    TAKEN = "taken"
    """Something else is in its place: never touched."""
    UNKNOWN = "unknown"
    """The GPU could not be read: nothing may be concluded."""


def standing(owned: Ownership | None, observed: Observed) -> Standing:
    """Compare an ownership with what is on the GPU now."""
    if owned is None:
        return Standing.NONE
    if owned.foreign:
        return _lent(owned, observed)
    if owned.boot_id != observed.boot_id:
        # Instances never survive a reboot (NVIDIA MIG User Guide): what has our ids now is somebody else's.
        return Standing.GONE
    gpu = observed.gpu(owned.gpu_uuid)
    if gpu is None or gpu.instances_reason is not None:
        return Standing.UNKNOWN
    found = next((instance for instance in gpu.instances if instance.gi_id == owned.gi_id), None)
    if found is None:
        return Standing.GONE
    if found.profile_id != owned.profile_id or found.placement != owned.placement:
        return Standing.TAKEN
    if not found.compute_instances:
        return Standing.HALF
    if len(found.compute_instances) != 1 or owned.mig_uuid is None:
        # We make exactly one compute instance, and record it before anything runs there.
        return Standing.TAKEN
    compute = found.compute_instances[0]
    same = compute.mig_uuid == owned.mig_uuid and compute.ci_id == owned.ci_id
    return Standing.OURS if same else Standing.TAKEN


def _lent(owned: Ownership, observed: Observed) -> Standing:
    """An administrator's device is known by its UUID alone: it is never destroyed, and after a reboot it may be there again."""
    gpu = observed.gpu(owned.gpu_uuid)
    if gpu is None:
        return Standing.UNKNOWN
    there = any(ci.mig_uuid == owned.mig_uuid for i in gpu.instances for ci in i.compute_instances)
    return Standing.OURS if there else Standing.GONE


def made_by(record: Record, gpu: Gpu) -> Instance | None:
    """The GPU instance that an open intent to create must have made, if the effect happened before the crash.

    The placement was free when the intent was written. Only an instance without a compute instance counts: ours had none yet, and
    one with a compute instance may hold a stranger's work.
    """
    if record.intent is not Action.CREATE_GPU_INSTANCE or record.gpu_uuid != gpu.uuid:
        return None
    return next(
        (
            instance
            for instance in gpu.instances
            if instance.profile_id == record.profile_id
            and instance.placement == record.placement
            and not instance.compute_instances
        ),
        None,
    )


def has_open_half(record: Record) -> bool:
    """Whether the record owns a GPU instance in which it was about to make the compute instance.

    While that cannot be seen nothing is done to it: the open intent is all that makes the compute instance ours.
    """
    owned = record.instance
    return (
        record.intent is Action.CREATE_COMPUTE_INSTANCE
        and owned is not None
        and not owned.foreign
        and owned.mig_uuid is None
    )


def in_doubt(record: Record, observed: Observed) -> HostError | None:
    """Why nobody can say now whether an open intent to create made its instance; `None` where it is known.

    A record in doubt must not be dropped: it is all that tells of the instance when the GPU answers again.
    """
    half = has_open_half(record)
    if not half and (record.intent is not Action.CREATE_GPU_INSTANCE or record.instance is not None):
        return None
    gpu = observed.gpu(record.gpu_uuid)
    if gpu is not None:
        why = gpu.instances_reason if half or made_by(record, gpu) is None else None
    else:
        ours = [error for error in observed.failures if error.data.get("gpu") == record.gpu_uuid]
        why = next((error.message for error in (*ours, *observed.failures)), None)
    if why is None or record.boot_id != observed.boot_id:
        return None
    return HostError(
        "instance-in-doubt",
        f"whether {'the compute instance of ' if half else ''}{record.profile} at {record.placement} was made for {record.job} "
        f"cannot be seen: {why}",
        where=record.gpu_uuid,
        hint=f"migctl down {record.run}, when the GPU answers again",
    )
