"""A plan in the making: what was understood of another tool's file, and as comments what was not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from migctl.core.names import problem, sanitised
from migctl.core.yaml_text import Noted, Value, document
from migctl.planfile.nodes import Mapping as MappingNode
from migctl.planfile.nodes import Node, Scalar
from migctl.planfile.scalars import is_null

PLACEHOLDER_IMAGE = "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime"
_BARE = re.compile(r"(?<!\$)\$(?P<dollars>(?:\$\$)*)(?P<name>[A-Za-z_][A-Za-z0-9_]*)")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")


@dataclass(slots=True)
class JobSketch:
    """One job: its keys, and what of its source is not among them."""

    name: str
    keys: dict[str, Value] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    """Comment lines."""

    def leave(self, what: str, why: str = "") -> None:
        """Say that something was not taken over."""
        self.left.append(f"not taken over: {what}" + (f" ({why})" if why else ""))

    def note(self, text: str) -> None:
        """Say how something was understood."""
        self.left.append(text)


@dataclass(slots=True)
class Sketch:
    """The whole plan."""

    source: str
    """What it was made of: `a Compose file, compose.yaml`."""
    keys: dict[str, Value] = field(default_factory=dict)
    defaults: dict[str, Value] = field(default_factory=dict)
    jobs: dict[str, JobSketch] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    layout: dict[int, list[str]] = field(default_factory=dict)
    """GPU → profiles, for sources that are a layout."""

    def job(self, wanted: str) -> JobSketch:
        """A new job; its name is the nearest one that is allowed and free."""
        base = wanted if problem(wanted) is None else sanitised(wanted, "job")
        name, number = base, 1
        while name in self.jobs:
            number += 1
            name = f"{base[:56]}-{number}"
        self.jobs[name] = JobSketch(name)
        return self.jobs[name]

    def name(self, wanted: str) -> None:
        """The plan's name."""
        self.keys["name"] = wanted if problem(wanted) is None else sanitised(wanted, "plan")

    def leave(self, what: str, why: str = "") -> None:
        """Say that something of the whole file was not taken over."""
        self.left.append(f"not taken over: {what}" + (f" ({why})" if why else ""))

    def note(self, text: str) -> None:
        """Say how something of the whole file was understood."""
        self.left.append(text)

    def placeholders(self) -> None:
        """An image and a command to begin with, for sources that know nothing of trainings."""
        self.defaults["image"] = Noted(PLACEHOLDER_IMAGE, beside="your image")
        self.defaults["command"] = Noted(
            ["nvidia-smi", "-L"], beside="your training; this shows the job's GPU instance"
        )

    @property
    def notices(self) -> tuple[str, ...]:
        """Everything that stands in comments about what was left, for the terminal."""
        return (*self.left, *(f"{job.name}: {line}" for job in self.jobs.values() for line in job.left))

    def text(self) -> str:
        """The plan file."""
        whole: dict[str, Value] = dict(self.keys)
        if self.defaults:
            whole["defaults"] = self.defaults
        whole["jobs"] = {job.name: Noted(job.keys, above=tuple(job.left)) for job in self.jobs.values()}
        return document(whole, (f"From {self.source}. Check it with: migctl plan FILE --on BOARD", *self.left))


def merged(sketches: Sequence[Sketch]) -> Sketch:
    """One plan of several files: what holds for all jobs of one file becomes keys of its jobs where the files differ."""
    first, *rest = sketches
    if not rest:
        return first
    whole = Sketch(" and ".join(sketch.source for sketch in sketches))
    same_defaults = all(sketch.defaults == first.defaults for sketch in rest)
    whole.defaults = first.defaults if same_defaults else {}
    for sketch in sketches:
        whole.left += sketch.left
        whole.layout |= sketch.layout
        for key, value in sketch.keys.items():
            if key == "name" or whole.keys.setdefault(key, value) == value:
                continue
            whole.leave(f"{key}: {shown(value)} of {sketch.source}", f"the plan has {shown(whole.keys[key])}")
        for one in sketch.jobs.values():
            job = whole.job(one.name)
            job.keys = one.keys if same_defaults else {**sketch.defaults, **one.keys}
            job.left = one.left
    return whole


def value_of(node: Node) -> Value:
    """A value as it is spelt; whole numbers and truth values stay what they are."""
    if isinstance(node, Scalar):
        if is_null(node):
            return None
        if node.plain and _NUMBER.fullmatch(node.text):
            return int(node.text)
        if node.plain and node.text in ("true", "false"):
            return node.text == "true"
        return dollars(node.text)
    if isinstance(node, MappingNode):
        return {key: value_of(value) for key, value in node.entries.items()}
    return [value_of(item) for item in node.items]


def plain(node: Node | None) -> Any:  # noqa: ANN401 -- YAML of other tools may be anything
    """A value as Python has it, every scalar as text."""
    if node is None or isinstance(node, Scalar):
        return None if node is None else node.text
    if isinstance(node, MappingNode):
        return {key: plain(value) for key, value in node.entries.items()}
    return [plain(item) for item in node.items]


def dollars(text: str) -> str:
    """Compose replaces `$NAME` too, which a plan leaves alone."""
    return _BARE.sub(lambda found: f"{found['dollars']}${{{found['name']}}}", text)


def literal(text: str) -> str:
    """Text that nothing shall be replaced in: what a plan would replace gets its dollar doubled."""
    return re.sub(r"\$(?=[${])", "$$", text)


def entries(node: Node | None) -> Mapping[str, Node]:
    """The entries of a mapping; none of anything else."""
    return node.entries if isinstance(node, MappingNode) else {}


def items(node: Node | None) -> Iterator[Node]:
    """The items of a list, or the one value."""
    if node is not None:
        yield from (node,) if isinstance(node, Scalar | MappingNode) else node.items


def shown(value: object) -> str:
    """A value in a comment, in one line and not too long."""
    text = " ".join(str(value).split())
    return text if len(text) <= 100 else text[:99] + "…"


def listed(names: Iterable[str]) -> str:
    """Names in a sentence."""
    return ", ".join(names)
