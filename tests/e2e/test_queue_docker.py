"""The queue over a real Docker engine: an instance is taken over, the ended container goes, and its log stays."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.engines import BUSYBOX, reachable_engine
from tests.support.program import Program

pytestmark = [pytest.mark.docker]

PLAN = f"""\
name: turns
oversubscribe: true
max_parallel: 1
defaults: {{profile: 1g.5gb, image: "{BUSYBOX}", pull_policy: never, network_mode: none, stop_grace_period: 1s}}
jobs:
  first: {{command: [sh, -c, "echo out of first"]}}
  flaky: {{command: [sh, -c, "echo attempt $MIGCTL_ATTEMPT; test $MIGCTL_ATTEMPT = 2"], retries: 1}}
  last: {{command: [sh, -c, "echo out of last; exit 3"]}}
"""


@pytest.fixture
def over_docker(tmp_path: Path) -> Iterator[Program]:
    with reachable_engine() as client:
        here = Program(tmp_path)
        name = f"turns-{uuid.uuid4().hex[:8]}"
        here.plan(PLAN.replace("name: turns", f"name: {name}"))
        yield here
        here.clean()
        assert client.containers(all=True, filters={"label": f"io.migctl.run={name}"}) == []


def test_jobs_take_turns_in_containers(over_docker: Program) -> None:
    over_docker.run("up", "--wait").ended(8)

    jobs = over_docker.jobs()
    assert {name: (job["state"], job["attempt"]) for name, job in jobs.items()} == {
        "first": ("succeeded", 1),
        "flaky": ("succeeded", 2),
        "last": ("failed", 1),
    }
    assert len(over_docker.instances()) == 1, "each took over what the one before it had"
    assert [name for name, job in jobs.items() if job["mig_uuid"]] == ["flaky"]
    assert [name for name, job in jobs.items() if job["container_id"]] == ["flaky"]
    assert over_docker.run("logs", "first").ended(0).out == "out of first\n"
    assert over_docker.run("logs", "last").ended(0).out == "out of last\n"
    assert over_docker.run("logs", "flaky").ended(0).out == "attempt 2\n"
    folder = next(over_docker.state.glob("runs/*/flaky"))
    assert (folder / "1" / "log").read_text() == "attempt 1\n"
    assert (folder / "1" / "record.json").exists()
