"""The shipped JSON Schema is the one that the models make, and covers every key."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from migctl import planfile
from migctl.errors import Problems
from migctl.planfile.keys import REFUSED_IN_JOB, REFUSED_IN_PLAN
from migctl.planfile.models import JOB_KEYS, PLAN_KEYS

SHIPPED = Path(__file__).parents[2] / "compose" / "plan.schema.json"

# Section 3 of the design, key by key.
PLAN = re.findall(
    r"\w+",
    """
    name gpu strategy runtime engine enable_mig reserve_cores cpu_share cpu_split numa oversubscribe allow_overlap
    threads_per_core max_parallel fail_fast stagger on_finish on_reboot notify defaults jobs slurm kubernetes
    """,
)
JOB = re.findall(
    r"\w+",
    """
    profile memory slices instance gpu cpus cpuset num_workers batch_size batch_size_memory batch_fixed_memory storage
    matrix replicas needs stage priority retries retry_on timeout expect resumable snapshot mps per_instance image
    pull_policy command entrypoint environment env_file volumes ports network_mode shm_size tmpfs working_dir group_add
    ulimits labels extra_hosts cap_add security_opt ipc stop_grace_period mem_limit user
    """,
)


def text() -> str:
    return json.dumps(planfile.schema(), indent=2, ensure_ascii=False) + "\n"


def test_the_shipped_schema_is_the_generated_one() -> None:
    if os.environ.get("MIGCTL_UPDATE_GOLDEN") == "1":
        SHIPPED.write_text(text(), encoding="utf-8")

    assert SHIPPED.read_text("utf-8") == text(), "run the tests once with MIGCTL_UPDATE_GOLDEN=1"


def test_every_key_of_the_contract_is_in_the_models_and_in_the_schema() -> None:
    schema = json.loads(text())

    assert set(PLAN_KEYS) == set(PLAN) == set(schema["properties"])
    assert set(JOB_KEYS) == set(JOB) == set(schema["$defs"]["job"]["properties"])
    assert not set(JOB) & set(REFUSED_IN_JOB)
    assert not set(PLAN) & set(REFUSED_IN_PLAN)


def test_every_key_is_described_in_one_sentence() -> None:
    schema = json.loads(text())
    described = {**schema["properties"], **schema["$defs"]["job"]["properties"]}

    assert [
        key for key, value in described.items() if not re.fullmatch(r"\S[^\n]+\.", value.get("description", ""))
    ] == []


def test_the_schema_points_only_at_what_it_holds() -> None:
    assert set(re.findall(r'"\$ref": "([^"]+)"', text())) == {"#/$defs/job"}


@pytest.mark.parametrize("key", JOB)
def test_a_list_of_mappings_of_lists_is_no_value_of_any_key(key: str) -> None:
    """No key takes everything silently: it is refused as a value."""
    with pytest.raises(Problems) as caught:
        planfile.loads(f"jobs: {{a: {{image: i, {key}: [{{q: [w]}}]}}}}", "p.yaml", Path("/nowhere"), {})

    assert all(error.id != "unknown-key" or "q" in error.message for error in caught.value.all)
