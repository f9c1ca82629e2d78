"""The report as one JSON object: everything that the page is drawn from; unknown is null."""

from __future__ import annotations

from migctl.core.seeing.spells import Spell
from migctl.core.seeing.tracks import Sample
from migctl.core.views.report import ReportAttempt, ReportView
from migctl.render.json_values import VERSION, Json, code_json, notice_json, placement_json


def report_json(view: ReportView) -> Json:
    """`report --json` and `--format json`."""
    machine = view.machine
    return {
        "version": VERSION,
        "name": view.name,
        "state": view.state,
        "plan_path": view.plan_path or None,
        "runtime": view.runtime or None,
        "strategy": view.strategy or None,
        "engine": view.engine,
        "simulated": bool(view.simulated),
        "made_at": view.now,
        "created_at": view.created_at,
        "ended_at": view.ended_at,
        "machine": {
            "host": machine.host,
            "kernel": machine.kernel,
            "cores": machine.cores,
            "logical_cpus": machine.logical_cpus,
            "numa_nodes": machine.nodes,
            "memory_mib": machine.memory_mib,
            "migctl": machine.version,
        },
        "gpus": [
            {
                "uuid": gpu.uuid,
                "index": gpu.index,
                "name": gpu.name if gpu.known else None,
                "memory_slices": gpu.memory_slices or None,
                "memory_mib": gpu.memory_mib or None,
                "present": gpu.known,
            }
            for gpu in view.gpus
        ],
        "jobs": [{"name": job.name, "keys": dict(job.keys) or None} for job in view.plan],
        "waiting": [{"job": w.job, "state": w.state.value, "reason": w.reason} for w in view.waiting],
        "attempts": [_attempt(attempt) for attempt in view.attempts],
        "verdicts": [_spell(spell) for spell in view.verdicts],
        "samples": [_sample(sample) for sample in view.samples],
        "warnings": [notice_json(notice) for notice in view.notices],
    }


def _attempt(attempt: ReportAttempt) -> Json:
    return {
        "job": attempt.job,
        "attempt": attempt.attempt,
        "state": attempt.state.value,
        "exit_code": attempt.exit_code,
        "reason": attempt.reason,
        "gpu_uuid": attempt.gpu_uuid,
        "gi_id": attempt.gi_id,
        "profile": attempt.profile,
        "placement": placement_json(attempt.placement),
        "memory_mib": attempt.memory_mib,
        "cpus": str(attempt.cpus),
        "cores": attempt.cores,
        "num_workers": attempt.num_workers,
        "started_at": attempt.started_at,
        "finished_at": attempt.finished_at,
        "code": code_json(attempt.code),
    }


def _spell(spell: Spell) -> Json:
    return {
        "job": spell.job or None,
        "gpu_uuid": spell.gpu or None,
        "kind": spell.kind,
        "title": spell.title,
        "message": spell.message,
        "hint": spell.hint or None,
        "begin_at": spell.begin_s,
        "end_at": spell.end_s,
    }


def _sample(sample: Sample) -> Json:
    return {
        "at": sample.at_s,
        "seconds": sample.seconds,
        "jobs": {job: dict(figures) for job, figures in sample.jobs.items()},
        "cpus": {str(cpu): load for cpu, load in sample.cpus.items()},
        "gpus": {uuid: dict(figures) for uuid, figures in sample.gpus.items()},
    }
