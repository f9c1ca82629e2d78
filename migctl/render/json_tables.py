"""The objects of `check`, `workers` and `profiles` with `--json`."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.core.choices import Storage
from migctl.core.gpu.mig import Profile
from migctl.core.views.findings import Finding
from migctl.core.views.tables import BoardProfiles, WorkersRow
from migctl.errors import Notice
from migctl.render.json_values import VERSION, Json, notice_json, placement_json


def check_json(findings: Sequence[Finding], *, simulated: bool = False) -> Json:
    """`check --json`."""
    return {
        "version": VERSION,
        "simulated": simulated,
        "findings": [{"id": f.id, "level": f.level.value, "message": f.message, "hint": f.hint} for f in findings],
    }


def workers_json(rows: Sequence[WorkersRow], *, storage: Storage | None = None, notices: Sequence[Notice] = ()) -> Json:
    """`workers --json`: the one row's fields at the top, or `rows` where a table was asked for."""
    warnings = [notice_json(notice) for notice in notices]
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
        "placements": [placement_json(placement) for placement in profile.placements],
    }
