"""From the entries of `jobs:` to one draft for each job: defaults merged in, matrix and replicas unfolded, `${…}` replaced."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod

from migctl.core import names
from migctl.planfile.compose_fields import variables
from migctl.planfile.gpu_fields import positive
from migctl.planfile.interpolation import Scope, fill
from migctl.planfile.models import JOB_KEYS, PLAN_KEYS, JobModel
from migctl.planfile.nodes import Mapping as MappingNode
from migctl.planfile.nodes import Node, Scalar, Sequence, walk
from migctl.planfile.problems import Refusal, Report
from migctl.planfile.scalars import ambiguous, kind, verbatim
from migctl.planfile.validate import known_entries, validated

MOST_JOBS = 16_384
"""Of one plan; a larger sweep is several plans."""

AT_START = frozenset({"command", "entrypoint", "environment"})
"""Keys in which `${MIGCTL_…}` may stand."""

# A job that names one of a group does not inherit another of it.
_GROUPS = (("profile", "memory", "slices", "instance"), ("cpus", "cpuset"))
# Compose's rules for merging: mappings by key, lists one after the other; a command replaces a command.
_MAPPINGS = frozenset({"environment", "labels", "ulimits"})
_LISTS = frozenset({"volumes", "ports", "env_file", "tmpfs", "group_add", "extra_hosts", "cap_add", "security_opt"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One job, validated key by key."""

    name: str
    origin: str
    start: int
    """Offset of its key."""
    nodes: Mapping[str, Node]
    model: JobModel
    wrong: frozenset[str]
    """Keys with a mistake that is already reported."""
    inherited_volumes: int
    """How many of its volumes come from the defaults."""


@dataclass(frozen=True, slots=True)
class _Read:
    """Entries with their `${…}` replaced, and what they mean."""

    nodes: Mapping[str, Node]
    model: JobModel
    wrong: frozenset[str]

    def only(self, keys: Collection[str]) -> _Read:
        """Those of some keys; the model still has the others."""
        return _Read(
            {key: self.nodes[key] for key in keys if key in self.nodes}, self.model, self.wrong.intersection(keys)
        )

    def joined(self, other: _Read) -> _Read:
        """These and the entries of other keys."""
        values = {key: getattr(other.model, key) for key in other.nodes if key not in other.wrong}
        return _Read({**self.nodes, **other.nodes}, self.model.model_copy(update=values), self.wrong | other.wrong)


def drafts(jobs: MappingNode, defaults: MappingNode | None, scope: Scope, report: Report) -> list[Draft]:
    """All jobs in the file's order; mistakes go to the report."""
    base = known_entries(defaults, report, JOB_KEYS, in_job=True, elsewhere=PLAN_KEYS) if defaults is not None else {}
    # With every job too; those that each job replaces would otherwise hide their mistakes.
    inherited = _read({key: value for key, value in base.items() if not _varies(value)}, scope, report)
    found: list[Draft] = []
    for origin, node in jobs.entries.items():
        key = jobs.keys[origin]
        named = _check_name(key, report)
        own = _entries(node, origin, report)
        if own is None:
            continue
        entries = _merged(base, own)
        variants = _variants(entries, scope, report)
        replicas = _replicas(entries, scope, report)
        if len(found) + len(variants) * replicas > MOST_JOBS:
            report.error(
                "too-many-jobs",
                f"with matrix and replicas the plan has more than {MOST_JOBS} jobs",
                key.start,
                "make several plans",
            )
            break
        volumes = _inherited_volumes(base, own)
        used: set[str] = set()
        varying = {key: value for key, value in entries.items() if _varies(value)}
        kept = [key for key, value in entries.items() if value is base.get(key) and key not in varying]
        mine = {key: value for key, value in entries.items() if key not in varying and key not in kept}
        shared = _read(mine, scope, report).joined(inherited.only(kept))
        for variant in variants:
            here = scope.variant(dict(variant)) if "matrix" in entries else scope
            read = shared.joined(_read(varying, here, report)) if varying else shared
            used |= here.used
            for number in range(1, replicas + 1):
                name = names.expanded(origin, variant, number if replicas > 1 else None) if named else origin
                found.append(
                    Draft(
                        name=name,
                        origin=origin,
                        start=key.start,
                        nodes=read.nodes,
                        model=read.model,
                        wrong=read.wrong,
                        inherited_volumes=volumes,
                    )
                )
        _notice_unused(origin, entries.get("matrix"), used, report)
    return found


def _check_name(key: Scalar, report: Report) -> bool:
    # A decimal number is the same name for every reader.
    if (why := ambiguous(key)) and not re.fullmatch(r"0|[1-9][0-9]*", key.text):
        report.error("quote-it", f"the job's name must be text, and {why}", key.start, f'quote it: "{key.text}"')
        return False
    if why := names.problem(key.text):
        hint = "names take no ${…}" if "${" in key.text else f"write {names.sanitised(key.text, 'job')}"
        shown = key.text if 0 < len(key.text) <= 80 and key.text.isprintable() else repr(key.text[:80])
        report.error("bad-name", f"the job name {shown} {why}", key.start, hint)
        return False
    return True


def _entries(node: Node, origin: str, report: Report) -> dict[str, Node] | None:
    if isinstance(node, Scalar) and node.plain and not node.text:
        return {}
    if not isinstance(node, MappingNode):
        report.error(
            "bad-job",
            f"job {origin} must be a mapping of keys, got {kind(node)}",
            node.start,
            "write its keys below it, indented",
        )
        return None
    return known_entries(node, report, JOB_KEYS, in_job=True, elsewhere=PLAN_KEYS)


