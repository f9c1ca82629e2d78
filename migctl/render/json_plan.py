"""The object of `plan --json`."""

from __future__ import annotations

from migctl.core.allocation import Assignment
from migctl.core.views.pictures import GpuPicture, Seat
from migctl.core.views.plan import PlanView
from migctl.render.json_errors import error_json
from migctl.render.json_values import VERSION, Json, mode_json, notice_json, placement_json


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
        "waits": [{"name": job, "reason": why} for job, why in view.waits.items()],
        "conflict": list(allocation.conflict),
        "blocked": error_json(allocation.blocked) if allocation.blocked is not None else None,
        "gpus": [_picture(gpu) for gpu in view.gpus],
        "jobs": [_assignment(assignment) for assignment in allocation.assignments],
        "idle": {
            "compute_slices": int(idle.compute_slices),
            "memory_slices": int(idle.memory_slices),
            "cores": idle.cores,
            "could_add": list(idle.could_add),
        },
        "forecast": _forecast(view),
        "steps": list(view.steps),
        "warnings": [notice_json(notice) for notice in allocation.notices],
    }


def _forecast(view: PlanView) -> Json | None:
    """Seconds from now."""
    course = view.course
    if course is None:
        return None

    def after(at: float | None) -> float | None:
        return round(at - view.now, 3) if at is not None else None

    return {
        "ends_in_s": after(course.ends_at),
        "ends_in_s_reason": course.reason,
        "jobs": [
            {
                "name": name,
                "start_in_s": after(one.start),
                "end_in_s": after(one.end),
                "reason": one.reason,
                "gpu_uuid": one.gpu_uuid,
                "profile": one.profile or None,
                "placement": placement_json(one.placement),
            }
            for name, one in course.jobs.items()
        ],
    }


def _picture(gpu: GpuPicture) -> Json:
    layout = None if gpu.reason and not gpu.seats else [_seat(seat) for seat in gpu.seats]
    return {
        "uuid": gpu.uuid,
        "index": gpu.index,
        "name": gpu.name,
        "mig": mode_json(gpu.mig),
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
        "jobs": [*([seat.job] if seat.job is not None else []), *seat.mates],
        "owner": seat.owner,
    }


def _assignment(assignment: Assignment) -> Json:
    cpu = assignment.cpu
    return {
        "name": assignment.job.name,
        "gpu_uuid": assignment.gpu_uuid,
        "profile": assignment.profile.name if assignment.profile is not None else None,
        "placement": placement_json(assignment.placement),
        "cpus": str(cpu.cpus),
        "cores": cpu.cores,
        "num_workers": cpu.num_workers,
        "threads": cpu.threads,
        "memory_mib": assignment.memory_mib,
        "batch_size": assignment.batch_size,
        "needs": list(assignment.job.needs),
        "stage": assignment.job.stage,
        "priority": assignment.job.priority,
        "retries": assignment.job.retries,
        "timeout_s": assignment.job.timeout_s,
        "expect_s": assignment.job.expect_s,
    }
