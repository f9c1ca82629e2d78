"""The sampler over real processes and simulated GPUs: sources fail one by one, and no GPU is open between two readings."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.seeing.dcgm_text import activities
from migctl.core.seeing.readings import Reading
from migctl.engine.session import Session
from migctl.host.procfs import process_start_ticks
from migctl.nvml.simdevices import gpu_node
from migctl.nvml.simstate import SimState
from migctl.watch.gpuwatch import GpuWatch
from migctl.watch.roster import Watched
from migctl.watch.sampler import Sampler
from migctl.watch.watcher import Watcher

CPUS = CpuSet(os.sched_getaffinity(0))


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """State of a GPU with one instance."""
    path = tmp_path / "sim.json"
    state = SimState.create(path, "h100-sxm5-80gb")
    state.add_foreign_instance(0, "1g.10gb", 0).activity = 0.75
    state.save(path)
    return path


def session(tmp_path: Path, root: Path = Path("/"), **environ: str) -> Session:
    names = {"MIGCTL_STATE_DIR": "state", "MIGCTL_RUN_DIR": "run", "MIGCTL_SIM_STATE": "sim.json"}
    places = {name: str(tmp_path / place) for name, place in names.items()}
    return Session(environ={**os.environ, **places, **environ}, nvml="sim:h100-sxm5-80gb", root=root)


@pytest.fixture
def job(tmp_path: Path, machine: Path) -> Iterator[Watched]:
    gpu = SimState.load(machine).gpus[0]
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        yield Watched(
            run="night",
            job="a",
            attempt=1,
            runtime="process",
            handle=str(tmp_path),
            pid=process.pid,
            pid_start=process_start_ticks(process.pid) or 0,
            cpus=CPUS,
            cores=len(CPUS),
            num_workers=1,
            gpu_uuid=gpu.uuid,
            gi_id=gpu.instances[0].gi_id,
            mig_uuid=None,
            started_at=time.time() - 60,
        )
        process.kill()


def read(tmp_path: Path, job: Watched, *, gpus: bool = True, **environ: str) -> Reading:
    """One reading, once the GPUs have been read or given up."""
    sampler = Sampler(session(tmp_path, **environ), gpu_every_s=0.2 if gpus else None, roster=lambda: [job])
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            found = sampler.read()
            if found is not None and found.jobs and (not gpus or found.unknown.get("gpus") != "not read yet"):
                return found
            time.sleep(0.2)
    finally:
        sampler.close()
    raise AssertionError("nothing was read")


def test_a_job_is_measured_with_its_instance(tmp_path: Path, job: Watched) -> None:
    found = read(tmp_path, job)

    (one,) = found.jobs
    assert 0.05 < (one.own_cpus or 0) <= 1.3
    assert one.instance is not None
    assert (one.instance.activity_share, one.instance.activity_source) == (0.75, "GPM")
    assert one.unknown["wait_share"].startswith("the training does not report it")
    assert found.cpus is not None
    assert set(found.cpus.cpus) >= CPUS
    assert found.unknown == {}


def test_a_driver_that_fails_blanks_only_the_gpus(tmp_path: Path, job: Watched, machine: Path) -> None:
    with SimState.edit(machine) as state:
        state.set_fault("nvmlInit", code=9, times=0)
    found = read(tmp_path, job)

    assert found.gpus == ()
    assert "gpus" in found.unknown
    assert (found.jobs[0].instance, found.jobs[0].own_cpus is not None) == (None, True)


def test_without_the_machines_cpu_times_a_job_is_still_measured(tmp_path: Path, job: Watched) -> None:
    root = tmp_path / "root"
    (root / "proc").mkdir(parents=True)
    (root / "proc" / str(job.pid)).symlink_to(f"/proc/{job.pid}")
    sampler = Sampler(session(tmp_path, root=root), gpu_every_s=None, roster=lambda: [job])
    sampler.read()
    time.sleep(0.3)
    found = sampler.read()
    sampler.close()

    assert found is not None
    assert "/proc/stat cannot be read" in found.unknown["cpus"]
    assert found.jobs[0].own_cpus is not None
    assert found.jobs[0].busy_cpus is None


def test_a_job_that_ends_is_gone_from_the_next_reading(tmp_path: Path, job: Watched) -> None:
    roster = [job]
    sampler = Sampler(session(tmp_path), gpu_every_s=None, roster=lambda: roster)
    sampler.read()
    os.kill(job.pid, 9)
    os.waitid(os.P_PID, job.pid, os.WEXITED | os.WNOWAIT)
    time.sleep(0.2)
    roster.clear()
    found = [sampler.read(), sampler.read()]
    sampler.close()

    assert all(not one.jobs for one in found if one is not None)


def test_no_gpu_is_open_between_two_readings_and_the_mode_can_be_changed(tmp_path: Path, machine: Path) -> None:
    with SimState.edit(machine) as state:
        state.make_devices(tmp_path / "dev")
    node = gpu_node(tmp_path / "dev", 0)
    watch = GpuWatch(session=session(tmp_path), every_s=30)
    while watch.latest().why == "not read yet":
        time.sleep(0.05)
    open_now = {link.readlink() for link in Path("/proc/self/fd").iterdir() if link.exists()}

    assert watch.latest().gpus
    assert node not in open_now
    watch.close()


PAGE = """\
# HELP DCGM_FI_PROF_GR_ENGINE_ACTIVE Ratio of time the graphics engine is active.
# TYPE DCGM_FI_PROF_GR_ENGINE_ACTIVE gauge
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="%s",GPU_I_PROFILE="1g.5gb",GPU_I_ID="%d",Hostname="a b"} 0.625
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="1",UUID="GPU-whole",modelName="T4"} 0.5
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="1",UUID="GPU-blank",GPU_I_ID="3"} 9223372036854775794
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-whole"} 99
"""


def test_a_page_of_dcgm_exporter_is_read_and_blanks_are_no_numbers() -> None:
    assert activities(PAGE % ("GPU-1", 7)) == {("GPU-1", 7): 0.625, ("GPU-whole", None): 0.5}
    assert activities("") == {}


@contextmanager
def served(text: str, status: int = 200) -> Iterator[str]:
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
        server.shutdown()


# What the exporter does → activity and its source, or a word of the reason.
EXPORTERS: Mapping[str, tuple[int, str | None]] = {
    "answers": (200, None),
    "answers an error": (503, "does not answer"),
    "lacks the field": (204, "does not tell it"),
}


@pytest.mark.parametrize("name", EXPORTERS)
def test_before_hopper_activity_comes_from_dcgm_where_it_is_watched_already(name: str, tmp_path: Path) -> None:
    status, why = EXPORTERS[name]
    state = SimState.create(tmp_path / "sim.json", "a100-40gb")
    instance = state.add_foreign_instance(0, "1g.5gb", 0)
    state.save(tmp_path / "sim.json")
    page = PAGE % (state.gpus[0].uuid, instance.gi_id)
    with served(page if status == 200 else "", 200 if status == 204 else status) as address:
        there = session(tmp_path, MIGCTL_DCGM_EXPORTER=address)
        there.nvml = "sim:a100-40gb"
        (gpu,) = GpuWatch(session=there, every_s=None).read_now().gpus

    (one,) = gpu.instances
    if why is None:
        assert (one.activity_share, one.activity_source) == (0.625, "DCGM")
    else:
        assert one.activity_share is None
        assert why in one.unknown["activity_share"]


def test_a_watcher_judges_each_job_and_remembers_enough(tmp_path: Path, job: Watched) -> None:
    with Watcher(Sampler(session(tmp_path), gpu_every_s=None, roster=lambda: [job])) as watcher:
        seen = [watcher.look()]
        for _ in range(3):
            time.sleep(0.2)
            seen.append(watcher.look())

        assert seen[0] is None
        assert "night/a" in seen[-1].diagnosis.jobs if seen[-1] is not None else False
        assert len(watcher.past) >= 2