def _merged(base: Mapping[str, Node], own: Mapping[str, Node]) -> dict[str, Node]:
    hidden = {key for group in _GROUPS if any(key in own for key in group) for key in group}
    entries = {key: value for key, value in base.items() if key not in hidden}
    for key, value in own.items():
        before = entries.get(key)
        entries[key] = value if before is None else _joined(key, before, value)
    return entries


def _joined(key: str, before: Node, value: Node) -> Node:
    if key in _LISTS and (isinstance(before, Sequence) or isinstance(value, Sequence) or key in ("env_file", "tmpfs")):
        items = (*_items(before), *_items(value))
        return Sequence(items, value.start, value.end, any(item.dollar for item in items))
    if key in _MAPPINGS:
        try:
            entries = {**variables(before), **variables(value)}
        except Refusal:
            return value
        keys = {**_keys(before), **_keys(value)}
        return MappingNode(
            entries, {name: keys.get(name, Scalar(name, start=entries[name].start)) for name in entries}, value.start, value.end,
            any(item.dollar for item in entries.values()),
        )  # fmt: skip
    return value


def _items(node: Node) -> tuple[Node, ...]:
    return node.items if isinstance(node, Sequence) else (node,)


def _keys(node: Node) -> Mapping[str, Scalar]:
    return node.keys if isinstance(node, MappingNode) else {}


def _inherited_volumes(base: Mapping[str, Node], own: Mapping[str, Node]) -> int:
    before, mine = base.get("volumes"), own.get("volumes")
    return len(before.items) if isinstance(before, Sequence) and isinstance(mine, Sequence) else 0


def _filled(entries: Mapping[str, Node], scope: Scope, report: Report) -> tuple[dict[str, Node], frozenset[str]]:
    nodes: dict[str, Node] = {}
    broken: set[str] = set()
    for key, value in entries.items():
        if key in ("matrix", "replicas"):
            continue
        if not value.dollar:
            nodes[key] = value
        elif (filled := fill(value, scope, report, at_start=key in AT_START)) is None:
            broken.add(key)
        else:
            nodes[key] = filled
    return nodes, frozenset(broken)


def _read(entries: Mapping[str, Node], scope: Scope, report: Report) -> _Read:
    nodes, broken = _filled(entries, scope, report)
    model, wrong = validated(JobModel, nodes, report)
    return _Read(nodes, model, wrong | broken)


def _varies(value: Node) -> bool:
    """Whether it differs from variant to variant; all else is read once for them all, since a matrix may make thousands."""
    return value.dollar and any("${matrix." in part.text for part in walk(value))


def _variants(entries: Mapping[str, Node], scope: Scope, report: Report) -> list[tuple[tuple[str, str], ...]]:
    node = entries.get("matrix")
    filled = fill(node, scope, report, at_start=False) if node is not None else None
    if filled is None:
        return [()]
    if not isinstance(filled, MappingNode):
        report.error(
            "bad-matrix",
            f"matrix must be a mapping of lists, got {kind(filled)}",
            filled.start,
            "write {lr: [0.1, 0.01]}",
        )
        return [()]
    axes = [list(_axis(filled.keys[key], value, report)) for key, value in filled.entries.items()]
    if not all(axes) or prod(len(axis) for axis in axes) > MOST_JOBS:
        if all(axes):
            report.error(
                "too-many-jobs",
                f"this matrix makes more than {MOST_JOBS} jobs",
                filled.start,
                "make several plans",
            )
        axes = [axis[:1] for axis in axes if axis]
    return list(product(*axes))


def _axis(key: Scalar, value: Node, report: Report) -> Iterator[tuple[str, str]]:
    if not key.text.replace("-", "_").isidentifier() or not key.text.isascii():
        report.error(
            "bad-matrix",
            f"{key.text!r} cannot be a key of a matrix",
            key.start,
            "use letters, digits and '_'",
        )
    if not isinstance(value, Sequence):
        report.error(
            "bad-matrix",
            f"matrix.{key.text} must be a list, got {kind(value)}",
            value.start,
            f"write {key.text}: [a, b]",
        )
        return
    if not value.items:
        report.error(
            "bad-matrix",
            f"matrix.{key.text} is an empty list, which makes no job",
            value.start,
            "give it values, or delete it",
        )
    for item in value.items:
        try:
            yield key.text, verbatim(item)
        except Refusal as refused:
            report.error(refused.id, f"a value of matrix.{key.text} {refused.message}", item.start, refused.hint)


def _replicas(entries: Mapping[str, Node], scope: Scope, report: Report) -> int:
    node = entries.get("replicas")
    filled = fill(node, scope, report, at_start=False) if node is not None else None
    if filled is None:
        return 1
    try:
        return positive(filled)
    except Refusal as refused:
        report.error(refused.id, f"replicas {refused.message}", filled.start, refused.hint)
        return 1


def _notice_unused(origin: str, matrix: Node | None, used: set[str], report: Report) -> None:
    if not isinstance(matrix, MappingNode):
        return
    for key in matrix.entries:
        if key not in used:
            report.notice(
                "matrix-unused",
                f"job {origin} never uses ${{matrix.{key}}}: its jobs differ only in name there",
                matrix.keys[key].start,
                f"use ${{matrix.{key}}} in the command, or replicas for equal jobs",
            )
