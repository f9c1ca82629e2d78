"""Up and down many times leaves nothing behind: instances, containers, processes, descriptors, files, store rows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from migctl.core.choices import RuntimeName
from tests.support import cycles
from tests.support.crashes import RUN, site_at
from tests.support.engines import reachable_engine


@pytest.mark.slow
def test_fifty_cycles_on_the_simulator_leave_nothing_behind(tmp_path: Path) -> None:
    with site_at(tmp_path) as site:
        cycles.run(site, {}, RuntimeName.PROCESS, 50)


@pytest.mark.slow
@pytest.mark.docker
def test_ten_cycles_with_real_containers_leave_nothing_behind(tmp_path: Path) -> None:
    with reachable_engine() as client, site_at(tmp_path) as site:
        host = {name: os.environ[name] for name in ("DOCKER_HOST",) if name in os.environ}
        cycles.run(site, host, RuntimeName.DOCKER, 10)
        assert client.containers(all=True, filters={"label": f"io.migctl.run={RUN}"}) == []
