"""YAML text to a tree of nodes that keep the source's spelling and place.

The tree is built from parser events on a stack of its own, so that no nesting can exhaust Python's; aliases share their node,
and their unfolded size is counted, so that a small text cannot become a large plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

import yaml

from migctl.errors import PlanError
from migctl.planfile.problems import Report
from migctl.planfile.syntax import syntax_error

DEEPEST = 32
"""Levels; a plan has six."""
MOST_NODES = 200_000
"""With aliases unfolded; 10,000 jobs written one by one have 20 each."""

_STRING_TAGS = frozenset({"!", "tag:yaml.org,2002:str"})
_PLAIN_TAGS = frozenset({"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value as it is spelt. `plain`: without quotes; `free`: from interpolation or the command line, so it may be anything."""

    text: str
    plain: bool = False
    start: int = -1
    end: int = -1
    free: bool = False
    size: ClassVar[int] = 1
    height: ClassVar[int] = 1

    @property
    def dollar(self) -> bool:
        """Whether interpolation has something to do here."""
        return "$" in self.text


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    items: tuple[Node, ...]
    start: int = -1
    end: int = -1
    dollar: bool = False
    size: int = 1
    height: int = 1


@dataclass(frozen=True, slots=True)
class Mapping:
    """A mapping, in the file's order."""

    entries: dict[str, Node]
    keys: dict[str, Scalar]
    start: int = -1
    end: int = -1
    dollar: bool = False
    size: int = 1
    height: int = 1


Node = Scalar | Sequence | Mapping


@dataclass(slots=True)
class _Open:
    """A collection that is being read."""

    start: int
    mapping: bool
    anchor: str | None
    nodes: list[Node]


def compose(report: Report, *, libyaml: bool = True) -> Node | None:
    """The one document of the source; mistakes go to the report. `None`: there is nothing to work on.

    Args:
        report: has the source, and takes the mistakes.
        libyaml: use PyYAML's binding to libyaml where it was built with one; it is ten times faster.
    """
    builder = _Builder(report)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader) if libyaml else yaml.SafeLoader
    try:
        return builder.build(yaml.parse(report.source.text, Loader=loader))
    except yaml.YAMLError as error:
        report.add(syntax_error(error, report.source))
    except PlanError as error:
        report.add(error)
    return None


