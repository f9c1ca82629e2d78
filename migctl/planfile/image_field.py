"""Field type of an image's name: the grammar of container references, so that a slip is told with its place and before any pull."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema

from migctl.planfile.plain_fields import filled
from migctl.planfile.problems import Refusal

# https://pkg.go.dev/github.com/distribution/reference, "Grammar".
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[0-9a-fA-F:]+\])"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:{_HOST}(?::[0-9]+)?/)?{_PART}(?:/{_PART})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
    r"(?:@[A-Za-z][A-Za-z0-9]*(?:[+._-][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?"
)
_ID = re.compile(r"sha256:[0-9a-f]{64}")
_LONGEST = 512


def image(node: object) -> str:
    """`python:3.12`, `registry:5000/team/train@sha256:…`, or an image's id."""
    name = filled(node)
    if len(name) <= _LONGEST and (_IMAGE.fullmatch(name) or _ID.fullmatch(name)):
        return name
    shown = name if len(name) <= 60 else name[:57] + "…"
    raise Refusal(f"must be an image like python:3.12-slim, got {shown!r}", _nearest(name), id="bad-image")


def _nearest(name: str) -> str:
    if name != name.strip() or any(char.isspace() for char in name):
        return "names of images have no blanks"
    if name != name.lower() and _IMAGE.fullmatch(name.lower()):
        return f"names of images are in small letters: {name.lower()}"
    return "`docker images` lists those that are here"


Image = Annotated[str, PlainValidator(image), WithJsonSchema({"type": "string"})]
