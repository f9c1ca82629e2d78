"""Sizes and times in Compose's spelling."""

from __future__ import annotations

import re

from migctl.planfile.nodes import Scalar
from migctl.planfile.problems import Refusal
from migctl.planfile.scalars import kind, old_reading, shown

# Compose's byte values (compose-spec, "Specifying byte values"): k, m and g are powers of 1024, with or without b.
_SIZE = re.compile(r"([0-9]{1,15})(\.[0-9]{1,9})? ?([kmgtp]?)(i?)(b?)", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}

# Compose's durations: us, ms, s, m, h, combined without separators.
_DURATION = re.compile(r"(?:[0-9]{1,12}(?:\.[0-9]{1,9})?(?:us|µs|ms|s|m|h))+")
_PART = re.compile(r"([0-9.]+)(us|µs|ms|s|m|h)")
_SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}

MIB = 1 << 20
_LARGEST = 1 << 60
_MOST_ZEROS = 9
_LONGEST_S = 366 * 86400.0


def size_bytes(node: object) -> int:
    """`8g`, `512m`, `1.5gb`, `10GiB`, or bytes as a number."""
    if not isinstance(node, Scalar):
        raise Refusal(f"must be a size like 8g, got {kind(node)}")
    spelt = node.text.strip()
    if node.plain and (other := old_reading(spelt)):
        raise Refusal(f"must be a size like 8g, and {spelt} is {other} for many YAML readers", id="yaml-number")
    match = _SIZE.fullmatch(spelt)
    if match is None or (match[4] and not match[3]):
        if re.fullmatch(r"[0-9]{16,}(\.[0-9]*)? ?[kmgtp]?i?b?", spelt, re.IGNORECASE):
            raise _out_of_range(node)
        raise Refusal(f"must be a size like 8g, 512m or 1.5gb, got {shown(node)}", _size_hint(spelt))
    value = int(float(match[1] + (match[2] or "")) * 1024 ** _POWERS[match[3].lower()])
    if match[2] is None:
        value = int(match[1]) * 1024 ** _POWERS[match[3].lower()]
    if value <= 0 or value > _LARGEST:
        raise _out_of_range(node)
    return value


def _out_of_range(node: Scalar) -> Refusal:
    return Refusal(f"must be more than nothing and less than an exbibyte, got {shown(node)}")


def sizeable_bytes(node: object) -> int:
    """A size of at least 1 MiB: a smaller one is a number whose unit was forgotten."""
    value = size_bytes(node)
    if value < MIB:
        spelt = node.text.strip() if isinstance(node, Scalar) else ""
        raise Refusal(
            f"is {value} bytes, less than any use needs",
            f"give a unit: {spelt}m or {spelt}g" if spelt.isdigit() else "give a unit like m or g",
        )
    return value


def size_mib(node: object) -> int:
    """A size in MiB, rounded up."""
    return -(-sizeable_bytes(node) // MIB)


def duration_s(node: object) -> float:
    """`1m30s`, `90s`, `500ms`; a number without unit is refused (0 is 0)."""
    if not isinstance(node, Scalar):
        raise Refusal(f"must be a time like 1m30s, got {kind(node)}")
    spelt = node.text.strip()
    if spelt == "0":
        return 0.0
    if node.plain and ":" in spelt and old_reading(spelt):
        raise Refusal(
            f"must be a time like 1m30s, and {spelt} is {old_reading(spelt)} for many YAML readers",
            _clock(spelt),
            id="yaml-number",
        )
    if not _DURATION.fullmatch(spelt):
        number = re.fullmatch(r"[0-9]+(\.[0-9]+)?", spelt)
        raise Refusal(f"must be a time like 1m30s, got {shown(node)}", f"write {spelt}s" if number else _clock(spelt))
    value = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(spelt) if number.count(".") <= 1)
    if value > _LONGEST_S:
        raise Refusal(f"must be at most a year, got {shown(node)}")
    return value


def _clock(spelt: str) -> str | None:
    parts = spelt.split(":")
    if not 2 <= len(parts) <= 3 or not all(part.isdigit() and len(part) < 6 for part in parts):
        return None
    units = ("h", "m", "s") if len(parts) == 3 else ("m", "s")
    written = "".join(f"{int(part)}{unit}" for part, unit in zip(parts, units, strict=True) if int(part))
    return f"write {written or '0s'}" + ("" if len(parts) == 3 else f", or {int(parts[0])}h{int(parts[1])}m")


def _size_hint(spelt: str) -> str | None:
    """The number with a unit that is known; nothing where the number itself is spelt in a way that sizes have not."""
    exponent = re.fullmatch(r"([0-9]{1,6})(?:\.0*)?e\+?([0-9]{1,2}) ?([kmgt])i?b?", spelt, re.IGNORECASE)
    if exponent and int(exponent[2]) <= _MOST_ZEROS:
        return f"write {exponent[1]}{'0' * int(exponent[2])}{exponent[3].lower()}"
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\.? ?[a-z]*", spelt, re.IGNORECASE)
    return f"write {match[1]}g or {match[1]}m" if match and not re.match(r"[0-9.]+e", spelt, re.IGNORECASE) else None
