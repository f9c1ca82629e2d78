"""Jobs that share a GPU through MPS: one control daemon of migctl's own for the GPU, from the first job to the last.

The GPU is the C stand-in for NVIDIA's library, and the daemon is one too: what a server does with its clients is not seen here.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import mps
from tests.support.nvml_library import HAS_COMPILER, compiled
from tests.support.program import Program

pytestmark = pytest.mark.skipif(not HAS_COMPILER, reason="no C compiler here")

PLAN = """name: pair
runtime: process
strategy: shared
oversubscribe: true
defaults: {command: [sh, -c, 'env | grep CUDA_MPS | sort; while [ ! -e $GO ]; do sleep 0.05; done']}
jobs:
  a: {mps: {active_threads: 40, memory: 6g}}
  b: {mps: true}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("nvml"), "-w")


@pytest.fixture
def gpu(tmp_path: Path, library: Path) -> Iterator[Program]:
    """A machine with one GPU without MIG mode, and the stand-in on PATH."""
    (tmp_path / "bin").mkdir()
    here = Program(
        tmp_path,
        DOCKER_HOST=f"unix://{tmp_path}/no-engine.sock",
        MIGCTL_NVML="",
        LD_LIBRARY_PATH=str(library),
        PATH=f"{mps.install(tmp_path / 'bin')}:{os.environ['PATH']}",
        MPS_LOG=str(tmp_path / "mps.log"),
        GO=str(tmp_path / "go"),
    )
    here.plan(PLAN)
    # A socket's path has an end, and pytest's folders have long names.
    with tempfile.TemporaryDirectory(prefix="migctl-", dir="/tmp") as short:
        here.claims = Path(short)
        here.environ["MIGCTL_RUN_DIR"] = short
        yield here
        here.clean()
        assert not living(here), "a daemon is left"


def said(program: Program) -> list[str]:
    log = Path(program.environ["MPS_LOG"])
    return log.read_text().splitlines() if log.exists() else []


def living(program: Program) -> list[int]:
    pids = [int(path.read_text()) for path in program.claims.glob("mps-*/pipe/*.pid")]
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def left(program: Program) -> list[Path]:
    return list(program.claims.glob("mps-*"))


def until(program: Program, line: str) -> None:
    deadline = time.monotonic() + 20
    while line not in said(program):
        assert time.monotonic() < deadline, said(program)
        time.sleep(0.05)


def test_both_jobs_are_told_of_one_daemon_that_ends_with_the_last_of_them(gpu: Program) -> None:
    gpu.up()
    assert said(gpu) == ["start GPU-stub"]
    assert len(living(gpu)) == 1

    Path(gpu.environ["GO"]).touch()
    gpu.run("wait").ended(0)

    until(gpu, "end GPU-stub")
    first, second = (gpu.run("logs", job).ended(0).out.splitlines() for job in ("a", "b"))
    pipes = re.fullmatch(r"CUDA_MPS_PIPE_DIRECTORY=(.*)", second[0])
    assert pipes is not None
    assert pipes[1].startswith(f"{gpu.claims}/mps-")
    assert first == [
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=40",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=6144M",
        second[0],
    ]
    assert said(gpu) == ["start GPU-stub", "end GPU-stub"]


def test_after_a_crash_the_daemon_is_found_again_and_goes_with_down(gpu: Program) -> None:
    gpu.up()
    supervisor = int((gpu.state / "supervisor.log").read_text().split("pid ")[1].split()[0])
    os.kill(supervisor, 9)

    gpu.plan(PLAN + "  c: {mps: true}\n")
    gpu.up()
    assert said(gpu) == ["start GPU-stub"]
    gpu.run("down", "--timeout", "1").ended(0)

    assert said(gpu) == ["start GPU-stub", "end GPU-stub"]
    assert living(gpu) == []
    assert left(gpu) == []


def test_a_path_that_no_socket_can_have_is_told_before_a_daemon_is_started(gpu: Program) -> None:
    refused = gpu.run("up", MIGCTL_RUN_DIR=str(gpu.folder / ("long" * 25))).ended(4)

    assert "is too long for the socket" in refused.told
    assert said(gpu) == []


@pytest.mark.parametrize(("environ", "words"), [("MPS_REFUSES", "no device"), ("PATH", "")], ids=["refused", "absent"])
def test_where_no_daemon_starts_nothing_is_left(gpu: Program, environ: str, words: str) -> None:
    gpu.environ[environ] = words or os.environ["PATH"]

    refused = gpu.run("up").ended(4)
    checked = {one["id"]: one["level"] for one in gpu.json("check")["findings"]}

    assert ("Cannot start: no device" if words else "mps needs nvidia-cuda-mps-control") in refused.told
    assert ("no-mps" in checked, "mps" in checked) == (not words, bool(words))
    assert gpu.json("status")["runs"] == []
    assert (said(gpu), living(gpu), left(gpu)) == ([], [], [])


def test_a_daemon_that_does_not_heed_quit_is_ended_all_the_same(gpu: Program) -> None:
    gpu.up(MPS_STAYS="yes")

    gpu.run("down", "--timeout", "1", MPS_STAYS="yes").ended(0)

    assert living(gpu) == []


def test_a_simulated_gpu_has_no_daemon_and_instances_have_nobody_to_share_with(gpu: Program) -> None:
    gpu.environ["MIGCTL_NVML"] = "sim:t4"
    shown = gpu.up()
    gpu.run("down", "--timeout", "1").ended(0)
    gpu.environ["MIGCTL_NVML"] = "sim:a100-40gb"
    gpu.plan(PLAN.replace("strategy: shared\n", "").replace("name: pair", "name: apart"))
    alone = gpu.run("up").ended(2)
    gpu.plan(PLAN.replace("strategy: shared\n", "").replace("mps:", "per_instance: 2, mps:").replace("pair", "seats"))
    shared = gpu.up()
    devices = {job["mig_uuid"] for job in gpu.json("status")["runs"][0]["jobs"]}
    gpu.run("down", "--timeout", "1").ended(0)

    assert "simulated: no MPS daemon is started" in " ".join(shown.out.split())
    assert "job a wants MPS, and with strategy: mig it has nobody to share" in alone.told
    assert "simulated: no MPS daemon is started" in " ".join(shared.out.split())
    assert len(devices) == 1
    assert said(gpu) == []
