"""The shipped JSON Schema of the policy is the one that the model makes, and covers every rule."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from migctl.core.policy import RULES
from migctl.planfile.policy import FOR_ALL, PolicyModel
from migctl.planfile.policy_schema import policy_schema

SHIPPED = Path(__file__).parents[2] / "compose" / "policy.schema.json"


def text() -> str:
    return json.dumps(policy_schema(), indent=2, ensure_ascii=False) + "\n"


def test_the_shipped_schema_of_the_policy_is_the_generated_one() -> None:
    if os.environ.get("MIGCTL_UPDATE_GOLDEN") == "1":
        SHIPPED.write_text(text(), encoding="utf-8")

    assert SHIPPED.read_text("utf-8") == text(), "run the tests once with MIGCTL_UPDATE_GOLDEN=1"


def test_every_rule_is_there_for_all_and_for_single_users_and_groups() -> None:
    schema = json.loads(text())

    assert list(schema["properties"]) == ["contact", *RULES, "users", "groups"]
    assert list(schema["$defs"]["rules"]["properties"]) == list(RULES)
    assert {*FOR_ALL, *RULES} == {*PolicyModel.model_fields, "users", "groups"}
    assert schema["additionalProperties"] is schema["$defs"]["rules"]["additionalProperties"] is False


def test_every_rule_is_described_in_one_sentence() -> None:
    schema = json.loads(text())
    described = [value for value in schema["properties"].values() if "$ref" not in value]
    described += schema["$defs"]["rules"]["properties"].values()

    assert len(described) == len(RULES) + 3
    assert all(re.fullmatch(r"\S[^\n]+\.", value["description"]) for value in described)


def test_no_value_comes_from_the_environment_of_those_whom_the_policy_binds() -> None:
    assert "${" not in text().replace("\\", "")


def test_every_reference_leads_somewhere() -> None:
    schema = json.loads(text())
    for reference in set(re.findall(r'"\$ref": "#/([^"]+)"', text())):
        found = schema
        for step in reference.split("/"):
            found = found[step]
