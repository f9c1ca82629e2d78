"""Field types with Compose's forms: command, environment, ports, ulimits and their short and long spellings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator, PlainValidator, WithJsonSchema

from migctl.core.command import split
from migctl.core.plan import Port, Ulimit
from migctl.planfile.gpu_fields import Listed
from migctl.planfile.mount_fields import STRING_OR_MAP, one_or_more, only
from migctl.planfile.nodes import Mapping, Node, Scalar, Sequence
from migctl.planfile.problems import Refusal, did_you_mean
from migctl.planfile.scalars import flag, is_null, kind, text, verbatim, whole

_PORT = re.compile(
    r"(?:(?P<ip>\[[0-9a-fA-F:.]+\]|[0-9]{1,3}(?:\.[0-9]{1,3}){3}):)?(?:(?P<host>\d{0,5}):)?(?P<container>\d{1,5})(?:/(?P<protocol>\w+))?"
)
_PROTOCOLS = ("tcp", "udp", "sctp")
_ULIMITS = (
    "core",
    "cpu",
    "data",
    "fsize",
    "locks",
    "memlock",
    "msgqueue",
    "nice",
    "nofile",
    "nproc",
    "rss",
    "rtprio",
    "rttime",
    "sigpending",
    "stack",
)


@dataclass(frozen=True, slots=True)
class EnvFile:
    """A file of variables; `path` as written."""

    path: str
    required: bool
    offset: int


@dataclass(frozen=True, slots=True)
class Command:
    """An argv, and whether it was written as one string."""

    arguments: tuple[str, ...]
    split: bool


def command(node: object) -> Command:
    """A list of arguments, or one string that is split as Compose does."""
    if isinstance(node, Sequence):
        return Command(tuple(_argument(item, number) for number, item in enumerate(node.items)), split=False)
    if not isinstance(node, Scalar):
        raise Refusal(f"must be a string or a list, got {kind(node)}")
    try:
        return Command(split(text(node)), split=True)
    except ValueError as error:
        if isinstance(error, Refusal):
            raise
        raise Refusal(
            f"cannot be split into arguments: {error}",
            "write it as a list: [python, train.py]",
            id="bad-command",
        ) from None


def _argument(node: Node, number: int) -> str:
    if isinstance(node, Scalar) and is_null(node) and not node.text:
        raise Refusal(f"has an empty item (number {number + 1})", 'write "" for an empty argument', offset=node.start)
    if not isinstance(node, Scalar):
        raise Refusal(
            f"has {kind(node)} as item number {number + 1}",
            "quote it if it belongs to the argument",
            offset=node.start,
        )
    return node.text


def variables(node: object) -> dict[str, Node]:
    """`{A: 1}` or `[A=1, B]`; an empty value means the value of the caller's environment, as in Compose."""
    if isinstance(node, Mapping):
        return node.entries
    if not isinstance(node, Sequence):
        raise Refusal(f"must be a mapping or a list of NAME=value, got {kind(node)}")
    found: dict[str, Node] = {}
    for item in node.items:
        if not isinstance(item, Scalar):
            raise Refusal(
                f"has {kind(item)} where NAME=value belongs",
                "write NAME=value, or use a mapping",
                offset=item.start,
            )
        name, equals, value = item.text.partition("=")
        if name in found:
            raise Refusal(f"has {name} twice", "delete or rename one", id="duplicate-key", offset=item.start)
        found[name] = Scalar(value, False, item.start, item.end) if equals else Scalar("", True, item.start, item.end)
    return found


def variable(node: object) -> str | None:
    """A value as spelt; nothing means that of the caller's environment."""
    if isinstance(node, Scalar) and is_null(node):
        return None
    return verbatim(node)


def label_value(node: object) -> str:
    """A value as spelt; nothing is empty."""
    return "" if isinstance(node, Scalar) and is_null(node) else verbatim(node)


def env_file(node: object) -> EnvFile:
    """A path, or `{path, required}`."""
    if isinstance(node, Mapping):
        only(node, ("path", "required", "format"))
        if "path" not in node.entries:
            raise Refusal("needs path", "write {path: train.env, required: false}")
        required = flag(node.entries["required"]) if "required" in node.entries else True
        return EnvFile(_filled(node.entries["path"]), required, node.entries["path"].start)
    return EnvFile(_filled(node), True, node.start if isinstance(node, Scalar) else -1)


def port(node: object) -> Port:
    """`[ip:][host:]container[/protocol]`, a number, or Compose's long form."""
    if isinstance(node, Mapping):
        return _long_port(node)
    if isinstance(node, Scalar) and node.plain and kind(node) == "a whole number":
        return Port(_port_number(str(whole(node))), 0)
    spelt = text(node)
    match = _PORT.fullmatch(spelt)
    if match is None:
        ranges = re.search(r"\d-\d", spelt)
        raise Refusal(
            f"must be [[ip:]host:]container[/protocol], got {spelt!r}",
            "ranges are not available: write each port" if ranges else 'write "8080:80"',
        )
    protocol = (match["protocol"] or "tcp").lower()
    if protocol not in _PROTOCOLS:
        raise Refusal(f"must have the protocol tcp, udp or sctp, got {protocol!r}", did_you_mean(protocol, _PROTOCOLS))
    host = _port_number(match["host"]) if match["host"] else 0
    return Port(_port_number(match["container"]), host, protocol, (match["ip"] or "").strip("[]"))


