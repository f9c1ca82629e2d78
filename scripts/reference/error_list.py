"""docs/errors.md: every error, warning and finding that the source can raise, read from the source itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from migctl import errors

PACKAGE = Path(errors.__file__).parent
KEBAB = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
WARNING, FINDING = "warning", "finding"
CODES = {
    name: kind.exit_code
    for name, kind in vars(errors).items()
    if isinstance(kind, type)
    and issubclass(kind, errors.MigctlError)
    and kind not in (errors.MigctlError, errors.Problems)
}
HEADINGS: Mapping[int | str, str] = {
    1: "Exit code 1: a bug in migctl",
    2: "Exit code 2: the plan or the command line is wrong",
    3: "Exit code 3: it does not fit",
    4: "Exit code 4: this host cannot do it now",
    5: "Exit code 5: somebody else has it; try again later",
    6: "Exit code 6: something was changed, and not everything could be finished",
    7: "Exit code 7: reality differs from the records",
    8: "Exit code 8: a job failed, was stopped or is lost",
    130: "Exit code 130 (143, 129): a signal ended the command",
    WARNING: "Warnings",
    FINDING: "Findings of `migctl check`",
}


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One thing that can be said."""

    kind: int | str
    """Exit code, `warning` or `finding`."""
    id: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Opaque:
    """A place that raises under an id which the source does not spell there."""

    place: str
    id: str


class Reader:
    """All entries of the package's source."""

    def __init__(self, package: Path = PACKAGE) -> None:
        self.trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(package.rglob("*.py"))}
        self.package = package
        self.constants = _constants(self.trees.values())
        self.codes = dict(CODES)
        for tree in self.trees.values():
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    for base in node.bases:
                        if isinstance(base, ast.Name) and base.id in CODES:
                            self.codes[node.name] = CODES[base.id]
        self.entries: dict[Entry, None] = {
            Entry(1, "bug", "this is a bug in migctl", "please report it with the text on stderr"): None
        }
        self.opaque: list[Opaque] = []
        for path, tree in self.trees.items():
            self.given = _given(tree)
            self._module(path, tree)

    def _module(self, path: Path, tree: ast.Module) -> None:
        for parent in ast.walk(tree):
            base = parent.name if isinstance(parent, ast.ClassDef) else None
            for node in ast.iter_child_nodes(parent):
                if isinstance(node, ast.Call):
                    self._call(path, node)
                elif isinstance(node, ast.Tuple):
                    self._tuple(node)
                elif base in self.codes and base not in CODES:
                    for inner in ast.walk(node):
                        if isinstance(inner, ast.Call) and ast.unparse(inner.func) == "super().__init__":
                            self._add(
                                path,
                                inner,
                                self.codes[base],
                                _at(inner, 0, "id"),
                                _at(inner, 1, "message"),
                                _at(inner, None, "hint"),
                            )

    def _tuple(self, node: ast.Tuple) -> None:
        """Rows of tables: (class, id, message, hint)."""
        if len(node.elts) == 4 and isinstance(node.elts[0], ast.Name) and node.elts[0].id in self.codes:
            kind, name, message, hint = node.elts
            if not isinstance(kind, ast.Name) or not list(self._ids(name)):
                return
            self._add(None, node, self.codes[kind.id], name, message, hint)

    def _call(self, path: Path, node: ast.Call) -> None:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in CODES:
            self._add(
                path, node, self.codes[called], _at(node, 0, "id"), _at(node, 1, "message"), _at(node, None, "hint")
            )
        elif called == "Notice":
            self._add(path, node, WARNING, _at(node, 0, "id"), _at(node, 1, "message"), _at(node, 2, "hint"))
        elif called == "Finding":
            # A slip of a pinned job is another value of that name, without an id.
            if _at(node, None, "id") is not None and "Level.OK" not in ast.unparse(node):
                self._add(
                    path, node, FINDING, _at(node, None, "id"), _at(node, None, "message"), _at(node, None, "hint")
                )
        elif called == "Rule" and len(node.args) >= 4 and isinstance(node.args[1], ast.Name):
            self._add(path, node, self.codes[node.args[1].id], node.args[2], node.args[3], _at(node, 4, "hint"))
        elif called == "Refusal":
            name = _at(node, None, "id") or ast.Constant("bad-value")
            whole = _at(node, None, "whole") is not None
            message = _at(node, 0, "message")
            if message is not None and not whole:
                message = ast.BinOp(ast.Constant("KEY "), ast.Add(), message)
            self._add(path, node, 2, name, message, _at(node, 1, "hint"))
        elif called in ("error", "notice") and len(node.args) >= 2 and list(self._ids(node.args[0])):
            kind = 2 if called == "error" else WARNING
            self._add(path, node, kind, node.args[0], node.args[1], _at(node, 3, "hint"))
        elif called == "_warning" and len(node.args) >= 2:
            self._add(path, node, FINDING, node.args[0], node.args[1], _at(node, 2, "hint"))

    def _add(
        self,
        path: Path | None,
        node: ast.AST,
        kind: int | str,
        name: ast.expr | None,
        message: ast.expr | None,
        hint: ast.expr | None,
    ) -> None:
        ids = list(self._ids(name)) if name is not None else []
        if not ids:
            place = f"{path.relative_to(self.package)}:{getattr(node, 'lineno', 0)}" if path else ""
            self.opaque.append(Opaque(place, ast.unparse(name) if name is not None else ""))
        for one in ids:
            self.entries[Entry(kind, one, self._words(message), self._words(hint))] = None

    def _ids(self, node: ast.expr) -> Iterator[str]:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and KEBAB.fullmatch(node.value):
            yield node.value
        elif isinstance(node, ast.IfExp):
            yield from self._ids(node.body)
            yield from self._ids(node.orelse)
        elif isinstance(node, ast.Name) and node.id in self.constants:
            yield self.constants[node.id]
        elif isinstance(node, ast.Name):
            for given in self.given.get(node, ()):
                yield from self._ids(given)
        elif isinstance(node, ast.JoinedStr) and isinstance(first := node.values[0], ast.Constant):
            yield f"{first.value}…"  # one of a family: policy-images, policy-mounts

    def _words(self, node: ast.expr | None) -> str:
        """A text of the source with dots for what only the moment tells."""
        return re.sub(r"…(?:[ ,:]*…)+", "…", " ".join(self._text(node).split())) if node is not None else ""

    def _text(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.Constant(value=None):
                return ""
            case ast.JoinedStr(values=parts):
                return "".join(self._text(part) for part in parts)
            case ast.FormattedValue(value=ast.Name(id=name)) if name in self.constants:
                return self.constants[name]
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._text(left) + self._text(right)
            case ast.IfExp(body=body, orelse=orelse):
                return self._text(body) or self._text(orelse)
            case ast.BoolOp(values=values):
                return self._text(values[-1])
            case ast.Name(id=name) if name in self.constants:
                return self.constants[name]
            case _:
                return "…"


def _given(tree: ast.Module) -> dict[ast.expr, list[ast.expr]]:
    """Names of parameters as they are used in their function → what callers in the same module give for them."""
    found: dict[ast.expr, list[ast.expr]] = {}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef) or not function.name.startswith("_"):
            continue
        parameters = [parameter.arg for parameter in function.args.args if parameter.arg != "self"]
        given = {name: [] for name in parameters}  # type: dict[str, list[ast.expr]]
        for call in calls:
            if ast.unparse(call.func).removeprefix("self.") == function.name:
                for name, value in [
                    *zip(parameters, call.args, strict=False),
                    *((k.arg, k.value) for k in call.keywords),
                ]:
                    given.setdefault(str(name), []).append(value)
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and node.id in given:
                found[node] = given[node.id]
    return found


