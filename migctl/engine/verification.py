"""Success means verified: what was made is listed again and compared."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.core.runs.observed import Observed
from migctl.core.runs.ownership import Standing, standing
from migctl.core.runs.record import JobState, Record
from migctl.engine.apply import Workshop
from migctl.errors import HostError, MigctlError


def unverified(shop: Workshop, run: str, jobs: Sequence[str], *, unseen: bool) -> dict[str, MigctlError]:
    """Those of the jobs that were just started whose instance or unit is not there, whatever was reported.

    What NVML called a success must be there, and be ours (NVIDIA/mig-parted#9, #18).

    Args:
        unseen: whether an instance on a GPU that cannot be read now counts too; not for somebody who looks again soon.
    """
    now = shop.look(run)
    wrong: dict[str, MigctlError] = {}
    for job in jobs:
        record = now.records.get(job)
        if record is None:
            continue
        stands = standing(record.instance, now.observed)
        if record.profile is not None and stands is Standing.UNKNOWN:
            if unseen:
                wrong[job] = _unseen(record, now.observed)
        elif record.profile is not None and stands is not Standing.OURS:
            wrong[job] = HostError(
                "instance-missing",
                f"the driver reported success, but the GPU instance of {job} ({record.profile}) is not there as recorded",
                where=f"job {job}",
                hint="migctl check",
            )
        elif record.state is JobState.LOST:
            wrong[job] = HostError(
                "unit-missing", f"{job} was started and is gone", where=f"job {job}", hint="migctl check"
            )
    return wrong


def _unseen(record: Record, observed: Observed) -> HostError:
    gpu = observed.gpu(record.gpu_uuid)
    told = (
        [gpu.instances_reason] if gpu is not None and gpu.instances_reason else [e.message for e in observed.failures]
    )
    return HostError(
        "instance-unseen",
        f"{record.job} was started, but whether its GPU instance ({record.profile}) is there cannot be seen: "
        + ("; ".join(dict.fromkeys(told)) or "its GPU does not answer"),
        where=f"job {record.job}",
        hint="migctl check",
    )
