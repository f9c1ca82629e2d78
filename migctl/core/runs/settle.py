"""Bring a record up to date with what is there: close its open intent, and take over how its unit is doing."""

from __future__ import annotations

from dataclasses import replace

from migctl.core.runs.observed import Observed, Unit
from migctl.core.runs.ownership import Standing, made_by, standing
from migctl.core.runs.record import Action, JobState, Ownership, Record, StoppedBy

RESTARTED = "the machine was restarted"
"""Why a job is lost whose boot is over."""
UNVERIFIED = "could not be verified"
"""In the reason of a running job whose start left something unknown: it stays said as long as the job runs."""
_ENDED_BY_RESTART = (None, 255, 128 + 15, 128 + 9)
"""How a job ends with its machine: unseen, found dead when the engine started again (255, moby daemon restore), by the shutdown's
SIGTERM, by its SIGKILL."""


def settle(record: Record, observed: Observed) -> Record:
    """The record as the machine shows it now.

    A crash can lie before an effect, between the effect and its record, or after both; in each case the result tells what is
    really there, so that the same steps continue (`up`) or undo (`down`).
    """
    record = _settle_instance(record, observed)
    record = _settle_unit(record, observed.unit(record.token), observed)
    owned = record.instance
    lent = owned is not None and owned.foreign and record.state is JobState.RUNNING
    if owned is not None and lent and standing(owned, observed) is Standing.GONE:
        why = f"its instance {owned.mig_uuid} is gone: an administrator has removed it"
        return replace(record, state=JobState.LOST, reason=why)
    return record


def _settle_instance(record: Record, observed: Observed) -> Record:
    gpu = observed.gpu(record.gpu_uuid)
    owned = record.instance
    if owned is None:
        made = made_by(record, gpu) if gpu is not None and record.boot_id == observed.boot_id else None
        if made is None:
            return record
        return replace(
            record,
            instance=Ownership(
                gpu_uuid=made.gpu_uuid,
                gi_id=made.gi_id,
                profile_id=made.profile_id,
                placement=made.placement,
                boot_id=observed.boot_id,
            ),
        )
    if owned.foreign:
        return record
    if record.intent is Action.CREATE_COMPUTE_INSTANCE and owned.mig_uuid is None and gpu is not None:
        found = next((i for i in gpu.instances if i.gi_id == owned.gi_id), None)
        matches = (
            found is not None
            and owned.boot_id == observed.boot_id
            and found.profile_id == owned.profile_id
            and found.placement == owned.placement
        )
        if found is not None and matches and len(found.compute_instances) == 1:
            compute = found.compute_instances[0]
            return replace(record, instance=replace(owned, ci_id=compute.ci_id, mig_uuid=compute.mig_uuid))
    match standing(owned, observed):
        case Standing.GONE:
            return replace(record, instance=None)
        case Standing.HALF:
            return replace(record, instance=replace(owned, ci_id=None, mig_uuid=None))
        case Standing.TAKEN:
            # Somebody made another instance where ours was: ours is gone, theirs is not ours to name.
            return replace(record, instance=None)
        case Standing.NONE | Standing.OURS | Standing.UNKNOWN:
            return record


def _settle_unit(record: Record, unit: Unit | None, observed: Observed) -> Record:
    if unit is not None:
        state = unit.state
        reason = unit.reason
        restarted = False
        if record.state is JobState.STOPPED or record.intent is Action.STOP or record.stopped_by is not None:
            # It ended because migctl stopped it: the exit code of a stopped process is no failure of the job.
            ended = JobState.FAILED if record.stopped_by is StoppedBy.TIMEOUT else JobState.STOPPED
            state = ended if unit.state.ended else unit.state
            reason = record.reason or "stopped by migctl"
        elif record.state is JobState.FAILED:
            state, reason = JobState.FAILED, record.reason
        elif record.state is JobState.LOST and unit.state.ended:
            state, reason, restarted = JobState.LOST, record.reason, record.restarted
        elif record.boot_id != observed.boot_id and _restart_ended(unit):
            state, reason, restarted = JobState.LOST, RESTARTED, True
        elif unit.state is JobState.RUNNING and reason is None and UNVERIFIED in (record.reason or ""):
            reason = record.reason
        return replace(
            record,
            container_id=unit.handle,
            state=state,
            pid=unit.pid if unit.pid is not None else record.pid,
            pid_start=unit.pid_start if unit.pid_start is not None else record.pid_start,
            exit_code=unit.exit_code,
            reason=reason,
            restarted=restarted,
            started_at=unit.started_at if unit.started_at is not None else record.started_at,
            finished_at=unit.finished_at,
        )
    if record.state is JobState.RUNNING:
        restarted = record.boot_id != observed.boot_id
        why = RESTARTED if restarted else "its process or container is gone"
        return replace(record, state=JobState.LOST, container_id=None, reason=why, restarted=restarted)
    # Removed by a step whose record was lost, or by hand: either way there is nothing left to remove.
    return replace(record, container_id=None)


def lost_by_restart(record: Record) -> bool:
    """Whether the settled record's job would have gone on had the machine not been restarted."""
    return record.state is JobState.LOST and record.restarted


def _restart_ended(unit: Unit) -> bool:
    return unit.state in (JobState.FAILED, JobState.LOST) and unit.exit_code in _ENDED_BY_RESTART
