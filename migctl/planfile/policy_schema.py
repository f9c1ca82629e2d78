"""The JSON Schema of the administrator's policy file, generated from the model."""

from __future__ import annotations

from collections.abc import Mapping

from migctl.planfile.gpu_fields import INTERPOLATED
from migctl.planfile.policy import FOR_ALL, NAME, PolicyModel
from migctl.planfile.schema import DIALECT, keys_of


def policy_schema() -> dict[str, object]:
    """Schema of /etc/migctl/policy.yaml."""
    policy = keys_of(PolicyModel)
    properties = policy["properties"]
    assert isinstance(properties, dict)
    # Nothing of a policy comes from the environment of those whom it binds.
    keys = {key: _without(value, INTERPOLATED) for key, value in properties.items()}
    rules = {key: {"$ref": f"#/$defs/rules/properties/{key}"} for key in keys if key not in FOR_ALL}
    return {
        "$schema": DIALECT,
        "title": "migctl policy",
        **policy,
        "type": ["object", "null"],
        "properties": {
            **{key: keys[key] for key in keys if key in FOR_ALL},
            **rules,
            "users": _overrides(
                "Rules of single users, by name; each stands in place of the group's and of everybody's."
            ),
            "groups": _overrides("Rules of groups, by name; of a user's groups the first that has an entry counts."),
        },
        "$defs": {
            "rules": {
                "description": "What holds for one user.",
                "type": ["object", "null"],
                "properties": {key: value for key, value in keys.items() if key not in FOR_ALL},
                "patternProperties": {"^x-": {}},
                "additionalProperties": False,
            }
        },
    }


def _overrides(description: str) -> dict[str, object]:
    return {
        "description": description,
        "type": ["object", "null"],
        "patternProperties": {f"^{NAME}$": {"$ref": "#/$defs/rules"}},
        "additionalProperties": False,
    }


def _without(value: object, part: object) -> object:
    """A schema without one of its alternatives, wherever that stands."""
    if isinstance(value, Mapping):
        return {name: _without(inner, part) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without(inner, part) for inner in value if inner != part]
    return value
