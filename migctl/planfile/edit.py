"""Puts a job's `num_workers` into the text of a plan and leaves every other character as it is."""

from __future__ import annotations

import re
from typing import NoReturn

from migctl.errors import PlanError
from migctl.planfile.nodes import Mapping, Node, Scalar, Sequence, compose
from migctl.planfile.problems import Report
from migctl.planfile.source import Source

KEY = "num_workers"
_LINE_BREAK = re.compile("\r\n|\n|\r")
_VALUE = re.compile(r"auto|[0-9]+|\"(?:auto|[0-9]+)\"|'(?:auto|[0-9]+)'")
"""What is replaced; anything else in its place (an anchor, a `${…}`) means more than a number."""

_Plain = str | list["_Plain"] | dict[str, "_Plain"]


def with_num_workers(data: bytes, name: str, job: str, workers: int) -> bytes:
    """The plan file's bytes with `num_workers: workers` in the job of this key under `jobs:`.

    The place is found by the marks of the YAML parser. The new text is then read again: unless it says what the old one
    said, but for this one value, it is refused.

    Args:
        data: the file.
        name: of the file, in messages.
        job: key under `jobs:`.
        workers: the number.

    Raises:
        PlanError: it cannot be done without touching more than this one value.
    """
    text = data.decode("utf-8")
    mark, text = ("\ufeff", text[1:]) if text.startswith("\ufeff") else ("", text)
    source = Source(text, name)
    root = _tree(source)
    jobs = root.entries.get("jobs")
    if not isinstance(jobs, Mapping) or job not in jobs.entries or not _own(root, "jobs"):
        _refuse(source, root.start, job, workers, f"job {job} is not written under jobs: in this file")
    changed = mark + _edited(source, jobs, job, workers)
    expected = _plain(root)
    _below(expected, "jobs", job)[KEY] = str(workers)
    if _plain(_tree(Source(changed.removeprefix("\ufeff"), name))) != expected:
        _refuse(source, jobs.keys[job].start, job, workers, "the change would say more than this one number")
    return changed.encode("utf-8")


def _tree(source: Source) -> Mapping:
    report = Report(source)
    root = compose(report)
    report.finish()
    if not isinstance(root, Mapping):
        raise PlanError("cannot-edit", "the plan is no mapping", where=source.name)
    return root


def _edited(source: Source, jobs: Mapping, job: str, workers: int) -> str:
    text, key, node = source.text, jobs.keys[job], jobs.entries[job]
    if not _own(jobs, job) or text[node.start : node.start + 1] in ("&", "!", "*"):
        _refuse(source, key.start, job, workers, "the job is an alias or has an anchor, so others have its keys too")
    if isinstance(node, Scalar) and node.plain and not node.text:
        return _as_first_line(text, key, " " * (_column(text, key.start) + 2), workers)
    if not isinstance(node, Mapping):
        _refuse(source, key.start, job, workers, "the job has no keys below it")
    if _written_in(node, KEY):
        value = node.entries[KEY]
        if not _own(node, KEY) or not isinstance(value, Scalar) or not _VALUE.fullmatch(text[value.start : value.end]):
            _refuse(source, value.start, job, workers, f"{KEY} is written as more than a number here")
        return text[: value.start] + str(workers) + text[value.end :]
    if text[node.start] == "{":
        return _into_braces(text, node, workers)
    indent = text[: node.start].rpartition("\n")[2].rpartition("\r")[2]
    if indent.strip(" "):
        _refuse(source, node.start, job, workers, "the job's first key does not stand on a line of its own")
    return _as_first_line(text, key, indent, workers)


def _as_first_line(text: str, key: Scalar, indent: str, workers: int) -> str:
    """Right below the job's own line: a comment above its first key stays with that key."""
    found = _LINE_BREAK.search(text, key.end)
    line = f"{indent}{KEY}: {workers}"
    if found is None:
        before = _LINE_BREAK.search(text)
        return f"{text}{before[0] if before else chr(10)}{line}"
    return f"{text[: found.end()]}{line}{found[0]}{text[found.end() :]}"


def _into_braces(text: str, node: Mapping, workers: int) -> str:
    """As the first entry; quoted where the others are, so that JSON stays JSON."""
    first = min((key.start for key in node.keys.values() if node.start < key.start < node.end), default=-1)
    entry = f'"{KEY}": {workers}' if first >= 0 and text[first] == '"' else f"{KEY}: {workers}"
    place = node.start + 1
    if not text[place : node.end - 1].strip():
        return f"{text[:place]}{entry}{text[node.end - 1 :]}"
    while text[place] == " ":
        place += 1
    gap = "" if text[place] in "\r\n" else " "
    return f"{text[:place]}{entry},{gap}{text[place:]}"


def _own(node: Mapping, key: str) -> bool:
    """Whether key and value stand in this very mapping, and are not merged or aliased from elsewhere."""
    return _written_in(node, key) and node.keys[key].end <= node.entries[key].start


def _written_in(node: Mapping, key: str) -> bool:
    """Whether the key stands here; those of merged mappings stand where they were written."""
    return key in node.entries and node.start <= node.keys[key].start < node.end


def _column(text: str, offset: int) -> int:
    return offset - (max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1)


def _plain(node: Node) -> _Plain:
    if isinstance(node, Scalar):
        return node.text
    if isinstance(node, Sequence):
        return [_plain(item) for item in node.items]
    return {key: _plain(value) for key, value in node.entries.items()}


def _below(value: _Plain, *keys: str) -> dict[str, _Plain]:
    """The mapping at this path; a job without any key becomes one."""
    for key in keys:
        assert isinstance(value, dict)
        if not isinstance(value[key], dict):
            value[key] = {}
        value = value[key]
    assert isinstance(value, dict)
    return value


def _refuse(source: Source, offset: int, job: str, workers: int, why: str) -> NoReturn:
    raise PlanError(
        "cannot-edit",
        f"{KEY} of job {job} cannot be written for you: {why}; the file is as it was",
        where=source.where(max(0, offset)),
        hint=f"write `{KEY}: {workers}` by hand",
        data={"job": job, KEY: workers},
    )
