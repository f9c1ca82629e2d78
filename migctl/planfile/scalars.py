"""What an unquoted word means: YAML 1.2's core schema, and where YAML 1.1 reads it otherwise."""

from __future__ import annotations

import re

from migctl.planfile.nodes import Mapping, Node, Scalar, Sequence
from migctl.planfile.problems import Refusal

# YAML 1.2.2, 10.3.2: the core schema.
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")

# YAML 1.1 types as https://yaml.org/type/ describes them, which PyYAML and many editors still follow.
_BOOL_11 = re.compile(r"yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF")
_OCTAL_11 = re.compile(r"[-+]?0[0-9_]+")
_SEXAGESIMAL_11 = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_UNDERSCORE_11 = re.compile(r"[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*\.?[0-9_]*([eE][-+]?[0-9]+)?)")
_DATE_11 = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?")


def kind(node: Node | object) -> str:
    """The type's name as a message says it."""
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, Sequence):
        return "a list"
    if not isinstance(node, Scalar) or not node.plain:
        return "text"
    if is_null(node):
        return "nothing"
    if node.text in _TRUE or node.text in _FALSE:
        return "a truth value"
    if _INT.fullmatch(node.text):
        return "a whole number"
    if _FLOAT.fullmatch(node.text):
        return "a number"
    return "text"


def shown(node: Node | object) -> str:
    """A value for a message: as spelt, in quotes where it could be taken for something else."""
    if not isinstance(node, Scalar):
        return kind(node)
    what = kind(node)
    if what == "nothing":
        return what
    text = node.text if len(node.text) <= 60 else node.text[:57] + "…"
    return text if node.plain and what != "text" else repr(text)


def is_null(node: Node) -> bool:
    """Nothing written, `~` or `null`."""
    return isinstance(node, Scalar) and node.plain and node.text in _NULL


def old_reading(text: str) -> str | None:
    """What YAML 1.1 makes of an unquoted word that 1.2 reads otherwise; `None` where both agree."""
    if _BOOL_11.fullmatch(text):
        return "a truth value"
    if _OCTAL_11.fullmatch(text):
        return "an octal number"
    if _SEXAGESIMAL_11.fullmatch(text):
        return "a number in base 60"
    if _DATE_11.fullmatch(text):
        return "a date"
    if "_" in text and _UNDERSCORE_11.fullmatch(text):
        plain = text.replace("_", "")
        return f"the number {plain}" if plain else None
    return None


def ambiguous(node: Scalar) -> str | None:
    """Why an unquoted word is not safely text, as the end of a sentence; `None`: it is."""
    if not node.plain or node.free:
        return None
    if other := old_reading(node.text):
        return f"{node.text} is {other} for many YAML readers"
    what = kind(node)
    return None if what == "text" else f"{node.text} is {what if what != 'nothing' else 'empty'} for YAML, not text"


def text(node: object) -> str:
    """A string. Unquoted words that some YAML reader takes for something else are refused."""
    if not isinstance(node, Scalar):
        raise Refusal(f"must be text, got {kind(node)}")
    if why := ambiguous(node):
        raise Refusal(f"must be text, and {why}", f'quote it: "{node.text}"', id="quote-it")
    return node.text


def verbatim(node: object) -> str:
    """Any scalar as it is spelt: `1e-4` stays `1e-4`, `on` stays `on`."""
    if not isinstance(node, Scalar):
        raise Refusal(f"must be one value, got {kind(node)}")
    if node.plain and not node.text:
        raise Refusal("is empty", 'write "" for an empty text')
    return node.text


def word(node: object) -> str:
    """Text or a plain number, e.g. a user or group: `1000` and `"1000"` alike."""
    if isinstance(node, Scalar) and node.plain and kind(node) == "a whole number" and not old_reading(node.text):
        return node.text
    return text(node)


def whole(node: object) -> int:
    """A whole number in decimal; `012`, which YAML 1.1 reads as 10, is refused."""
    if isinstance(node, Scalar) and (node.plain or node.free):
        if _OCTAL_11.fullmatch(node.text) or (other := old_reading(node.text)):
            other = old_reading(node.text) or "another number"
            raise Refusal(
                f"must be a whole number, and {node.text} is {other} for many YAML readers",
                _decimal(node.text),
                id="yaml-number",
            )
        if re.fullmatch(r"[-+]?[0-9]{1,18}", node.text):
            return int(node.text)
        if re.fullmatch(r"[-+]?[0-9]{1,9}\.0+", node.text):
            return int(float(node.text))
        if _INT.fullmatch(node.text) or re.fullmatch(r"[-+]?[0-9.]+[eE]\+?[0-9]+", node.text):
            raise Refusal(f"must be a whole number of at most 18 digits, all written out, got {shown(node)}")
    hint = (
        "write it without quotes"
        if isinstance(node, Scalar) and re.fullmatch(r"[0-9]+", node.text) and not node.plain
        else None
    )
    raise Refusal(f"must be a whole number, got {shown(node)}", hint)


def _decimal(spelt: str) -> str:
    digits = spelt.lstrip("+-0").replace("_", "")
    return f"write {digits}" if digits.isdigit() else "write it as a plain decimal number"


def flag(node: object) -> bool:
    """`true` or `false`."""
    if isinstance(node, Scalar) and (node.plain or node.free):
        if node.text in _TRUE:
            return True
        if node.text in _FALSE:
            return False
        if _BOOL_11.fullmatch(node.text):
            meant = node.text.lower() in ("y", "yes", "on")
            raise Refusal(f"must be true or false, got {node.text!r}", f"write {str(meant).lower()}")
    raise Refusal(f"must be true or false, got {shown(node)}")