def _long_port(node: Mapping) -> Port:
    only(node, ("target", "published", "host_ip", "protocol", "mode", "name", "app_protocol"))
    if "target" not in node.entries:
        raise Refusal("needs target", "write {target: 80, published: 8080}")
    entries = node.entries
    protocol = text(entries["protocol"]) if "protocol" in entries else "tcp"
    if protocol not in _PROTOCOLS:
        raise Refusal(f"must have the protocol tcp, udp or sctp, got {protocol!r}", did_you_mean(protocol, _PROTOCOLS))
    host = _port_number(verbatim(entries["published"])) if "published" in entries else 0
    return Port(
        _port_number(verbatim(entries["target"])),
        host,
        protocol,
        text(entries["host_ip"]) if "host_ip" in entries else "",
    )


def _port_number(spelt: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", spelt) or not 0 < int(spelt) < 65536:
        raise Refusal(f"must be a port from 1 to 65535, got {spelt}")
    return int(spelt)


def ulimits(node: object) -> tuple[Ulimit, ...]:
    """`{nofile: 65536, memlock: {soft: -1, hard: -1}}`."""
    if not isinstance(node, Mapping):
        raise Refusal(f"must be a mapping like {{nofile: 65536}}, got {kind(node)}")
    found: list[Ulimit] = []
    for name, value in node.entries.items():
        if name not in _ULIMITS:
            raise Refusal(
                f"has an unknown limit {name!r}",
                did_you_mean(name, _ULIMITS),
                id="unknown-key",
                offset=node.keys[name].start,
            )
        if isinstance(value, Mapping):
            only(value, ("soft", "hard"))
            if len(value.entries) < 2:
                raise Refusal(f"needs soft and hard for {name}", offset=value.start)
            soft, hard = whole(value.entries["soft"]), whole(value.entries["hard"])
        else:
            soft = hard = whole(value)
        if min(soft, hard) < -1 or (hard != -1 and (soft > hard or soft == -1)):
            raise Refusal(
                f"must have soft ≤ hard for {name}, -1 being unlimited, got {soft} and {hard}",
                offset=value.start,
            )
        found.append(Ulimit(name, soft, hard))
    return tuple(found)


def hosts(node: object) -> tuple[str, ...]:
    """`["name:address"]` or `{name: address}`, returned as `name:address`."""
    if isinstance(node, Mapping):
        return tuple(f"{name}:{verbatim(value)}" for name, value in node.entries.items())
    if not isinstance(node, Sequence):
        raise Refusal(f"must be a list of name:address, got {kind(node)}")
    found: list[str] = []
    for item in node.items:
        spelt = text(item)
        match = re.fullmatch(r"([^\s:=]+)[:=](\S+)", spelt)
        if match is None:
            raise Refusal(f"must be name:address, got {spelt!r}", 'write "data:10.0.0.7"', offset=item.start)
        found.append(f"{match[1]}:{match[2]}")
    return tuple(found)


def _filled(node: object) -> str:
    value = text(node)
    if not value.strip():
        raise Refusal("is an empty text")
    return value


_STRINGS = {"type": "array", "items": {"type": ["string", "number", "boolean"]}}
_MAP = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}}

Arguments = Annotated[Command, PlainValidator(command), WithJsonSchema({"anyOf": [{"type": "string"}, _STRINGS]})]
Environment = Annotated[
    dict[str, Annotated[str | None, PlainValidator(variable)]],
    BeforeValidator(variables),
    WithJsonSchema({"anyOf": [_MAP, {"type": "array", "items": {"type": "string"}}]}),
]
Labels = Annotated[
    dict[str, Annotated[str, PlainValidator(label_value)]],
    BeforeValidator(variables),
    WithJsonSchema({"anyOf": [_MAP, {"type": "array", "items": {"type": "string"}}]}),
]
EnvFiles = Annotated[
    tuple[Annotated[EnvFile, PlainValidator(env_file)], ...],
    BeforeValidator(one_or_more),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": STRING_OR_MAP}]}),
]
Ports = Annotated[
    tuple[Annotated[Port, PlainValidator(port)], ...],
    Listed,
    WithJsonSchema({"type": "array", "items": STRING_OR_MAP}),
]
Ulimits = Annotated[
    tuple[Ulimit, ...],
    PlainValidator(ulimits),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": ["integer", "object"]}}),
]
Hosts = Annotated[
    tuple[str, ...],
    PlainValidator(hosts),
    WithJsonSchema({"anyOf": [{"type": "array", "items": {"type": "string"}}, _MAP]}),
]
