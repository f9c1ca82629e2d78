"""Everything that comes with migctl is listed with its licence, and is under one that anybody may use."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.support.licences import ALLOWED, licence, needed, rows

ROOT = Path(__file__).parents[2]
RUN_TIME = {"docker", "nvidia-ml-py", "pydantic", "pyyaml", "typer"}


def test_the_page_has_every_library_that_is_installed_with_its_licence() -> None:
    page = (ROOT / "docs/licences.md").read_text("utf-8")

    missing = [line for line in rows().values() if line not in page]

    assert missing == [], "python -m tests.support.licences >docs/licences.md"


@pytest.mark.parametrize("name", needed())
def test_each_is_under_a_licence_that_anybody_may_use(name: str) -> None:
    assert licence(name) in ALLOWED


def test_no_library_is_needed_at_run_time_but_those_whose_reason_the_readme_gives() -> None:
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]

    assert {re.match(r"[\w-]+", one)[0] for one in asked} == RUN_TIME
    readme = (ROOT / "README.md").read_text("utf-8")
    assert all(f"| `{name}` |" in readme for name in RUN_TIME)
