"""The records of a process job under the worst conditions: a disk that is full when it ends, a death at any moment of its start."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.runs.record import JobState
from migctl.errors import Busy
from migctl.runtimes import proc, shim_start
from migctl.runtimes.attempt import EXIT, LAUNCH, PID, Attempt
from migctl.runtimes.processes import Processes
from tests.support.launches import job, launch
from tests.support.small_disk import Disk

ENVIRON = {"PATH": "/usr/bin:/bin", "HOME": "/tmp"}
ONE = CpuSet({max(os.sched_getaffinity(0))})


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if os.geteuid() != 0:
        pytest.skip("only root mounts a small file system")
    disk = Disk(tmp_path / "disk", "256k")
    yield disk
    disk.free()
    disk.close()


def created(processes: Processes, folder: Path, script: str) -> str:
    folder.mkdir(mode=0o700)
    return processes.create(launch(job(command=("sh", "-c", script)), folder, cpus=ONE))


def eventually(folder: Path, name: str) -> None:
    deadline = time.monotonic() + 5
    while not (folder / name).exists():
        assert time.monotonic() < deadline, f"{name} did not come in time"
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("script", "state", "code"),
    [("exit 3", JobState.FAILED, 3), ("exit 0", JobState.SUCCEEDED, 0), ("kill -9 $$", JobState.FAILED, 137)],
)
def test_how_a_job_ends_is_recorded_though_the_disk_is_full(
    disk: Disk, tmp_path: Path, script: str, state: JobState, code: int
) -> None:
    processes = Processes(ENVIRON)
    end = tmp_path / "end"
    handle = created(processes, disk.folder / "1", f"while [ ! -e {end} ]; do sleep 0.02; done; {script}")
    processes.start(handle)
    disk.fill()

    end.touch()
    unit = processes.wait(handle, 10)

    assert unit is not None
    assert (unit.state, unit.exit_code) == (state, code)


def test_a_job_whose_end_would_have_no_room_does_not_begin(disk: Disk, tmp_path: Path) -> None:
    processes = Processes(ENVIRON)
    handle = created(processes, disk.folder / "1", f"touch {tmp_path}/began")
    disk.fill()

    with pytest.raises(Busy) as caught:
        processes.start(handle)
    disk.free()

    assert (caught.value.id, caught.value.hint) == (
        "disk-full",
        f"make room, then run the same command again: df -h {handle}",
    )
    assert not (tmp_path / "began").exists()
    assert processes.units(None, [handle])[0].state is JobState.STARTING
    processes.start(handle)
    eventually(tmp_path, "began")
    assert processes.wait(handle, 10) is not None


# (the function of the kernel at whose n-th call the supervisor dies, n, before or after it)
DEATHS = [
    ("posix_fallocate", 1, "before"),
    ("posix_fallocate", 2, "after"),
    ("fork", 2, "after"),
    ("fsync", 1, "before"),
    ("fsync", 1, "after"),
    ("rename", 1, "before"),
    ("rename", 1, "after"),
    ("fsync", 2, "after"),
    ("write", 1, "before"),
    ("write", 1, "after"),
    ("write", 2, "after"),
]
DYING = """
import os, runpy, signal, sys
call, left = os.{call}, {nth}
def dying(*args, **kwargs):
    global left
    left -= 1
    if left == 0 and {before}:
        os.kill(os.getpid(), signal.SIGKILL)
    result = call(*args, **kwargs)
    if left == 0 and not (call is forking and result == 0):
        os.kill(os.getpid(), signal.SIGKILL)
    return result
forking = os.fork
os.{call} = dying
runpy.run_path({shim!r}, run_name="__main__")
"""


@pytest.mark.parametrize(("call", "nth", "when"), DEATHS)
def test_with_its_starter_and_its_supervisor_killed_a_job_does_not_run_or_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, nth: int, when: str
) -> None:
    dying = tmp_path / "shim.py"
    dying.write_text(DYING.format(call=call, nth=nth, before=when == "before", shim=str(shim_start.SHIM)))
    monkeypatch.setattr(shim_start, "SHIM", dying)
    processes = Processes(ENVIRON)
    handle = created(processes, tmp_path / "1", f"echo $$ > {tmp_path}/began; exec sleep 60")
    attempt = Attempt(handle)
    record = attempt.read(LAUNCH)
    assert record is not None
    task = {**record, "folder": handle, "cpus": list(ONE), "boot_id": proc.boot_id()}
    lock = attempt.lock()

    with shim_start.started_shim(lock) as (go, _):
        shim_start.send_task(go, task)
        # The starter is killed here: nothing refuses the job, and nothing reads what the supervisor says.
    os.close(lock)
    began = tmp_path / "began"
    deadline = time.monotonic() + 20
    while not began.exists() and (attempt.held() or (unit := attempt.unit()) is None or unit.state is JobState.RUNNING):
        assert time.monotonic() < deadline, "it neither begins nor ends"
        time.sleep(0.02)
    time.sleep(0.2)

    assert attempt.read(EXIT) is None
    if began.exists():
        found = attempt.read(PID)
        assert found is not None, "it runs, and nothing tells of it"
        assert found["pid"] == int(began.read_text())
        processes.stop(handle, 0)
        assert not proc.is_alive(found["pid"], found["start_ticks"])


def test_a_starter_that_is_gone_before_the_answer_does_not_cost_how_the_job_ended(tmp_path: Path) -> None:
    processes = Processes(ENVIRON)
    handle = created(processes, tmp_path / "1", "sleep 0.2; exit 3")
    attempt = Attempt(handle)
    written = attempt.read(LAUNCH)
    assert written is not None
    task = {
        "folder": handle,
        **{key: written[key] for key in ("program", "argv", "environment", "working_dir")},
        "cpus": list(ONE),
        "user": None,
        "boot_id": proc.boot_id(),
    }
    lock = attempt.lock()
    ready, answering = os.pipe()
    theirs, go = os.pipe()
    os.close(ready)
    with subprocess.Popen(
        [sys.executable, "-I", "-S", str(shim_start.SHIM), str(lock), str(answering)],
        stdin=theirs,
        pass_fds=(lock, answering),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ):
        for descriptor in (lock, answering, theirs):
            os.close(descriptor)
        shim_start.send_task(go, task)
        os.close(go)

    unit = processes.wait(handle, 10)
    assert unit is not None
    assert (unit.state, unit.exit_code) == (JobState.FAILED, 3)
