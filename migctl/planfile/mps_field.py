"""Field type of `mps`: a job's part of a GPU or instance that it shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema

from migctl.core.plan import MpsShare
from migctl.planfile.gpu_fields import INTERPOLATED
from migctl.planfile.mount_fields import only
from migctl.planfile.nodes import Mapping, Scalar
from migctl.planfile.problems import Refusal
from migctl.planfile.scalars import flag, is_null, shown
from migctl.planfile.turn_fields import within
from migctl.planfile.units import size_mib


def mps(node: object) -> MpsShare | None:
    """`false`, `true`, or `{active_threads: 30, memory: 4g}`."""
    if not isinstance(node, Mapping):
        try:
            return MpsShare() if flag(node) else None
        except Refusal as refused:
            hint = refused.hint or "write {active_threads: 30, memory: 4g}, or true for no limits"
            raise Refusal(f"must be true, false or a mapping of limits, got {shown(node)}", hint) from None
    only(node, ("active_threads", "memory"))
    if not node.entries:
        raise Refusal("is an empty mapping", "write mps: true")
    return MpsShare(
        active_threads_percent=_inside(node, "active_threads", percent), memory_mib=_inside(node, "memory", size_mib)
    )


def percent(node: object) -> int:
    """1 to 100, without a sign for percent."""
    if isinstance(node, Scalar) and node.text.endswith("%") and node.text[:-1].strip().isdigit():
        raise Refusal(f"must be a whole number of percent, got {shown(node)}", f"write {node.text[:-1].strip()}")
    return within(node, 1, 100)


def _inside(node: Mapping, key: str, read: Callable[[object], int]) -> int | None:
    value = node.entries.get(key)
    if value is None or is_null(value):
        return None
    try:
        return read(value)
    except Refusal as refused:
        message = f"takes {key}, which {refused.message}"
        raise Refusal(message, refused.hint, id=refused.id, offset=value.start) from None


Mps = Annotated[
    MpsShare | None,
    PlainValidator(mps),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "boolean"},
                INTERPOLATED,
                {
                    "type": "object",
                    "properties": {
                        "active_threads": {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 100}, INTERPOLATED]},
                        "memory": {"type": ["string", "integer"], "examples": ["4g"]},
                    },
                    "minProperties": 1,
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
