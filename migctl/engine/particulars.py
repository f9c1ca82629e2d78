"""What a step has to know of the record that it is for, or the error that says it is not known."""

from __future__ import annotations

from migctl.core.gpu.mig import Gpu, Profile
from migctl.core.runs.record import Ownership, Record
from migctl.errors import HostError


def unit_of(record: Record) -> str:
    """The container or process."""
    if record.container_id is None:
        raise HostError("no-unit", f"the container or process of {record.job} is not known", where=f"job {record.job}")
    return record.container_id


def owned_by(record: Record) -> Ownership:
    """The instance, which is the run's own."""
    if record.instance is None or record.instance.foreign:
        raise HostError("not-ours", f"{record.job} owns no GPU instance", where=f"job {record.job}")
    return record.instance


def known(value: int | None) -> int:
    """A value that cannot be missing here."""
    assert value is not None
    return value


def profile_of(gpu: Gpu, record: Record) -> Profile:
    """The profile of the instance that is to be made."""
    for profile in gpu.profiles:
        if profile.id == record.profile_id:
            return profile
    raise HostError(
        "profile-gone",
        f"{gpu.name} no longer offers profile {record.profile} (id {record.profile_id})",
        where=f"job {record.job}",
        hint="migctl profiles",
    )
