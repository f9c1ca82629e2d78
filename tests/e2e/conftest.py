"""What the end-to-end tests share: the program in a folder of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.program import Program


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """The program without any container engine; nothing of it is left afterwards."""
    here = Program(tmp_path, DOCKER_HOST=f"unix://{tmp_path}/no-engine.sock")
    yield here
    here.clean()
