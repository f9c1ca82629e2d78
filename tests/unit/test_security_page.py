"""docs/security.md names the test that shows each defence: all of them exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_the_threat_model_names_exists() -> None:
    page = (ROOT / "docs/security.md").read_text("utf-8")
    named = re.findall(r"`(tests/[a-z0-9_/]+\.py)::(\w+)`", page)

    assert len(named) > 20
    missing = [f"{file}::{name}" for file, name in named if f"def {name}(" not in (ROOT / file).read_text("utf-8")]
    assert missing == []
