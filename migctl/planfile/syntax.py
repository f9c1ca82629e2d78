"""The YAML parser's complaints in the words of somebody who wants to mend the file."""

from __future__ import annotations

import re

import yaml

from migctl.errors import PlanError
from migctl.planfile.source import Source

# Problem texts of libyaml and of PyYAML's own scanner and parser; what we say; what helps.
_TEXTS: tuple[tuple[str, str, str | None], ...] = (
    (r"mapping values are not allowed", "a second ': ' in one value", "quote the value"),
    (
        r"unexpected end of stream|found unexpected document indicator",
        "a quote is opened and never closed",
        "close the quote",
    ),
    (
        r"unknown escape character|expected escape sequence",
        'an unknown \\ escape in "…"',
        "use '…', where \\ is a plain character",
    ),
    (r"could not find expected ':'", "a key without ': '", "write key: value, with a space after the colon"),
    (
        r"did not find expected '-' indicator|expected <block end>, but found '\?'",
        "the indentation does not match the lines above",
        "align it with its neighbours",
    ),
    (
        r"did not find expected key|expected <block end>",
        "neither a key nor the end of the block",
        "check the indentation, and quote a value that starts with a sign",
    ),
    (
        r"did not find expected ',' or '\]'|expected ',' or '\]'",
        "a list in […] goes on without ',' or ']'",
        "write , between items and ] at the end",
    ),
    (
        r"did not find expected ',' or '\}'|expected ',' or '\}'",
        "a mapping in {…} goes on without ',' or '}'",
        "write , between pairs and } at the end",
    ),
    (
        r"did not find expected node content|expected the node content",
        "a value is missing here",
        "write a value, or quote it",
    ),
    (
        r"character that cannot start any token|character '.*' that cannot start any token",
        "this character cannot start a value",
        "quote the value",
    ),
    (
        r"block sequence entries are not allowed|sequence entries are not allowed",
        "'- ' cannot stand here",
        "begin the list on its own line",
    ),
    (r"undefined alias|undefined tag handle", "a tag or alias that nothing defines", "quote the value"),
    (r"nesting depth|depth limit", "values are nested too deep", None),
    (r"duplicate anchor", "an anchor stands twice", "rename one"),
    (
        r"alphabetic or numeric character",
        "& or * must be followed by a name",
        'quote the value if it is meant to start with "*" or "&"',
    ),
    (
        r"block scalar|chomping or indentation",
        "| or > is followed by something else",
        "begin the text on the next line, indented",
    ),
    (
        r"directive|document start|incompatible",
        "a % line or --- that cannot stand here",
        "delete it, or quote the value",
    ),
)


def syntax_error(error: yaml.YAMLError, source: Source) -> PlanError:
    """One PlanError at the place that the parser named."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    offset = min(mark.index, len(source.text)) if mark is not None else 0
    problem = " ".join(str(part) for part in (getattr(error, "problem", None), getattr(error, "context", None)) if part)
    where = source.where(offset)
    if tab := _tab(source, offset):
        line = source.line(tab)
        return PlanError(
            "yaml-tab", f"line {line}: tab used for indentation", where=source.where(tab), hint="use spaces"
        )
    for pattern, message, hint in _TEXTS:
        if re.search(pattern, problem):
            if "never closed" in message and (opened := getattr(error, "context_mark", None)) is not None:
                where = source.where(min(opened.index, len(source.text)))
            return PlanError("yaml-syntax", f"this is not YAML: {message}", where=where, hint=hint)
    return PlanError("yaml-syntax", f"this is not YAML: {problem or 'it cannot be read'}", where=where)


def _tab(source: Source, offset: int) -> int | None:
    """Offset of a tab in the indentation of the line in question or the one before it, where the parser may notice it late."""
    line = source.line(offset)
    for number in (line, line - 1):
        if number < 1:
            continue
        start = source.starts[number - 1]
        indent = re.compile(r"[ \t]*").match(source.text, start)
        if indent and "\t" in indent[0] and indent.end() < len(source.text):
            return start + indent[0].index("\t")
    return None
