"""The object of `status --json`; unknown is null with a reason beside it."""

from __future__ import annotations

from migctl.core.cpu.pinning import Pinning
from migctl.core.queueing.course import Span
from migctl.core.views.status import GpuView, InstanceView, JobView, RunView, StatusView
from migctl.render.json_values import VERSION, Json, code_json, mode_json, notice_json, placement_json


def status_json(view: StatusView) -> Json:
    """`status --json`."""
    return {
        "version": VERSION,
        "simulated": bool(view.simulated) or any(run.simulated for run in view.runs),
        "runs": [_run(run) for run in view.runs],
        "gpus": [_gpu(gpu) for gpu in view.gpus],
        "drift": list(view.drift),
        "warnings": [notice_json(notice) for notice in view.notices],
    }


def _run(run: RunView) -> Json:
    return {
        "name": run.name,
        "state": run.state,
        "owner": run.owner or None,
        "plan_path": run.plan_path or None,
        "engine": run.engine,
        "runtime": run.runtime or None,
        "strategy": run.strategy or None,
        "created_at": run.created_at,
        "expected_end_at": run.ends_at,
        "expected_end_reason": run.ends_reason,
        "jobs": [_job(job) | (_place(job) if run.engine != "local" else {}) for job in run.jobs],
    }


def _place(job: JobView) -> Json:
    """Where a job of a cluster is."""
    return {"cluster_id": job.cluster_id, "node": job.node}


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
        "placement": placement_json(job.placement),
        "cpus": str(job.cpus),
        "num_workers": job.num_workers,
        "container_id": job.container_id,
        "pid": job.pid,
        "attempt": job.attempt,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "code": code_json(job.code),
        **_expected(job.expected),
        **_pinning(job.pinning),
    }
    return fields | {f"{name}_reason": why for name, why in job.unknown}


def _expected(span: Span | None) -> Json:
    """When the job is expected to run; nulls where nobody has foreseen it."""
    if span is None:
        return {"expected_start_at": None, "expected_end_at": None}
    reason = {"expected_end_reason": span.reason} if span.reason is not None else {}
    return {"expected_start_at": span.start, "expected_end_at": span.end, **reason}


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
        "mig": mode_json(gpu.mig),
        "mig_reason": gpu.mig_reason,
        "instances": None if gpu.instances is None else [_instance(i) for i in gpu.instances],
        "instances_reason": gpu.instances_reason,
    }


def _instance(instance: InstanceView) -> Json:
    return {
        "gi_id": instance.gi_id,
        "profile": instance.profile,
        "placement": placement_json(instance.placement),
        "mig_uuids": list(instance.mig_uuids),
        "owner": instance.owner,
        "jobs": list(instance.jobs),
    }
