"""The JSON objects of `--json`: field names are a contract, every value is plain, unknown is null with a reason beside it."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.core.allocation import Assignment
from migctl.core.choices import Storage
from migctl.core.mig import MigMode, Placement, Profile
from migctl.core.pinning import Pinning
from migctl.core.views.findings import Finding
from migctl.core.views.pictures import GpuPicture, Seat
from migctl.core.views.plan import PlanView
from migctl.core.views.status import GpuView, InstanceView, JobView, RunView, StatusView
from migctl.core.views.tables import BoardProfiles, WorkersRow
from migctl.errors import MigctlError, Notice, Where

Json = dict[str, object]

VERSION = 1
"""Grows only when a field changes its meaning or goes; new fields do not change it."""


def plan_json(view: PlanView) -> Json:
    """`plan --json`."""
    allocation = view.allocation
    idle = allocation.idle
    return {
        "version": VERSION,
        "name": view.name,
        "simulated": bool(view.simulated),
        "strategy": allocation.strategy.value,
        "fits": view.fits,
        "waiting": list(allocation.waiting),
        "conflict": list(allocation.conflict),
        "blocked": _error(allocation.blocked) if allocation.blocked is not None else None,
        "gpus": [_picture(gpu) for gpu in view.gpus],
        "jobs": [_assignment(assignment) for assignment in allocation.assignments],
        "idle": {
            "compute_slices": int(idle.compute_slices),
            "memory_slices": int(idle.memory_slices),
            "cores": idle.cores,
            "could_add": list(idle.could_add),
        },
        "steps": list(view.steps),
        "warnings": [_notice(notice) for notice in allocation.notices],
    }


def status_json(view: StatusView) -> Json:
    """`status --json`."""
    return {
        "version": VERSION,
        "simulated": bool(view.simulated) or any(run.simulated for run in view.runs),
        "runs": [_run(run) for run in view.runs],
        "gpus": [_gpu(gpu) for gpu in view.gpus],
        "drift": list(view.drift),
        "warnings": [_notice(notice) for notice in view.notices],
    }


def check_json(findings: Sequence[Finding], *, simulated: bool = False) -> Json:
    """`check --json`."""
    return {
        "version": VERSION,
        "simulated": simulated,
        "findings": [{"id": f.id, "level": f.level.value, "message": f.message, "hint": f.hint} for f in findings],
    }


def workers_json(rows: Sequence[WorkersRow], *, storage: Storage | None = None, notices: Sequence[Notice] = ()) -> Json:
    """`workers --json`: the one row's fields at the top, or `rows` where a table was asked for."""
    warnings = [_notice(notice) for notice in notices]
    kind = storage.value if storage is not None else None
    if len(rows) == 1:
        return {"version": VERSION, **_workers(rows[0]), "storage": kind, "warnings": warnings}
    return {"version": VERSION, "rows": [_workers(row) for row in rows], "storage": kind, "warnings": warnings}


def profiles_json(boards: Sequence[BoardProfiles], *, simulated: bool = False) -> Json:
    """`profiles --json`."""
    return {
        "version": VERSION,
        "simulated": simulated,
        "gpus": [
            {
                "uuid": board.uuid,
                "index": board.index,
                "name": board.name,
                "profiles": [_profile(profile) for profile in board.profiles],
                "profiles_reason": board.reason or None,
            }
            for board in boards
        ],
    }


def errors_json(error: MigctlError) -> Json:
    """Any failure with `--json`; also on stdout."""
    return {"version": VERSION, "errors": [_error(one) for one in error.all]}


def _error(error: MigctlError) -> Json:
    return {
        "id": error.id,
        "message": error.message,
        "where": _where(error.where),
        "position": _position(error.where),
        "hint": error.hint,
        "exit_code": error.exit_code,
        "data": dict(error.data),
    }


def _notice(notice: Notice) -> Json:
    return {"id": notice.id, "message": notice.message, "where": _where(notice.where), "hint": notice.hint}


def _where(where: Where | str | None) -> str | None:
    return None if where is None else str(where)


def _position(where: Where | str | None) -> Json | None:
    """The parts of a place in a file; 0 = the whole file."""
    if not isinstance(where, Where):
        return None
    return {"file": where.file, "line": where.line, "column": where.column}


def _placement(placement: Placement | None) -> Json | None:
    return None if placement is None else {"start": placement.start, "size": int(placement.size)}


