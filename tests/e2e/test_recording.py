"""What is seen of jobs is kept by a process of its own: it comes with the first job, goes with the last, and is in nobody's way."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from migctl.core.choices import RuntimeName
from migctl.engine.recording import LOG_FILE, NICENESS, bell_path, ensure
from migctl.engine.session import Session
from migctl.host.doorbell import is_heard
from migctl.store.samples import read_track
from migctl.watch.recording import keep_recording
from migctl.watch.roster import running
from tests.support.program import BOARD, Program

JOB = """\
import time
for n in range(10**6):
    print(f"migctl: samples={n * 10} wait={n / 100}", flush=True)
    time.sleep(0.1)
"""
PLAN = "name: night\nruntime: process\njobs:\n  one: {{profile: 1g.5gb, command: ['{python}', job.py]}}\n"


@pytest.fixture
def watched(program: Program) -> Program:
    """One training that tells its progress, about to be started."""
    (program.folder / "job.py").write_text(JOB, "utf-8")
    program.plan(PLAN.format(python=sys.executable))
    return program


def session(program: Program, **environ: str) -> Session:
    return Session(environ={**program.environ, **environ}, nvml=BOARD)


def until(true: Callable[[], bool], seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def recorders(program: Program) -> list[int]:
    """Pids of the recorders of this program's state directory."""
    mark = f"MIGCTL_STATE_DIR={program.state}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            if b"migctl.watch.recording" in words and not words.startswith(b"/bin/sh"):
                found += [int(entry.name)] if mark in (entry / "environ").read_bytes().split(b"\0") else []
        except OSError:
            continue
    return found


def test_what_runs_is_kept_until_it_is_taken_down(watched: Program) -> None:
    watched.up()
    here, stop, rung = session(watched), threading.Event(), threading.Event()
    ended = threading.Event()

    def record() -> None:
        keep_recording(here, stop=stop, rung=rung, every_s=0.2, linger_s=30)
        ended.set()

    threading.Thread(target=record, daemon=True).start()
    assert until(lambda: is_heard(bell_path(here)))
    time.sleep(2)
    watched.run("down", "--timeout", "0").ended(0)

    assert ended.wait(10), "with the last run gone nothing is waited for"
    assert not is_heard(bell_path(here))
    samples = [one.jobs["one"] for one in read_track(watched.state, "night").samples if "one" in one.jobs]
    assert samples[-1]["samples_s"] == pytest.approx(100, rel=0.5)
    assert {"own_cpus", "memory_mib", "gpu_memory_total_mib"} <= {figure for one in samples for figure in one}


def test_up_has_it_started_and_down_ends_it(watched: Program) -> None:
    here = session(watched)
    watched.environ["MIGCTL_RECORDING"] = ""
    watched.up()

    assert until(lambda: is_heard(bell_path(here)))
    (pid,) = recorders(watched)
    assert os.getpriority(os.PRIO_PROCESS, pid) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
    watched.up()
    assert recorders(watched) == [pid], "there is one already"
    os.kill(pid, signal.SIGKILL)
    assert until(lambda: not recorders(watched))
    assert watched.jobs()["one"]["state"] == "running"
    ensure(session(watched, MIGCTL_RECORDING="on"), delay_s=0)
    assert until(lambda: is_heard(bell_path(here)))
    assert recorders(watched) not in ([], [pid])

    watched.run("down", "--timeout", "0").ended(0)
    assert until(lambda: not recorders(watched), 10), "it goes with the last run"


def test_nothing_is_started_where_it_is_not_wanted_and_nobody_suffers_where_it_cannot_be(watched: Program) -> None:
    watched.up()
    ensure(session(watched, MIGCTL_RECORDING="off"), delay_s=0)
    (watched.state / LOG_FILE).mkdir()
    ensure(session(watched, MIGCTL_RECORDING="on"), delay_s=0)  # its log cannot be opened

    time.sleep(0.5)
    assert recorders(watched) == []


def test_runs_on_other_gpus_are_told_apart(watched: Program) -> None:
    watched.up()
    other = PLAN.format(python=sys.executable).replace("night", "other").replace("profile: 1g.5gb, ", "")
    watched.plan(other, "other.yaml")
    elsewhere = {"MIGCTL_NVML": "sim:t4", "MIGCTL_SIM_STATE": str(watched.folder / "t4.json")}
    watched.up("other.yaml", **elsewhere)

    found = {one.run: (one.nvml, one.runtime) for one in running(session(watched))}
    watched.run("down", "other", "--timeout", "0", **elsewhere).ended(0)

    assert found == {"night": (BOARD, RuntimeName.PROCESS.value), "other": ("sim:t4", RuntimeName.PROCESS.value)}
