"""`tune` on a real Docker engine: the samples reach it through a mount, and nothing of the containers is left."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import BUSYBOX, reachable_engine
from tests.support.program import Program

pytestmark = [pytest.mark.docker, pytest.mark.slow]

PLAN = """\
name: {name}
jobs:
  train:
    profile: 1g.5gb
    image: {image}
    user: {user}
    volumes: ["./:/job:ro"]
    command: [sh, /job/train.sh]
"""
# A second worker doubles the throughput, a third brings nothing; {where} is the file or the output.
TRAIN = """\
count=0
pause=40000
if [ "$MIGCTL_NUM_WORKERS" -ge 2 ]; then pause=20000; fi
while true; do
  usleep $pause
  count=$((count + 10))
  echo "migctl: samples=$count" {where}
done
"""


@pytest.fixture
def engine() -> Iterator[Any]:
    with reachable_engine() as client:
        yield client


@pytest.fixture
def program(tmp_path: Path, engine: Any) -> Iterator[Program]:
    here = Program(tmp_path, DOCKER_HOST=os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock")
    yield here
    here.clean()


@pytest.mark.parametrize(
    ("where", "user"), [('>> "$MIGCTL_SAMPLES_FILE"', "4711:4711"), ("", "image")], ids=["file", "output"]
)
def test_the_best_number_of_workers_of_a_container_is_found(
    program: Program, engine: Any, where: str, user: str
) -> None:
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    program.plan(PLAN.format(name=name, image=BUSYBOX, user=user))
    (program.folder / "train.sh").write_text(TRAIN.format(where=where), "utf-8")
    program.folder.chmod(0o755)

    done = program.run("tune", "--seconds", "1.5", "--most", "2", "--json").ended(0)

    found = json.loads(done.out)
    rates = {point["num_workers"]: point["samples_per_s"] for point in found["points"]}
    assert found["num_workers"] == 2, found
    assert rates[2] > 1.5 * rates[1]
    assert found["points"][0]["job_cpus"] is not None
    assert engine.containers(all=True, filters={"label": f"io.migctl.run=tune-{name}-train"}) == []
    assert program.instances() == []
    assert program.json("status", "--all")["runs"] == []