class _Builder:
    def __init__(self, report: Report) -> None:
        self.report = report
        self.anchors: dict[str, Node | None] = {}
        self.stack: list[_Open] = []
        self.total = 0

    def build(self, events: Iterator[yaml.Event]) -> Node | None:
        root: Node | None = None
        documents = 0
        for event in events:
            node: Node | None = None
            if isinstance(event, yaml.ScalarEvent):
                node = self._scalar(event)
            elif isinstance(event, yaml.AliasEvent):
                node = self._alias(event)
            elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                self._open(event)
            elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                node = self._close(self._end(event))
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._stop(
                        "several-documents",
                        "a plan file holds one document, here a second one starts",
                        event,
                        "one file a plan",
                    )
            if node is not None:
                if self.stack:
                    self.stack[-1].nodes.append(node)
                else:
                    root = node
        return root

    def _at(self, event: yaml.Event) -> int:
        mark = event.start_mark
        return 0 if mark is None else mark.index

    def _end(self, event: yaml.Event) -> int:
        mark = event.end_mark
        return 0 if mark is None else mark.index

    def _stop(self, kind: str, message: str, event: yaml.Event, hint: str | None = None) -> PlanError:
        return PlanError(kind, message, where=self.report.source.where(self._at(event)), hint=hint)

    def _count(self, size: int, event: yaml.Event) -> None:
        self.total += size
        if self.total > MOST_NODES:
            raise self._stop(
                "too-many-values",
                f"with its aliases unfolded the plan has more than {MOST_NODES} values",
                event,
                "use `matrix` or fewer aliases",
            )

    def _scalar(self, event: yaml.ScalarEvent) -> Scalar:
        self.total += 1
        if self.total > MOST_NODES:
            self._count(0, event)
        tag: str | None = event.tag
        if tag is not None and tag not in _STRING_TAGS:
            self._refuse_tag(event)
        plain = not event.style and tag is None
        start, end = event.start_mark, event.end_mark
        node = Scalar(event.value, plain, start.index if start else 0, end.index if end else 0)
        if "\0" in node.text or not encodable(node.text):
            raise self._stop(
                "control-character", "an escape makes a character that no argument or path may hold", event
            )
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def _refuse_tag(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        self.report.error(
            "tag",
            f"the tag {event.tag} means nothing here",
            self._at(event),
            "delete it; quote a value that must stay text",
        )

    def _alias(self, event: yaml.AliasEvent) -> Node:
        name = event.anchor or ""
        node = self.anchors.get(name)
        if node is None:
            if name in self.anchors:
                raise self._stop("alias-of-itself", f"*{name} stands inside what it names", event)
            raise self._stop(
                "unknown-alias",
                f"no anchor &{name} stands before *{name}",
                event,
                'quote the value if it is meant to start with "*"',
            )
        self._count(node.size, event)
        if len(self.stack) + node.height > DEEPEST:
            raise self._stop("too-deep", f"values are nested more than {DEEPEST} levels deep", event)
        return node

    def _open(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        self._count(1, event)
        if len(self.stack) >= DEEPEST:
            raise self._stop("too-deep", f"values are nested more than {DEEPEST} levels deep", event)
        if event.tag is not None and event.tag not in _PLAIN_TAGS:
            self._refuse_tag(event)
        if event.anchor:
            self.anchors[event.anchor] = None
        self.stack.append(_Open(self._at(event), isinstance(event, yaml.MappingStartEvent), event.anchor, []))

    def _close(self, end: int) -> Node:
        done = self.stack.pop()
        size = 1 + sum(node.size for node in done.nodes)
        height = 1 + max((node.height for node in done.nodes), default=0)
        dollar = any(node.dollar for node in done.nodes)
        node: Node
        if done.mapping:
            entries, keys = self._entries(done.nodes)
            node = Mapping(entries, keys, done.start, end, dollar, size, height)
        else:
            node = Sequence(tuple(done.nodes), done.start, end, dollar, size, height)
        if done.anchor:
            self.anchors[done.anchor] = node
        return node

    def _entries(self, nodes: list[Node]) -> tuple[dict[str, Node], dict[str, Scalar]]:
        entries: dict[str, Node] = {}
        keys: dict[str, Scalar] = {}
        merged: list[Mapping] = []
        for key, value in zip(nodes[::2], nodes[1::2], strict=True):
            if not isinstance(key, Scalar):
                self.report.error(
                    "bad-key",
                    "a key must be one word, not a list or mapping",
                    key.start,
                    "quote it if braces or brackets belong to it",
                )
                continue
            if key.text in keys:
                first, here = keys[key.text], self.report.source.line
                self.report.error(
                    "duplicate-key",
                    f"{_shown(key.text)} stands twice in the same mapping, in line {here(first.start)} and line {here(key.start)}",
                    key.start,
                    "delete or rename one",
                )
                continue
            keys[key.text] = key
            if key.text == "<<" and key.plain:
                merged += self._merged(value)
            else:
                entries[key.text] = value
        if "<<" not in entries:
            keys.pop("<<", None)
        for more in merged:
            for name, node in more.entries.items():
                if name not in entries:
                    entries[name] = node
                    keys[name] = more.keys[name]
        return entries, keys

    def _merged(self, value: Node) -> list[Mapping]:
        nodes = value.items if isinstance(value, Sequence) else (value,)
        good = [node for node in nodes if isinstance(node, Mapping)]
        if len(good) < len(nodes):
            self.report.error(
                "bad-merge",
                "<< takes a mapping or a list of mappings",
                value.start,
                "write <<: *name, with &name at a mapping",
            )
        return good


def encodable(text: str) -> bool:
    """Whether it can be written as UTF-8: half of a surrogate pair cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(key: str) -> str:
    return key if key and key.isprintable() and len(key) <= 80 else repr(key[:80])


def from_value(value: object) -> Node:
    """A node for a value that stands in no file (command line); strings may be read as numbers."""
    if isinstance(value, dict):
        entries = {str(key): from_value(item) for key, item in value.items()}
        return Mapping(entries, {key: Scalar(key) for key in entries})
    if isinstance(value, (list, tuple)):
        return Sequence(tuple(from_value(item) for item in value))
    if value is None:
        return Scalar("", plain=True)
    if isinstance(value, bool):
        return Scalar("true" if value else "false", plain=True)
    return Scalar(str(value), free=True)


def walk(node: Node) -> Iterator[Scalar]:
    """All scalars below, keys left out."""
    if isinstance(node, Scalar):
        return iter((node,))
    below = node.items if isinstance(node, Sequence) else tuple(node.entries.values())
    return chain.from_iterable(walk(item) for item in below)
