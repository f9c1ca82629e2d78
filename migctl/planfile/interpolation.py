"""`${NAME}` in the values of a plan, with Compose's forms, and `${matrix.key}`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches

from migctl.core.handover import HANDED
from migctl.planfile.nodes import Mapping as MappingNode
from migctl.planfile.nodes import Node, Scalar, Sequence, encodable
from migctl.planfile.problems import Refusal, Report

_OPENING = re.compile(r"\$(\$|\{)")
_SIMPLE = re.compile(r"\$\{(matrix\.[A-Za-z_][A-Za-z0-9_-]*|[A-Za-z_][A-Za-z0-9_]*)\}")
_BRACE = re.compile(r"\$\{|\}")
_NAME = re.compile(r"(matrix\.)?[A-Za-z_][A-Za-z0-9_-]*")
_OPERATOR = re.compile(r":?[-?+]")
_REFERENCE = re.compile(r"\$\{(MIGCTL_[A-Za-z0-9_]*)")
_SPELT = re.compile(r"\$\{[^}\s]*")
_DEEPEST = 8
_LONGEST = 1 << 20
"""Characters of one value after interpolation."""
_MOST = 1 << 25
"""Characters of all values after interpolation."""


class Scope:
    """Where names get their values from: the matrix's variant, the environment, `.env`."""

    def __init__(
        self,
        environ: Mapping[str, str],
        dotenv: Mapping[str, str],
        matrix: Mapping[str, str] | None = None,
        spent: list[int] | None = None,
        *,
        literal: bool = False,
    ) -> None:
        self.environ = environ
        self.dotenv = dotenv
        self.matrix = matrix
        self.literal = literal
        """Values come from the command line, where the shell has replaced what was to be replaced."""
        self.used: set[str] = set()
        """Keys of the matrix that something asked for."""
        self._spent = spent if spent is not None else [0]

    def variant(self, matrix: Mapping[str, str]) -> Scope:
        """The same names, and those of one variant."""
        return Scope(self.environ, self.dotenv, matrix, self._spent)

    def lookup(self, name: str) -> str | None:
        """The value; the environment wins over `.env`, as in Compose."""
        found = self.environ.get(name)
        return self.dotenv.get(name) if found is None else found

    def spend(self, characters: int) -> None:
        """Count what interpolation made, so that a small plan cannot fill the memory."""
        self._spent[0] += characters
        if self._spent[0] > _MOST:
            raise Refusal(f"makes the plan larger than {_MOST >> 20} MiB of text", id="too-large-after-interpolation")


def fill(node: Node, scope: Scope, report: Report, *, at_start: bool) -> Node | None:
    """The node with every `${…}` in its values replaced; keys stay. `None`: something in it cannot be.

    Args:
        node: any value.
        scope: the names.
        report: takes the mistakes.
        at_start: `${MIGCTL_…}` may stand here and is left for the start of the job.
    """
    if not node.dollar or scope.literal:
        return node
    if isinstance(node, Scalar):
        return _fill_scalar(node, scope, report, at_start)
    below = node.items if isinstance(node, Sequence) else tuple(node.entries.values())
    filled = [fill(item, scope, report, at_start=at_start) if item.dollar else item for item in below]
    good = [item for item in filled if item is not None]
    if len(good) < len(filled):
        return None
    if isinstance(node, Sequence):
        return Sequence(tuple(good), node.start, node.end)
    return MappingNode(dict(zip(node.entries, good, strict=True)), node.keys, node.start, node.end)


def _fill_scalar(node: Scalar, scope: Scope, report: Report, at_start: bool) -> Scalar | None:
    try:
        value = interpolate(node.text, _values(scope, at_start))
        scope.spend(len(value))
        if unknown := next((name for name in references(value) if name not in HANDED), None):
            _of_start(unknown, at_start)
    except Refusal as refusal:
        spelt = _SPELT.match(refusal.message)
        offset = report.source.find(spelt[0] if spelt else "${", node.start, node.end) if node.start >= 0 else -1
        report.error(refusal.id, refusal.message, offset, refusal.hint)
        return None
    if "\0" in value or not encodable(value):
        report.error(
            "control-character",
            "interpolation makes a character that no argument or path may hold",
            node.start,
        )
        return None
    if value == node.text:
        return node
    return Scalar(value, node.plain, node.start, node.end, free=node.free or "${" in node.text)


def interpolate(text: str, value: Callable[[str], str | None]) -> str:
    """Replace every `${…}`; `$$` is a dollar, a bare `$X` stays.

    Raises:
        Refusal: a form that does not exist, or a name without value.
    """
    if text.count("$") == len(_SIMPLE.findall(text)):  # the usual case, ten times faster
        return _SIMPLE.sub(lambda found: _decide(found[1], "", "", value, 1), text)
    return _scan(text, value, 0)


