"""Texts of a plan in the forms that a Kubernetes API server takes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from migctl.core.cluster.clusterjobs import Group
from migctl.errors import PlanError

_ANNOTATION = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
)
_EXPANDED = re.compile(r"\$(?=[$(])")
_GIB = 1 << 30
_MIB = 1 << 20


def label_value(text: str) -> str:
    """At most 63 of the characters that a label's value may have, with a letter or digit at both ends."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:63].strip("-_.")


def annotations_of(labels: Iterable[tuple[str, str]]) -> dict[str, str]:
    """A container's labels: their values may be anything, as those of annotations; other keys get a name that is allowed."""
    found: dict[str, str] = {}
    for name, value in labels:
        key = name if _ANNOTATION.fullmatch(name) else label_value(name) or "label"
        found[key] = value
    return found


def dns_name(text: str, longest: int = 63) -> str:
    """A DNS label for this text; one that had to be changed ends in a digest, so that two texts stay two names."""
    if len(text) <= longest and re.fullmatch(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?", text):
        return text
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=3).hexdigest()
    plain = re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-")[: longest - 7].rstrip("-")
    return f"{plain}-{digest}" if plain else f"x-{digest}"


def literal(text: str) -> str:
    """Text in which Kubernetes replaces nothing: it knows `$(NAME)`, and `$$` stands for a dollar."""
    return _EXPANDED.sub("$$", text)


def quantity(size_bytes: int) -> str:
    """A size, rounded up to whole MiB."""
    if size_bytes % _GIB == 0:
        return f"{size_bytes // _GIB}Gi"
    return f"{-(-size_bytes // _MIB)}Mi"


def too_many(group: Group) -> PlanError:
    """Its jobs are more text than an API server keeps in one object."""
    return PlanError(
        "too-many-in-one",
        f"the {len(group.members)} jobs of {group.name} are too much text for one object of Kubernetes",
        where=group.first.where,
        hint="make several keys under jobs of it",
    )
