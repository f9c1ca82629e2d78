"""Golden texts: what a user sees, kept as files; MIGCTL_UPDATE_GOLDEN=1 rewrites them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare a text with `tests/golden/NAME.txt`."""

    def compare(name: str, text: str) -> None:
        path = FOLDER / f"{name}.txt"
        if os.environ.get("MIGCTL_UPDATE_GOLDEN") == "1":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
        assert path.exists(), f"no {path}: run once with MIGCTL_UPDATE_GOLDEN=1 and look at it"
        assert text == path.read_bytes().decode("utf-8")

    return compare
