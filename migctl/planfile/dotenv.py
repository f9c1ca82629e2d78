"""Files of `NAME=value` lines: `.env` beside the plan and a job's `env_file`, in Compose's format."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from migctl.planfile.interpolation import interpolate
from migctl.planfile.problems import Refusal, Report
from migctl.planfile.source import Source

_NAME = re.compile(r"""[ \t]*(?:export[ \t]+)?(?P<name>[^\s=\#'"][^\s=]*)[ \t]*(?P<equals>=[ \t]*)?""")
_QUOTED = re.compile(
    r"""(?:'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)")[ \t]*(?:\#[^\n]*)?\r?(?:\n|\Z)""", re.DOTALL
)
_COMMENT = re.compile(r"(?:^|(?<=\s))\#.*")
_BLANK = re.compile(r"[ \t]*(?:\#[^\n]*)?\r?(?:\n|\Z)")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True)
class Variable:
    """One line: `value` is `None` where the line has only a name."""

    name: str
    value: str | None
    offset: int


def parse(source: Source, report: Report, environ: Mapping[str, str]) -> tuple[Variable, ...]:
    """All variables of a file, in order; a later one of the same name comes later.

    `${NAME}` in unquoted and double-quoted values means what it means in the plan; single quotes keep it.
    Mistakes go to the report, with their place in this file.
    """
    found: list[Variable] = []
    known: dict[str, str] = {}
    here = 0
    text = source.text
    mine = Report(source)

    def value_of(name: str) -> str | None:
        return environ.get(name, known.get(name))

    while here < len(text):
        if blank := _BLANK.match(text, here):
            here = max(blank.end(), here + 1)
            continue
        head = _NAME.match(text, here)
        end = _next(text, here)
        if head is None:
            mine.error("bad-env-line", "a line must be NAME=value", here, "write NAME=value, or # before a comment")
            here = end
            continue
        tail = text[head.end() : end].strip()
        offset = head.start("name")
        if head["equals"] is None:
            if tail and not tail.startswith("#"):
                mine.error(
                    "bad-env-line",
                    "a line must be NAME=value",
                    here,
                    "write NAME=value, or # before a comment",
                )
            else:
                found.append(Variable(head["name"], None, offset))
            here = end
            continue
        quoted = _QUOTED.match(text, head.end())
        if quoted is None and tail[:1] in ("'", '"'):
            mine.error(
                "bad-env-line",
                f"the quotes of {head['name']} are not closed, or text follows them",
                head.end(),
            )
            here = end
            continue
        try:
            value = _value(quoted, tail, value_of)
        except Refusal as refusal:
            mine.error(refusal.id, refusal.message, head.end(), refusal.hint)
            value = ""
        known[head["name"]] = value
        found.append(Variable(head["name"], value, offset))
        here = quoted.end() if quoted else end
    for error in mine.errors:
        report.add(error)
    return tuple(found)


def _value(quoted: re.Match[str] | None, bare: str, value_of: Callable[[str], str | None]) -> str:
    if quoted is None:
        return interpolate(_COMMENT.sub("", bare).rstrip(), value_of)
    if quoted["single"] is not None:
        return quoted["single"]
    text = _ESCAPE.sub(
        lambda match: _ESCAPES.get(match[1], match[1] if match[1] in '"\\' else match[0]), quoted["double"]
    )
    return interpolate(text, value_of)


def _next(text: str, here: int) -> int:
    end = text.find("\n", here)
    return len(text) if end < 0 else end + 1
