"""The JSON contract: field names and kinds of value that programs rely on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pytest

from migctl.core.views.tables import BoardProfiles, WorkersRow
from migctl.errors import PlanError, Problems, Where
from migctl.render.json_errors import errors_json
from migctl.render.json_plan import plan_json
from migctl.render.json_status import status_json
from migctl.render.json_tables import check_json, profiles_json, workers_json
from migctl.render.json_values import Json
from tests.support import render_values as values

ERROR = PlanError("unknown-key", "unknown key", where=Where("plan.yaml", 7, 5, "x"), hint="try")

OBJECTS: dict[str, Json] = {
    "plan": plan_json(values.beside_strangers()),
    "plan-waiting": plan_json(values.fragmented()),
    "status": status_json(values.busy_status()),
    "check": check_json(values.FINDINGS, simulated=True),
    "workers": workers_json([WorkersRow(cores=16, jobs=4, num_workers=4, cores_per_job=4, note="an even split")]),
    "profiles": profiles_json([BoardProfiles(name="NVIDIA A30", profiles=values.A30, index=0, uuid="GPU-0")]),
    "errors": errors_json(Problems([ERROR, PlanError("no-jobs", "no jobs")])),
}
FIELDS: dict[str, dict[str, set[str]]] = {
    "plan": {
        "": {"version", "fits", "waiting", "conflict", "gpus", "jobs", "idle", "warnings", "simulated"},
        "gpus": {"uuid", "name", "layout"},
        "gpus.layout": {"start", "size", "profile", "job", "owner"},
        "jobs": {"name", "gpu_uuid", "profile", "placement", "cpus", "cores", "num_workers", "memory_mib"},
        "jobs.placement": {"start", "size"},
        "idle": {"compute_slices", "memory_slices", "cores", "could_add"},
    },
    "status": {
        "": {"version", "runs", "gpus", "simulated"},
        "runs": {"name", "state", "jobs"},
        "runs.jobs": {
            "name", "state", "exit_code", "reason", "gpu_uuid", "gi_id", "ci_id", "mig_uuid", "profile", "placement", "cpus",
            "num_workers", "container_id", "pid", "attempt", "started_at", "finished_at",
        },
        "gpus": {"uuid", "index", "name", "mig", "instances"},
        "gpus.mig": {"current", "pending"},
        "gpus.instances": {"gi_id", "profile", "placement", "mig_uuids", "owner"},
    },
    "check": {"": {"version", "findings"}, "findings": {"id", "level", "message", "hint"}},
    "workers": {"": {"version", "cores", "jobs", "num_workers", "cores_per_job", "note"}},
    "errors": {"": {"version", "errors"}, "errors": {"id", "message", "where", "hint", "exit_code"}},
}  # fmt: skip


def at(value: object, path: str) -> list[Mapping[str, object]]:
    """All objects at a dotted path; lists are walked through, nulls left out."""
    found: list[object] = [value]
    for part in path.split(".") if path else []:
        found = [one[part] for one in found if isinstance(one, dict)]
        found = [item for one in found for item in (one if isinstance(one, list) else [one]) if item is not None]
    return [one for one in found if isinstance(one, dict)]


@pytest.mark.parametrize("name", OBJECTS)
def test_the_object_is_as_kept(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"render/json-{name}", json.dumps(OBJECTS[name], ensure_ascii=False, indent=2) + "\n")


@pytest.mark.parametrize(("name", "path"), [(name, path) for name, paths in FIELDS.items() for path in paths])
def test_the_fields_of_the_contract_are_there(name: str, path: str) -> None:
    objects = at(OBJECTS[name], path)

    assert objects
    assert all(FIELDS[name][path] <= set(one) for one in objects)


@pytest.mark.parametrize("name", OBJECTS)
def test_version_is_one(name: str) -> None:
    assert OBJECTS[name]["version"] == 1


def test_cpus_are_a_linux_list_and_places_have_start_and_size() -> None:
    job = at(OBJECTS["plan"], "jobs")[0]

    assert job["cpus"] == "0-1,8-9"
    assert job["placement"] == {"start": 6, "size": 1}


def test_what_is_unknown_is_null_with_its_reason() -> None:
    silent = at(OBJECTS["status"], "gpus")[2]

    assert silent["mig"] is None
    assert silent["mig_reason"] == "does not answer"
    assert silent["instances"] is None
    assert silent["instances_reason"] == "does not answer"
