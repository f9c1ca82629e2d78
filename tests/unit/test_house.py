"""The rules of the house that a machine can check; CONTRIBUTING.md says why they are there."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "migctl"
MODULES = sorted(PACKAGE.rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

MOST_LINES = 350
NAMES_THAT_SAY_NOTHING = {"utils", "util", "helpers", "helper", "manager", "managers", "misc", "tools", "lib", "stuff"}
HEAVY = ("docker", "pynvml", "rich", "yaml", "requests", "sqlite3")
"""What no command line without work to do may wait for; pydantic is typer's own way to read options."""
FOREIGN_PLACES = (
    # the folder that this checkout happens to lie in
    re.escape(str(ROOT)) + r"\b",
    # registries and package indexes are a choice of whoever installs
    r"https?://[\w.-]*(?:registry|index|mirror)[\w./-]*",
    r"https?://[\w./-]+/simple\b",
)


def in_package(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tracked() -> list[Path]:
    """The files of the checkout; of an unpacked archive all files that are no by-product."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        paths = [
            p for p in ROOT.rglob("*") if not any(part.startswith((".", "__")) for part in p.relative_to(ROOT).parts)
        ]
    return [path for path in paths if path.is_file()]


@pytest.mark.parametrize("module", MODULES, ids=in_package)
def test_a_module_is_a_named_idea_of_readable_length(module: Path) -> None:
    text = module.read_text("utf-8")
    docstring = ast.get_docstring(ast.parse(text))

    assert len(text.splitlines()) <= MOST_LINES
    assert module.stem not in NAMES_THAT_SAY_NOTHING
    assert docstring, "a module says in one sentence what it is"
    assert not docstring.splitlines()[0].startswith(("This module", "Module "))


def test_classes_are_named_for_what_they_are() -> None:
    named = [
        f"{in_package(module)}: {node.name}"
        for module in MODULES
        for node in ast.walk(ast.parse(module.read_text("utf-8")))
        if isinstance(node, ast.ClassDef) and re.search(r"(Manager|Helper|Util|Utils)$", node.name)
    ]

    assert named == []


def test_every_silenced_check_names_its_code_and_its_reason() -> None:
    bare = []
    for module in MODULES:
        explained: set[str] = set()
        for number, line in enumerate(module.read_text("utf-8").splitlines(), 1):
            if found := re.search(
                r"#\s*(?:noqa|type:\s*ignore)(?P<codes>[^#]*?)(?P<reason>\s--\s\S.*|\s#\s*\S.*)?$", line
            ):
                codes = set(re.findall(r"[A-Z]+\d+|\[[\w, -]+\]", found["codes"]))
                if found["reason"]:
                    explained |= codes
                # The reason stands at the first of its kind in a file.
                if not codes or not codes <= explained:
                    bare.append(f"{in_package(module)}:{number}")

    assert bare == []


def test_core_knows_no_any() -> None:
    using = [
        in_package(module)
        for module in (PACKAGE / "core").rglob("*.py")
        for node in ast.walk(ast.parse(module.read_text("utf-8")))
        if isinstance(node, ast.alias) and node.name == "Any"
    ]

    assert using == []


def test_imports_point_inward() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_names_a_place_on_somebodys_machine_or_a_registry() -> None:
    pattern = re.compile("|".join(FOREIGN_PLACES))
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in tracked()
        if path != Path(__file__)
        for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]

    assert found == []


def test_every_runtime_dependency_is_explained_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    names = [re.split(r"[^\w-]", dependency)[0] for dependency in PROJECT["project"]["dependencies"]]

    unexplained = [name for name in names if not re.search(rf"(?m)^[|*-] *[`*\[]*{re.escape(name)}\b.{{20,}}", readme)]

    assert unexplained == []


def test_every_ignored_rule_of_the_linter_has_its_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    block = re.search(r"(?ms)^ignore = \[\n(.*?)^\]", text)

    assert block is not None
    assert [line for line in block[1].splitlines() if line.strip() and "#" not in line] == []


LOADED = """
import contextlib, io, json, re, sys
before = set(sys.modules)  # a test run that measures coverage brings sqlite3
from migctl.cli.app import run
from migctl.cli.application import application
names = [command.name for command in application().registered_commands]
with contextlib.redirect_stdout(io.StringIO()) as shown:
    codes = {name: run([*name.split(), "--help"]) for name in ["", *names]}
heavy = sorted({module.split(".")[0] for module in set(sys.modules) - before} & set(sys.argv[1:]))
print(json.dumps({"codes": codes, "heavy": heavy, "usages": shown.getvalue().count("Usage:"),
                  "types": re.findall(r"<[A-Za-z\\[]+.*>", shown.getvalue())}))
"""


def test_help_of_every_command_loads_no_heavy_library() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED, *HEAVY], cwd=ROOT, capture_output=True, text=True, check=True)
    seen = json.loads(done.stdout)

    assert len(seen["codes"]) > 10
    assert set(seen["codes"].values()) == {0}
    assert seen["usages"] == len(seen["codes"])
    assert seen["heavy"] == []
    assert seen["types"] == [], "Python's types are no names for a user"


def test_the_version_is_told_without_the_command_line() -> None:
    told = "import sys; sys.argv[1:] = ['--version']; from migctl.__main__ import main; main(); print('typer' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], cwd=ROOT, capture_output=True, text=True, check=True)

    assert re.fullmatch(r"migctl \d+\.\d+\.\d+\nFalse\n", done.stdout)


def test_the_changelog_starts_with_this_version_or_what_comes_after_it() -> None:
    from migctl import __version__

    headings = re.findall(r"(?m)^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"))

    assert headings[0] in {"Unreleased", __version__}
    assert __version__ in headings


@pytest.mark.parametrize(
    "script", sorted(p.name for p in (ROOT / "scripts").iterdir() if p.is_file() and p.suffix == "")
)
def test_scripts_run_under_a_plain_shell_and_say_what_they_are_for(script: str) -> None:
    path = ROOT / "scripts" / script
    lines = path.read_text("utf-8").splitlines()

    assert path.stat().st_mode & 0o111
    assert lines[1].startswith(("# ", '"""'))
    if lines[0] == "#!/bin/sh":
        subprocess.run(["sh", "-n", path], check=True)
