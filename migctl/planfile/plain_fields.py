"""Field types for text, switches, choices, sizes and times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema

from migctl.planfile.gpu_fields import INTERPOLATED, Listed
from migctl.planfile.nodes import Scalar
from migctl.planfile.problems import Refusal, did_you_mean
from migctl.planfile.scalars import flag, shown, text, word
from migctl.planfile.units import duration_s, size_mib, sizeable_bytes


def choice(*words: str) -> Callable[[object], str]:
    """A field that takes one of some words."""

    def chosen(node: object) -> str:
        if isinstance(node, Scalar) and node.text in words:
            return node.text
        spelt = node.text if isinstance(node, Scalar) else ""
        raise Refusal(f"must be {_either(words)}, got {shown(node)}", did_you_mean(spelt, words), id="bad-choice")

    return chosen


def _either(words: tuple[str, ...]) -> str:
    return " or ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else words[0]


def filled(node: object) -> str:
    """Text with at least one visible character."""
    value = text(node)
    if not value.strip():
        raise Refusal("is an empty text")
    return value


def memory_limit(node: object) -> int | str:
    """A size in bytes, or `auto`."""
    return "auto" if isinstance(node, Scalar) and node.text == "auto" else sizeable_bytes(node)


def anything(node: object) -> object:
    """A value as it stands: whoever expands it checks it."""
    return node


_SIZE = {"type": ["string", "integer"], "examples": ["8g", "512m"]}
_STRING = {"type": "string"}

Text = Annotated[str, PlainValidator(filled), WithJsonSchema(_STRING)]
Word = Annotated[str, PlainValidator(word), WithJsonSchema({"type": ["string", "integer"]})]
Flag = Annotated[bool, PlainValidator(flag), WithJsonSchema({"anyOf": [{"type": "boolean"}, INTERPOLATED]})]
Size = Annotated[int, PlainValidator(sizeable_bytes), WithJsonSchema(_SIZE)]
SizeMib = Annotated[int, PlainValidator(size_mib), WithJsonSchema(_SIZE)]
MemoryLimit = Annotated[int | str, PlainValidator(memory_limit), WithJsonSchema({**_SIZE, "examples": ["16g", "auto"]})]
Seconds = Annotated[float, PlainValidator(duration_s), WithJsonSchema({**_STRING, "examples": ["1m30s", "60s"]})]
Texts = Annotated[tuple[Text, ...], Listed]
Words = Annotated[tuple[Word, ...], Listed]
