"""Success means verified: what was made is listed again and compared."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.core.ownership import Standing, standing
from migctl.core.record import JobState
from migctl.engine.apply import Workshop
from migctl.errors import HostError, MigctlError


def unverified(shop: Workshop, run: str, jobs: Sequence[str]) -> dict[str, MigctlError]:
    """Those of the jobs that were just started whose instance or unit is not there, whatever was reported.

    What NVML called a success must be there, and be ours (NVIDIA/mig-parted#9, #18).
    """
    now = shop.look(run)
    wrong: dict[str, MigctlError] = {}
    for job in jobs:
        record = now.records.get(job)
        if record is None:
            continue
        if record.profile is not None and standing(record.instance, now.observed) is not Standing.OURS:
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
