"""Field types of mounts: volumes in Compose's short and long form, and tmpfs."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, PlainValidator, WithJsonSchema

from migctl.core.plan import Volume
from migctl.planfile.gpu_fields import Listed
from migctl.planfile.nodes import Mapping, Node, Scalar, Sequence
from migctl.planfile.problems import Refusal, did_you_mean
from migctl.planfile.scalars import flag, text

_VOLUME_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_NO_EFFECT = frozenset({"rw", "cached", "delegated", "consistent"})


def only(node: Mapping, known: tuple[str, ...]) -> None:
    """Refuse keys of a mapping that are not known."""
    for key, mark in node.keys.items():
        if key not in known:
            raise Refusal(
                f"has an unknown key {key!r}",
                did_you_mean(key, known) or f"it takes {', '.join(known)}",
                id="unknown-key",
                offset=mark.start,
            )


def one_or_more(node: object) -> tuple[Node, ...]:
    """A list, or one value that stands for a list of it."""
    if isinstance(node, Sequence):
        return node.items
    if isinstance(node, (Scalar, Mapping)):
        return (node,)
    raise Refusal("must be one value or a list")


def volume(node: object) -> Volume:
    """`source:target[:ro]`, a target alone, or Compose's long form. Host paths stay as written here."""
    if isinstance(node, Mapping):
        return _long_volume(node)
    spelt = text(node)
    parts = spelt.split(":")
    if len(parts) > 3 or not all(parts):
        raise Refusal(
            f"must be source:target or source:target:ro, got {spelt!r}",
            "a path that holds ':' needs the long form: {type: bind, source: …, target: …}",
        )
    if len(parts) == 1:
        return Volume(_target(parts[0]), None, "volume")
    options = parts[2].split(",") if len(parts) == 3 else []
    for option in options:
        if option in ("z", "Z"):
            raise Refusal(
                f"option {option} relabels host files for SELinux, which migctl does not do",
                "use security_opt: [label=disable]",
            )
        if option != "ro" and option not in _NO_EFFECT:
            raise Refusal(f"takes ro or rw as option, got {option!r}", did_you_mean(option, ["ro", "rw"]))
    source, target = parts[0], _target(parts[1])
    return Volume(target, source, _volume_kind(source), "ro" in options)


def _volume_kind(source: str) -> str:
    if source.startswith(("/", ".", "~")):
        return "bind"
    if not _VOLUME_NAME.fullmatch(source):
        raise Refusal(f"must start with a path or the name of a volume, got {source!r}", f"write ./{source} for a path")
    return "volume"


def _target(path: str) -> str:
    if not path.startswith("/"):
        raise Refusal(f"must have an absolute path in the container, got {path!r}", "write source:/target")
    if not path.strip("/"):
        raise Refusal("cannot cover the whole container (target /)", "choose a folder such as /workspace")
    return path.rstrip("/")


def _long_volume(node: Mapping) -> Volume:
    only(node, ("type", "source", "target", "read_only", "bind", "volume", "tmpfs", "consistency"))
    form = text(node.entries["type"]) if "type" in node.entries else "volume"
    if form not in ("bind", "volume", "tmpfs"):
        raise Refusal(
            f"has a type that is not available: {form!r}",
            did_you_mean(form, ["bind", "volume", "tmpfs"]) or "write bind, volume or tmpfs",
        )
    if "target" not in node.entries:
        raise Refusal("needs target")
    for key, allowed in (("bind", ("create_host_path",)), ("volume", ()), ("tmpfs", ())):
        below = node.entries.get(key)
        if isinstance(below, Mapping):
            for name, mark in below.keys.items():
                if name not in allowed:
                    where = "tmpfs: [/path:size=1g]" if key == "tmpfs" else None
                    raise Refusal(
                        f"has an option that is not available: {key}.{name}",
                        where and f"use the key {where}",
                        offset=mark.start,
                    )
    bind = node.entries.get("bind")
    if isinstance(bind, Mapping) and "create_host_path" in bind.entries and flag(bind.entries["create_host_path"]):
        raise Refusal(
            "asks to create the host's folder; a source that does not exist is an error here",
            "make the folder, and delete create_host_path",
        )
    source = text(node.entries["source"]) if "source" in node.entries else None
    if form == "bind" and not source:
        raise Refusal("of type bind needs source")
    if form == "tmpfs" and source:
        raise Refusal("of type tmpfs has no source")
    if form == "volume" and source is not None and not _VOLUME_NAME.fullmatch(source):
        raise Refusal(f"of type volume takes a name as source, got {source!r}", "write type: bind for a path")
    if form == "bind" and source is not None and not source.startswith(("/", ".", "~")):
        source = f"./{source}"
    return Volume(
        _target(text(node.entries["target"])),
        source,
        form,
        "read_only" in node.entries and flag(node.entries["read_only"]),
    )


def mount_point(node: object) -> str:
    """An absolute path of the container, with options after a colon."""
    spelt = text(node)
    _target(spelt.partition(":")[0])
    return spelt


STRING_OR_MAP = {"anyOf": [{"type": ["string", "integer"]}, {"type": "object"}]}
"""JSON Schema of an item with a short and a long form."""

Volumes = Annotated[
    tuple[Annotated[Volume, PlainValidator(volume)], ...],
    Listed,
    WithJsonSchema({"type": "array", "items": STRING_OR_MAP}),
]
Tmpfs = Annotated[
    tuple[Annotated[str, PlainValidator(mount_point)], ...],
    BeforeValidator(one_or_more),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
