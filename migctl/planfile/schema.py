"""The JSON Schema of a plan file, generated from the models."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from migctl.planfile.models import JobModel, PlanModel

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, object]:
    """Schema of the whole file; editors complete and check plans with it."""
    plan = keys_of(PlanModel)
    properties = plan["properties"]
    assert isinstance(properties, dict)
    properties["defaults"] = {
        "description": "Keys that every job has unless it sets them itself.",
        "$ref": "#/$defs/job",
    }
    properties["jobs"] = {
        "description": "The jobs by name.",
        "type": "object",
        "minProperties": 1,
        "patternProperties": {
            "^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$": {"anyOf": [{"$ref": "#/$defs/job"}, {"type": "null"}]}
        },
        "additionalProperties": False,
    }
    return {
        "$schema": DIALECT,
        "title": "migctl plan",
        **plan,
        "required": ["jobs"],
        "$defs": {"job": keys_of(JobModel)},
    }


def keys_of(model: type[BaseModel]) -> dict[str, object]:
    """Schema of a mapping with the keys of a model; extensions (`x-…`) may stand beside them."""
    made = model.model_json_schema()
    properties = {key: _key(value) for key, value in made["properties"].items()}
    return {
        "description": made["description"],
        "type": "object",
        "properties": properties,
        "patternProperties": {"^x-": {}},
        "additionalProperties": False,
    }


def _key(value: Mapping[str, object]) -> dict[str, object]:
    """Without the titles and null defaults that pydantic adds; an empty value is absent, so null may always stand."""
    return {name: part for name, part in value.items() if name not in ("title", "default")}
