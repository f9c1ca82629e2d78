"""Field types of a job's turn: what it needs, how urgent it is, how often and how long it may run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator, PlainValidator, WithJsonSchema

from migctl.core.choices import RetryOn
from migctl.planfile.gpu_fields import INTERPOLATED
from migctl.planfile.mount_fields import one_or_more
from migctl.planfile.nodes import Mapping, Node, Scalar, Sequence
from migctl.planfile.plain_fields import choice
from migctl.planfile.problems import Refusal
from migctl.planfile.scalars import kind, whole, word
from migctl.planfile.units import duration_s

MOST_RETRIES = 100
MOST_ON_ONE_INSTANCE = 48
"""CUDA contexts that one MPS server takes on Volta and later (NVIDIA, "Multi-Process Service", "Limitations"); an instance with
fewer compute slices takes fewer, which the GPU tells."""


@dataclass(frozen=True, slots=True)
class Need:
    """A job that must have succeeded before; `name` as written: of a key under `jobs:`, or of one expanded job."""

    name: str
    offset: int


def needed(node: object) -> tuple[Node, ...]:
    """The names of `needs`, each a node."""
    if isinstance(node, Mapping):
        raise Refusal("must be names of jobs, got a mapping", f"write [{', '.join(node.entries) or 'NAME'}]")
    return one_or_more(node)


def need(node: object) -> Need:
    """The name of one job; a decimal number is the same name for every reader."""
    if isinstance(node, (Mapping, Sequence)):
        raise Refusal(f"must be the name of a job, got {kind(node)}", "write [NAME, NAME]")
    name = word(node)
    if not name:
        raise Refusal("is an empty text", "name a job, or write needs: []")
    return Need(name, node.start if isinstance(node, Scalar) else -1)


def within(node: object, least: int, most: int) -> int:
    """A whole number of a range."""
    value = whole(node)
    if not least <= value <= most:
        raise Refusal(f"must be from {least} to {most}, got {value}")
    return value


def retries(node: object) -> int:
    """Further attempts."""
    return within(node, 0, MOST_RETRIES)


def per_instance(node: object) -> int:
    """Jobs of one instance."""
    return within(node, 1, MOST_ON_ONE_INSTANCE)


def endings(node: object) -> tuple[Node, ...]:
    """At least one way to end."""
    items = one_or_more(node)
    if not items:
        raise Refusal("is an empty list", f"name some of {', '.join(RetryOn)}, or write retries: 0")
    return items


def span_s(node: object) -> float:
    """A time longer than nothing."""
    value = duration_s(node)
    if value <= 0:
        raise Refusal("must be longer than nothing, got 0", "leave the key away")
    return value


def _whole_numbers(least: int, most: int) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": "integer", "minimum": least, "maximum": most}, INTERPOLATED]})


_ENDING = {"type": "string", "enum": [str(ending) for ending in RetryOn]}
_JOB = {"type": ["string", "integer"]}

Needs = Annotated[
    tuple[Annotated[Need, PlainValidator(need)], ...],
    BeforeValidator(needed),
    WithJsonSchema({"anyOf": [_JOB, {"type": "array", "items": _JOB}]}),
]
Priority = Annotated[int, PlainValidator(whole), WithJsonSchema({"anyOf": [{"type": "integer"}, INTERPOLATED]})]
Retries = Annotated[int, PlainValidator(retries), _whole_numbers(0, MOST_RETRIES)]
PerInstance = Annotated[int, PlainValidator(per_instance), _whole_numbers(1, MOST_ON_ONE_INSTANCE)]
Endings = Annotated[
    tuple[Annotated[str, PlainValidator(choice(*RetryOn))], ...],
    BeforeValidator(endings),
    WithJsonSchema({"anyOf": [_ENDING, {"type": "array", "items": _ENDING, "minItems": 1}]}),
]
Span = Annotated[float, PlainValidator(span_s), WithJsonSchema({"type": "string", "examples": ["2h", "1h30m"]})]
