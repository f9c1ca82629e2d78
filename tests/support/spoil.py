# ruff: noqa: E501 -- tables of odd texts
"""Texts, bytes and JSON values spoilt by chance, and values by a JSON Schema that are now and then none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

# fmt: off
WORDS = (
    "", " ", "\t", "\n", "-", "--", "~", "null", "true", "no", "on", "0", "1", "-1", "007", "0x1f", "1_000", "1e400", "-0.0", ".inf",
    "nan", "٣", "²", "1:30:00", "2026-11-30", "a", "A b", "é", "\U0001f600", "x" * 70, "x" * 5000, "${A}", "${A:-x}", "${A:?no}", "${",
    "${MIGCTL_JOB}", "${matrix.lr}", "$$", "$(touch /tmp/migctl-was-here)", "`id`", "'", '"', "\\", ";", "|", "&", "*", "?", "#", "!!str x",
    "&a [*a]", "*a", "- a", "a: b", "{", "}", "[", "]", "<<", "%", "@", ">", "../../../etc/passwd", "/", "/etc/passwd", ".", "..", "~/x",
    "/dev/null", "1g.5gb", "3g.20gb", "7g.40gb", "9g.99gb", "1g.5gb+me", "8GiB", "0GiB", "99999999999999999999GiB", "MIG-x", "GPU-x",
    "MIG-00000000-0000-0000-0000-000000000000", "0-3,8", "3-1", "0-65535", "65536", "0,,1", "10s", "-5s", "1h", "all", "auto", "mig",
    "shared", "process", "docker", "slurm", "kubernetes", "a=b", "A=", "=", "./x:/y:ro", "/a:/b:zz", "80:80", "70000:1", "127.0.0.1::80",
    "host", "none", "container:x", "1000:1000", "root", "image", "\u202e", "\ufeff", "\x00", "\x1b[31m", "\x7f", "\r", "\u2028",
    "a\nb", "{}" , "[]", "image:tag@sha256:" + "0" * 64, "UPPER/Case", "https://x", "--privileged", "%s", "{0}", "{name}",
)
# fmt: on
NUMBERS = (
    0,
    1,
    -1,
    2,
    7,
    8,
    100,
    255,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32,
    2**53,
    2**63 - 1,
    2**63,
    10**30,
    -(2**63),
)
_BYTES = (
    b"\x00",
    b"\xff",
    b"\xfe\xff",
    b"\xc3(",
    b"\xf0\x9f",
    b"\r\n",
    b"\xe2\x80\xa8",
    b"[" * 300,
    b"{" * 300,
    b"- " * 200,
    b"&a ",
)
_DEEPEST = 8


def text(random: Random, alphabet: str = "") -> str:
    """A word that something may stumble over, or any characters."""
    if random.random() < 0.7:
        return random.choice(WORDS)
    signs = alphabet or "ab01 .:-_/,{}[]'\"\\$#&*!|>%@`\n\té\u0301\U0001f4a9"
    return "".join(random.choice(signs) for _ in range(random.randrange(24)))


def value(random: Random, depth: int = 0) -> Any:
    """Any JSON value."""
    pick = random.random()
    if pick < 0.35 or depth > 3:
        return text(random)
    if pick < 0.55:
        return random.choice(NUMBERS)
    if pick < 0.65:
        return random.choice((None, True, False, 0.1, -1.5, 1e300, ""))
    if pick < 0.82:
        return [value(random, depth + 1) for _ in range(random.randrange(4))]
    return {text(random): value(random, depth + 1) for _ in range(random.randrange(4))}


def spoilt_bytes(random: Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """The data with one to four changes: bytes changed, cut out, doubled, put in, moved from another text; or cut short."""
    made = bytearray(data)
    for _ in range(random.randint(1, 4)):
        here = random.randrange(len(made) + 1)
        length = random.choice((1, 1, 2, 5, 20, 100))
        match random.randrange(7):
            case 0:
                made[here : here + length] = b""
            case 1:
                made[here:here] = made[here : here + length]
            case 2:
                made[here : here + 1] = bytes([random.randrange(256)])
            case 3:
                made[here:here] = random.choice(_BYTES)
            case 4:
                made[here:here] = random.choice(WORDS).encode("utf-8", "surrogatepass")
            case 5 if others:
                other = random.choice(others)
                start = random.randrange(len(other) + 1)
                made[here : here + length] = other[start : start + random.randrange(60)]
            case _:
                if random.random() < 0.1:
                    del made[here:]
                else:
                    made[here : here + length] = text(random).encode("utf-8", "surrogatepass")
    return bytes(made)


def spoilt_json(random: Random, whole: Any) -> Any:
    """The value with one to three places changed, gone, or added."""
    made = json.loads(json.dumps(whole))
    for _ in range(random.randint(1, 3)):
        made = _changed(random, made, 0)
    return made


def _changed(random: Random, node: Any, depth: int) -> Any:
    deeper = depth < _DEEPEST and random.random() < 0.85
    if isinstance(node, dict) and node and deeper:
        key = random.choice(list(node))
        match random.randrange(12):
            case 0:
                del node[key]
            case 1:
                node[text(random)] = value(random)
            case 2:
                node[text(random)] = node.pop(key)
            case _:
                node[key] = _changed(random, node[key], depth + 1)
        return node
    if isinstance(node, list) and node and deeper:
        place = random.randrange(len(node))
        match random.randrange(8):
            case 0:
                del node[place]
            case 1:
                node.insert(place, value(random))
            case 2:
                node.append(json.loads(json.dumps(node[place])))
            case _:
                node[place] = _changed(random, node[place], depth + 1)
        return node
    if isinstance(node, int) and not isinstance(node, bool) and random.random() < 0.5:
        return node + random.choice((-1, 1, 7, 1000))
    if isinstance(node, str) and node and random.random() < 0.4:
        here = random.randrange(len(node) + 1)
        return node[:here] + text(random) + node[here + random.randrange(3) :]
    return value(random)


def json_text(random: Random, whole: Any) -> bytes:
    """A spoilt value as JSON; now and then its text is spoilt too, or it is nested beyond all measure."""
    if random.random() < 0.01:
        return random.choice((b"[" * 100_000, b'{"a":' * 50_000, b"1" * 5000, b"NaN", b"-Infinity", b"1e999", b""))
    made = json.dumps(spoilt_json(random, whole)).encode()
    return spoilt_bytes(random, made) if random.random() < 0.2 else made


class BySchema:
    """Values of a JSON Schema of the kind that pydantic writes, a tenth of which are none of it."""

    def __init__(self, whole: Mapping[str, Any], names: Sequence[str] = ("a", "b", "train", "sweep", "x-note")) -> None:
        self._whole = whole
        self._names = names

    def made(self, random: Random) -> Any:
        """One value."""
        return self._of(random, self._whole, 0)

    def _of(self, random: Random, schema: Mapping[str, Any], depth: int) -> Any:
        if random.random() < 0.06:
            return value(random)
        if "$ref" in schema:
            found: Any = self._whole
            for part in schema["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            return self._of(random, found, depth)
        for key in ("anyOf", "oneOf", "allOf"):
            if key in schema:
                return self._of(random, random.choice(schema[key]), depth)
        if "enum" in schema:
            return random.choice(schema["enum"])
        if "const" in schema:
            return schema["const"]
        kind = schema.get("type", "string")
        return self._kind(random, random.choice(kind) if isinstance(kind, list) else kind, schema, depth)

    def _kind(self, random: Random, kind: str, schema: Mapping[str, Any], depth: int) -> Any:
        match kind:
            case "object":
                return self._object(random, schema, depth)
            case "array":
                many = 0 if depth > _DEEPEST else random.choice((0, 1, 1, 2, 3))
                return [self._of(random, schema.get("items", {}), depth + 1) for _ in range(many)]
            case "integer" | "number":
                least = schema.get("minimum", 0)
                return random.choice((least, least + 1, least + 3, random.choice(NUMBERS)))
            case "boolean":
                return random.random() < 0.5
            case "null":
                return None
        examples = schema.get("examples")
        return random.choice(examples) if examples and random.random() < 0.8 else text(random)

    def _object(self, random: Random, schema: Mapping[str, Any], depth: int) -> Any:
        known = schema.get("properties", {})
        many = min(len(known), random.choice((1, 2, 3, 5, 8)))
        chosen = {*random.sample(sorted(known), many), *schema.get("required", ())}
        made = {key: self._of(random, known[key], depth + 1) for key in sorted(chosen) if key in known}
        below = list(schema.get("patternProperties", {}).values())
        if not known or random.random() < 0.1:
            extra = (
                below or [schema["additionalProperties"]]
                if isinstance(schema.get("additionalProperties"), dict)
                else below
            )
            for _ in range(random.randint(1, 3) if extra else 0):
                name = random.choice(self._names) if random.random() < 0.9 else text(random)
                made[name] = self._of(random, random.choice(extra), depth + 1)
        return made
