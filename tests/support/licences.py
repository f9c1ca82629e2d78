# ruff: noqa: T201 -- as a program it prints the page
"""The licences of everything that comes with migctl, as a page: `python -m tests.support.licences >docs/licences.md`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
HEAD = """\
# Licences of what comes with migctl

migctl itself is under the [Apache License 2.0](../LICENSE). Installing it brings these libraries, each under the licence that
its own metadata name. Written by `python -m tests.support.licences`; a test compares it with what is installed.

| library | licence | needed by |
|---|---|---|
"""
ALLOWED = frozenset({"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "PSF-2.0"})
"""What may be used without asking anybody; MPL's copyleft ends at its own files."""
_SPELT = {
    "Apache License 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""As metadata before PEP 639 write them."""


def needed() -> dict[str, set[str]]:
    """Every library that a plain installation brings here, with those that need it."""
    asked = tomllib.loads(PROJECT.read_text("utf-8"))["project"]["dependencies"]
    left = [canonicalize_name(Requirement(one).name) for one in asked]
    found: dict[str, set[str]] = {name: {"migctl"} for name in left}
    seen: set[str] = set()
    while left:
        one = left.pop()
        if one in seen:
            continue
        seen.add(one)
        for below in _requirements(one):
            found.setdefault(below, set()).add(one)
            left.append(canonicalize_name(below))
    return dict(sorted(found.items()))


def _requirements(name: str) -> Iterator[str]:
    try:
        lines = distribution(name).requires or []
    except PackageNotFoundError:
        return
    for requirement in map(Requirement, lines):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)


def licence(name: str) -> str:
    """By its SPDX name."""
    metadata = distribution(name).metadata
    told = metadata.get("License-Expression") or _classified(distribution(name)) or metadata.get("License") or "?"
    return _SPELT.get(told, told)


def _classified(found: Distribution) -> str:
    return next(
        (
            text.rpartition(" :: ")[2]
            for text in found.metadata.get_all("Classifier", [])
            if text.startswith("License :: OSI Approved :: ")
        ),
        "",
    )


def rows() -> dict[str, str]:
    """Library → its line."""
    return {name: f"| {name} | {licence(name)} | {', '.join(sorted(by))} |" for name, by in needed().items()}


if __name__ == "__main__":
    print(HEAD + "\n".join(rows().values()))
