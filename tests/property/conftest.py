"""What the crash tests share: a small machine for each test, and a process in which commands can be killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.crash_server import Server, server
from tests.support.crashes import Site, site_at


@pytest.fixture(scope="module")
def commands() -> Iterator[Server]:
    """Commands for which a kill is ordered."""
    with server() as running:
        yield running


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A machine with somebody else's instance; its jobs end with the test."""
    with site_at(tmp_path) as made:
        yield made