def _mode(mode: MigMode | None) -> Json | None:
    return None if mode is None else {"current": mode.current, "pending": mode.pending}


def _picture(gpu: GpuPicture) -> Json:
    layout = None if gpu.reason and not gpu.seats else [_seat(seat) for seat in gpu.seats]
    return {
        "uuid": gpu.uuid,
        "index": gpu.index,
        "name": gpu.name,
        "mig": _mode(gpu.mig),
        "memory_slices": gpu.memory_slices,
        "compute_slices": gpu.compute_slices,
        "layout": layout,
        "layout_reason": gpu.reason if layout is None else None,
    }


def _seat(seat: Seat) -> Json:
    return {
        "start": seat.placement.start,
        "size": int(seat.placement.size),
        "profile": seat.profile,
        "job": seat.job,
        "owner": seat.owner,
    }


def _assignment(assignment: Assignment) -> Json:
    cpu = assignment.cpu
    return {
        "name": assignment.job.name,
        "gpu_uuid": assignment.gpu_uuid,
        "profile": assignment.profile.name if assignment.profile is not None else None,
        "placement": _placement(assignment.placement),
        "cpus": str(cpu.cpus),
        "cores": cpu.cores,
        "num_workers": cpu.num_workers,
        "threads": cpu.threads,
        "memory_mib": assignment.memory_mib,
        "batch_size": assignment.batch_size,
    }


def _run(run: RunView) -> Json:
    return {
        "name": run.name,
        "state": run.state,
        "owner": run.owner or None,
        "plan_path": run.plan_path or None,
        "runtime": run.runtime or None,
        "strategy": run.strategy or None,
        "created_at": run.created_at,
        "jobs": [_job(job) for job in run.jobs],
    }


def _job(job: JobView) -> Json:
    fields: Json = {
        "name": job.name,
        "state": job.state.value,
        "exit_code": job.exit_code,
        "reason": job.reason,
        "gpu_uuid": job.gpu_uuid,
        "gi_id": job.gi_id,
        "ci_id": job.ci_id,
        "mig_uuid": job.mig_uuid,
        "profile": job.profile,
        "placement": _placement(job.placement),
        "cpus": str(job.cpus),
        "num_workers": job.num_workers,
        "container_id": job.container_id,
        "pid": job.pid,
        "attempt": job.attempt,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        **_pinning(job.pinning),
    }
    return fields | {f"{name}_reason": why for name, why in job.unknown}


def _pinning(seen: Pinning | None) -> Json:
    """The job's processes at this moment; `workers_alive` beside the planned `num_workers`."""
    return {
        "workers_alive": seen.workers if seen is not None else None,
        "processes": seen.processes if seen is not None else None,
        "threads": seen.threads if seen is not None else None,
        "runnable_threads": seen.runnable if seen is not None else None,
        "threads_per_core": round(seen.threads_per_core, 2) if seen is not None else None,
        "pinning": [{"id": f.slip.value, "message": f.message, "hint": f.hint or None} for f in seen.findings]
        if seen is not None
        else None,
    }


def _gpu(gpu: GpuView) -> Json:
    return {
        "uuid": gpu.uuid,
        "index": gpu.index,
        "name": gpu.name,
        "mig": _mode(gpu.mig),
        "mig_reason": gpu.mig_reason,
        "instances": None if gpu.instances is None else [_instance(i) for i in gpu.instances],
        "instances_reason": gpu.instances_reason,
    }


def _instance(instance: InstanceView) -> Json:
    return {
        "gi_id": instance.gi_id,
        "profile": instance.profile,
        "placement": _placement(instance.placement),
        "mig_uuids": list(instance.mig_uuids),
        "owner": instance.owner,
    }


def _workers(row: WorkersRow) -> Json:
    return {
        "cores": row.cores,
        "jobs": row.jobs,
        "num_workers": row.num_workers,
        "cores_per_job": row.cores_per_job,
        "note": row.note,
    }


def _profile(profile: Profile) -> Json:
    return {
        "name": profile.name,
        "id": profile.id,
        "memory_mib": profile.memory_mib,
        "memory_slices": int(profile.memory_slices),
        "compute_slices": int(profile.compute_slices),
        "multiprocessors": profile.multiprocessors,
        "max_instances": profile.max_instances,
        "placements": [_placement(placement) for placement in profile.placements],
    }
