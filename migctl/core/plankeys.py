"""What a record's spec says in the plan's words: the keys that are not the default, without a value that may be secret."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

from migctl.core.plan import Auto, ByInstance, ByMemory, ByProfile, BySlices, Job
from migctl.core.redaction import is_secret_name, redacted, redacted_words
from migctl.core.runs.sameness import spec

_DEFAULTS: Final[Mapping[str, object]] = json.loads(spec(Job(name="", origin="")))
_REQUESTS: Final[Mapping[str, tuple[str, str]]] = {
    ByProfile.__name__: ("profile", "name"),
    ByMemory.__name__: ("memory", "memory_mib"),
    BySlices.__name__: ("slices", "compute_slices"),
    ByInstance.__name__: ("instance", "mig_uuid"),
}
_UNITS: Final = {"_mib": " MiB", "_s": " s", "_percent": " %"}
_FIRST: Final = (
    "image",
    "command",
    "entrypoint",
    "cpus",
    "cpuset",
    "num_workers",
    "batch_size",
    "environment",
    "volumes",
)


def plan_keys(text: str) -> tuple[tuple[str, str], ...]:
    """Key and value of a job's spec (`core.runs.sameness`), as a reader of the plan would write them."""
    try:
        found = json.loads(text)
    except ValueError:
        return ()
    if not isinstance(found, dict):
        return ()
    return tuple(_keys(found))


def _keys(found: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    request = found.get("request")
    if isinstance(request, dict) and request.get("") != Auto.__name__:
        key, field = _REQUESTS.get(str(request.get("")), ("size", ""))
        yield key, _value(field or key, request.get(field))
    names = [*_FIRST, *sorted(found.keys() - {*_FIRST, "request", "name", "keys"})]
    for name in names:
        value = found.get(name)
        if value is None or value == _DEFAULTS.get(name) or value in ([], {}, ""):
            continue
        yield _key(name), _value(name, value)


def _key(name: str) -> str:
    for ending in (*_UNITS, "_bytes"):
        name = name.removesuffix(ending)
    return name


def _value(name: str, value: object) -> str:
    match name, value:
        case "command" | "entrypoint", list():
            return shlex.join(redacted_words(str(word) for word in value))
        case "environment", list():
            return ", ".join(str(one) for one in value)
        case "volumes", list():
            return ", ".join(_volume(one) for one in value)
        case "labels", list():
            return ", ".join(_label(one) for one in value)
        case _, int() | float() if name.endswith("_bytes"):
            return f"{value / (1 << 20):g} MiB"
        case _, bool():
            return "true" if value else "false"
        case _, int() | float():
            return f"{value:g}{next((unit for end, unit in _UNITS.items() if name.endswith(end)), '')}"
        case _, list():
            return ", ".join(_value("", one) for one in value)
        case _, dict():
            parts = [f"{_key(str(k))}: {_value(str(k), v)}" for k, v in value.items() if k and v is not None]
            return ", ".join(parts)
        case _:
            return redacted(str(value))


def _volume(value: object) -> str:
    if not isinstance(value, dict):
        return redacted(str(value))
    mode = ":ro" if value.get("read_only") else ""
    source = value.get("source")
    return f"{source}:{value.get('target')}{mode}" if source else f"{value.get('target')}{mode}"


def _label(value: object) -> str:
    match value:
        case [str(name), str(text)]:
            return name if is_secret_name(name) else f"{name}={redacted(text)}"
        case _:
            return redacted(str(value))