def _scan(text: str, value: Callable[[str], str | None], depth: int) -> str:
    done: list[str] = []
    here = 0
    while found := _OPENING.search(text, here):
        done.append(text[here : found.start()])
        if found[1] == "$":
            done.append("$")
            here = found.end()
            continue
        end = _closing(text, found.end())
        done.append(_reference(text[found.end() : end], value, depth + 1))
        here = end + 1
        if sum(map(len, done[-2:])) > _LONGEST:
            raise Refusal(f"${{…}} makes a value longer than {_LONGEST >> 20} MiB", id="too-large-after-interpolation")
    return "".join([*done, text[here:]])


def _closing(text: str, start: int) -> int:
    depth = 1
    for found in _BRACE.finditer(text, start):
        depth += -1 if found[0] == "}" else 1
        if not depth:
            return found.start()
    raise Refusal(
        f"${{{_short(text[start:])} is not closed",
        "write } at its end, or $$ for a plain dollar",
        id="bad-interpolation",
    )


def _reference(inner: str, value: Callable[[str], str | None], depth: int) -> str:
    name = _NAME.match(inner)
    rest = inner[name.end() :] if name else inner
    operator = _OPERATOR.match(rest) if name else None
    # A matrix key or a name may hold '-' only in the matrix: ${NAME-default} is Compose's.
    if name and not name[1] and "-" in name[0]:
        head, _, tail = inner.partition("-")
        return _decide(head, "-", tail, value, depth)
    if name is None or (rest and operator is None):
        raise Refusal(
            f"${{{_short(inner)}}} is not a name that can be replaced",
            f"write $${{{_short(inner)}}} to pass it on as it stands",
            id="bad-interpolation",
        )
    if operator is None:
        return _decide(name[0], "", "", value, depth)
    return _decide(name[0], operator[0], rest[operator.end() :], value, depth)


def _decide(name: str, operator: str, word: str, value: Callable[[str], str | None], depth: int) -> str:
    if depth > _DEEPEST:
        raise Refusal(f"${{{name}}} stands in more than {_DEEPEST} others", id="bad-interpolation")
    if name.startswith("MIGCTL_") and operator in (":-", ":?") and (found := value(name)) is not None:
        # Decided at the start of the job; a default cannot hold braces there.
        text = _scan(word, value, depth)
        if "}" in text or "{" in text:
            raise Refusal(f"${{{name}}} takes a default without braces", id="bad-interpolation")
        return f"{found[:-1]}{operator}{text}}}" if found.startswith("${") else found
    found = value(name)
    there = bool(found) if operator.startswith(":") else found is not None
    sign = operator[-1:]
    if sign == "+":
        return _scan(word, value, depth) if there else ""
    if there:
        return found or ""
    if sign == "-":
        return _scan(word, value, depth)
    if sign == "?":
        message = _scan(word, value, depth)
        raise Refusal(
            f"${{{name}}} is required" + (f": {message}" if message else " and not set"),
            id="required-variable",
        )
    raise Refusal(
        f"${{{name}}} is not set",
        f"set it: in the environment, in .env beside the plan, or with a default: ${{{name}:-…}}; $$ is a plain dollar",
        id="unknown-variable",
    )


def _values(scope: Scope, at_start: bool) -> Callable[[str], str | None]:
    def value(name: str) -> str | None:
        if name.startswith("matrix."):
            return _of_matrix(name.removeprefix("matrix."), scope)
        if name.startswith("MIGCTL_"):
            return _of_start(name, at_start)
        return scope.lookup(name)

    return value


def _of_matrix(key: str, scope: Scope) -> str:
    if scope.matrix is None:
        raise Refusal(
            f"${{matrix.{key}}} stands where there is no matrix",
            "add matrix: to the job",
            id="unknown-variable",
        )
    if key not in scope.matrix:
        near = get_close_matches(key, scope.matrix, n=1)
        raise Refusal(
            f"${{matrix.{key}}} is no key of this job's matrix",
            f"did you mean ${{matrix.{near[0]}}}?" if near else f"there are {', '.join(scope.matrix)}",
            id="unknown-variable",
        )
    scope.used.add(key)
    return scope.matrix[key]


def _of_start(name: str, at_start: bool) -> str:
    if name not in HANDED:
        near = get_close_matches(name, HANDED, n=1)
        raise Refusal(
            f"${{{name}}} is nothing that migctl hands to a job",
            f"did you mean ${{{near[0]}}}?" if near else f"there are {', '.join(HANDED)}",
            id="unknown-variable",
        )
    if not at_start:
        raise Refusal(
            f"${{{name}}} is known only when the job starts",
            "use it in command, entrypoint or environment",
            id="variable-of-start",
        )
    return f"${{{name}}}"


def references(text: str) -> list[str]:
    """Names of `${MIGCTL_…}` that are left for the start of the job."""
    return _REFERENCE.findall(text) if "${MIGCTL_" in text else []


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"