def _constants(trees: Iterable[ast.Module]) -> dict[str, str]:
    """Texts that modules give a name in capitals."""
    found: dict[str, str] = {}
    for tree in trees:
        for node in tree.body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            value = getattr(node, "value", None)
            if (
                isinstance(target, ast.Name)
                and target.id.isupper()
                and isinstance(value, ast.Constant)
                and isinstance(value.value, str)
            ):
                found[target.id] = value.value
    return found


def _at(node: ast.Call, position: int | None, name: str) -> ast.expr | None:
    for keyword in node.keywords:
        if keyword.arg == name:
            return keyword.value
    return node.args[position] if position is not None and len(node.args) > position else None


INTRODUCTION = """# Every error, warning and finding

Whatever goes wrong is said with what is wrong and why, where, and what to do next; with `--json` it is one object with the same
parts and the `id` of this list. Ids are stable; texts may get better. `…` stands for what only the moment tells: a name, a number,
a path, and `KEY` for the key of the plan that is meant. Why a *job* failed is another list:
[seeing.md](seeing.md). This page is written by `scripts/docs` from the source.

The exit code is about the work. Where the answer is the work (`plan`, `status`, `logs` …) it fails when it cannot be
written; `up`, `down`, `wait` and all else that acts goes on, says so on stderr, and ends as if it had been read. A reader
that has gone (`| head`) is no failure, and a closed stream is `/dev/null`: `up` from cron needs none.
"""


def page(reader: Reader | None = None) -> str:
    """The whole document."""
    reader = reader or Reader()
    lines = [INTRODUCTION]
    for kind, heading in HEADINGS.items():
        found = sorted(entry for entry in reader.entries if entry.kind == kind) if kind else []
        if found:
            lines += [f"## {heading}\n", "| id | what is wrong, and why | way out |", "|---|---|---|"]
            lines += [_row(entry) for entry in found]
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _row(entry: Entry) -> str:
    message, hint = _cell(entry.message), _cell(entry.hint)
    return f"| `{entry.id}` | {message or 'told at its place'} | {hint or 'as the message says'} |"


def _cell(text: str) -> str:
    return "" if text == "…" else text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
