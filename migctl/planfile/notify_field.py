"""Field type of `notify`: commands and webhooks that are told of the end of jobs and of the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BeforeValidator, PlainValidator, WithJsonSchema

from migctl.core.plan import Notify
from migctl.planfile.compose_fields import command
from migctl.planfile.mount_fields import one_or_more, only
from migctl.planfile.nodes import Mapping, Scalar, Sequence
from migctl.planfile.plain_fields import choice
from migctl.planfile.problems import Refusal
from migctl.planfile.scalars import is_null, text

ENDS = ("job", "failure", "run")
"""What can be told: the end of each job, of one that did not succeed, of the run."""


@dataclass(frozen=True, slots=True)
class Addressee:
    """Whom to tell, and whether the command was written as one string."""

    notify: Notify
    split: bool
    offset: int


def several(node: object) -> tuple[object, ...]:
    """The addressees: a list of words alone is one command, a list that holds a list or a mapping is several."""
    if not isinstance(node, Sequence):
        return (node,)
    if not node.items:
        raise Refusal("is an empty list", "name a command, or leave the key away")
    return (node,) if all(isinstance(item, Scalar) for item in node.items) else node.items


def addressee(node: object) -> Addressee:
    """A command (a string, or the list of its arguments), or a mapping with command or url."""
    if not isinstance(node, Mapping):
        return _told(node, Notify().on, node)
    only(node, ("command", "url", "on"))
    given = [key for key in ("command", "url") if key in node.entries and not is_null(node.entries[key])]
    if len(given) != 1:
        what = "has both a command and a url" if given else "has neither a command nor a url"
        raise Refusal(what, "write {command: …} or {url: …}, and a list of them for several", offset=node.start)
    on = Notify().on if "on" not in node.entries else _ends(node.entries["on"])
    value = node.entries[given[0]]
    if given == ["url"]:
        return Addressee(Notify(url=_url(value), on=on), split=False, offset=value.start)
    return _told(value, on, value)


def _told(node: object, on: tuple[str, ...], at: object) -> Addressee:
    offset = at.start if isinstance(at, (Scalar, Sequence, Mapping)) else -1
    try:
        made = command(node)
    except Refusal as refused:
        place = offset if refused.offset is None else refused.offset
        raise Refusal(refused.message, refused.hint, id=refused.id, offset=place) from None
    if not made.arguments or not made.arguments[0]:
        raise Refusal("names no program", "write notify: [notify-send, migctl]", offset=offset)
    if made.split and made.arguments[0].lower().startswith(("http://", "https://")):
        raise Refusal(f"would run {made.arguments[0]} as a program", "write {url: …} for a webhook", offset=offset)
    return Addressee(Notify(command=made.arguments, on=on), made.split, offset)


def _ends(node: object) -> tuple[str, ...]:
    items = one_or_more(node)
    if not items:
        raise Refusal("has an empty list as on", f"name some of {', '.join(ENDS)}")
    found: list[str] = []
    for item in items:
        try:
            found.append(choice(*ENDS)(item))
        except Refusal as refused:
            raise Refusal(
                f"takes on, which {refused.message}", refused.hint, id=refused.id, offset=item.start
            ) from None
    return tuple(dict.fromkeys(found))


def _url(node: object) -> str:
    offset = node.start if isinstance(node, Scalar) else None
    spelt = text(node) if isinstance(node, Scalar) else ""
    try:
        parts = urlsplit(spelt)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or any(character.isspace() for character in spelt) or not spelt.isprintable():
        # What stands there may be a secret: most webhooks are nothing but their address.
        raise Refusal(
            "takes a url that starts with http:// or https:// and a host", "write url: https://…", offset=offset
        )
    return spelt


_COMMAND = [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"type": ["string", "number", "boolean"]}}]
_END = {"type": "string", "enum": list(ENDS)}
_MAPPING = {
    "type": "object",
    "properties": {
        "command": {"anyOf": _COMMAND},
        "url": {"type": "string", "pattern": r"^https?://|\$\{"},
        "on": {"anyOf": [_END, {"type": "array", "items": _END, "minItems": 1}]},
    },
    "oneOf": [{"required": ["command"]}, {"required": ["url"]}],
    "additionalProperties": False,
}

Told = Annotated[
    tuple[Annotated[Addressee, PlainValidator(addressee)], ...],
    BeforeValidator(several),
    WithJsonSchema(
        {"anyOf": [*_COMMAND, _MAPPING, {"type": "array", "items": {"anyOf": [*_COMMAND, _MAPPING]}, "minItems": 1}]}
    ),
]
