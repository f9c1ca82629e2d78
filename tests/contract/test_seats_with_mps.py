"""Clients on one GPU instance: their daemon is there before the first of them, and gone before their instance goes.

GPU and engine are those in memory, and the daemon is the stand-in: what a server does with its clients is not seen here.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from migctl.core.plan import MpsShare, Plan
from migctl.core.runs.events import Event, Moment, StepEvent
from migctl.core.runs.record import Action, JobState
from migctl.engine.converge import converge
from migctl.engine.down import take_down
from migctl.engine.upoptions import UpOptions
from tests.support import mps
from tests.support.world import EngineSession, World


@dataclass(kw_only=True)
class DaemonSession(EngineSession):
    """Its GPUs are simulated ones, and its daemons are started all the same."""

    @property
    def simulated(self) -> bool:
        return False


@dataclass
class DaemonWorld(World):
    def session(self) -> DaemonSession:
        here = super().session()
        environ = {
            **here.environ,
            "PATH": f"{mps.install(self.folder)}:{os.environ['PATH']}",
            "MPS_LOG": str(self.folder / "mps.log"),
        }
        return DaemonSession(
            environ=environ, nvml=here.nvml, root=here.root, engine=self.engine, moment_s=here.moment_s
        )

    def said(self) -> list[str]:
        log = self.folder / "mps.log"
        return log.read_text().splitlines() if log.exists() else []

    def living(self) -> list[int]:
        pids = [int(path.read_text()) for path in self.run_dir.glob("mps-*/pipe/*.pid")]
        return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.fixture
def world() -> Iterator[DaemonWorld]:
    # A socket's path has an end, and pytest's folders have long names.
    folder = Path(tempfile.mkdtemp(prefix="mps-", dir="/tmp"))
    made = DaemonWorld(folder, "a100-40gb")
    try:
        yield made
        made.down("one")
        assert not made.living(), "a daemon is left"
    finally:
        made.bell.close()
        shutil.rmtree(folder)


def clients(world: DaemonWorld, names: str) -> Plan:
    made = world.plan("one", dict.fromkeys(names, "2g.10gb*2"))
    share = MpsShare(active_threads_percent=40, memory_mib=3072)
    return replace(made, jobs=tuple(replace(job, mps=share) for job in made.jobs))


def test_each_instance_has_one_daemon_for_all_of_its_jobs(world: DaemonWorld) -> None:
    world.up(clients(world, "abc"), UpOptions())

    by_job = {r.job: r for r in world.records()}
    devices = {name: r.instance.mig_uuid for name, r in by_job.items() if r.instance is not None}
    launches = {c.launch.job: c.launch for c in world.engine.running()}
    pipes = {name: dict(launch.environment)["CUDA_MPS_PIPE_DIRECTORY"] for name, launch in launches.items()}
    assert devices["a"] == devices["b"] != devices["c"]
    assert pipes["a"] == pipes["b"] != pipes["c"]
    assert sorted(world.said()) == sorted({f"start {device}" for device in devices.values()})
    assert all(Path(pipes[n], "nvidia-cuda-mps-control.pid").exists() for n in pipes)
    for name, launch in launches.items():
        told = dict(launch.environment)
        assert told["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=3072M"
        assert told["MIGCTL_GPU_MEMORY_MIB"] == "3072"
        assert launch.spec.ipc == "host"
        assert any(volume.source == pipes[name] for volume in launch.spec.volumes)


def test_the_daemon_is_gone_before_its_instance_goes(world: DaemonWorld) -> None:
    world.up(clients(world, "ab"), UpOptions())
    at_the_end: list[int] = []

    def look(event: Event) -> None:
        if event in (StepEvent(n, Action.DESTROY_COMPUTE_INSTANCE, Moment.INTENT) for n in "ab"):
            at_the_end.append(len(world.living()))

    take_down(world.session(), "one", grace_s=0.0, report=look, cancel=threading.Event())

    assert at_the_end == [0]
    assert [line.split()[0] for line in world.said()] == ["start", "end"]
    world.check_gone()


def test_a_job_that_goes_takes_no_daemon_from_the_other(world: DaemonWorld) -> None:
    world.up(clients(world, "ab"), UpOptions())
    world._listen()

    converge(world.session(), clients(world, "a"), UpOptions(replacing=True), lambda _: None, threading.Event())

    (left,) = world.records()
    assert (left.job, left.state) == ("a", JobState.RUNNING)
    assert len(world.living()) == 1
    assert [line.split()[0] for line in world.said()] == ["start"]
