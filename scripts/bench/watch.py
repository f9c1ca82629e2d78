"""What seeing costs, in percent of a core: readings with verdicts, the recorder, and `status --watch` on a terminal of 80×24.

Usage: .venv/bin/python scripts/bench/watch.py [SECONDS]. Readings are of 7 and 56 jobs of five processes each, one a second;
the recorder and the screen are real processes beside 7. Jobs are processes on simulated GPUs. Exit 1: a target is missed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rounds import MIGCTL, ROOT, line

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from migctl.engine.session import Session
from migctl.watch.recorder import Recorder
from migctl.watch.sampler import Sampler
from migctl.watch.watcher import Watcher
from tests.support.terminal import Terminal, terminal

JOB = """\
import os, threading, time
for _ in range(4):
    if os.fork() == 0:
        while True: time.sleep(0.2)
for _ in range(8):
    threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()
samples = 0
while True:
    time.sleep(1)
    samples += 100
    print(f"migctl: samples={samples} wait={samples / 1000:.3f}", flush=True)
"""
PLAN = """\
name: watched
runtime: process
gpu: all
oversubscribe: true
jobs:
  job: {profile: 1g.5gb, replicas: %d, num_workers: 4, command: [%s, job.py]}
"""
READINGS = {7: 1.0, 56: 3.0}
"""Jobs → percent of a core for a reading and its verdicts a second."""
AT_REST = 1.0
"""Percent of a core for the recorder, and for a screen that nobody touches, with 7 jobs."""
RECORDER_MIB = 60.0
FIRST_PAINT_MS = 300.0
"""From the last import to the picture on the terminal."""
PAINTED = "CORES"
SCREEN = """\
import os, sys
import migctl.cli.look, migctl.cli.watching, migctl.watch.board, migctl.watch.plain, migctl.watch.screen
import migctl.nvml.simulator, migctl.runtimes.processes
from textual.drivers import linux_driver
if sys.argv.pop(1) == "plain":
    sys.modules["textual"] = None
sys.argv[0] = "migctl"
from migctl.__main__ import main
os.write(int(os.environ["IMPORTED"]), b".")
main()
"""


def main(seconds: int) -> int:
    reached = True
    for jobs, target in READINGS.items():
        with running(jobs, MIGCTL_RECORDING="off") as environ:
            used, gpus = readings(Session(environ=environ, nvml=environ["MIGCTL_NVML"]), jobs, seconds)
        reached &= line(f"{jobs} jobs, a reading a second, percent of a core", 100 * used, target, "%")
        print(
            f"      and {100 * gpus:.2f} % for reading {-(-jobs // 7)} simulated GPUs every 5 s (what the simulator itself takes)"
        )
    with running(7, MIGCTL_RECORDING="on") as environ:
        pid = recorder(environ)
        time.sleep(10)
        reached &= line(
            "the recorder of 7 jobs, percent of a core", 100 * rate(lambda: cpu_s(pid), seconds), AT_REST, "%"
        )
        reached &= line("the recorder of 7 jobs, resident", resident_mib(pid), RECORDER_MIB, "MiB")
    with running(7, MIGCTL_RECORDING="off") as environ:
        for kind in ("textual", "plain"):
            paint_ms, used = screen(environ, kind, seconds)
            reached &= line(f"status --watch ({kind}), first paint after imports", paint_ms, FIRST_PAINT_MS, "ms")
            reached &= line(f"status --watch ({kind}) at rest, percent of a core", 100 * used, AT_REST, "%")
    return 0 if reached else 1


@contextmanager
def running(jobs: int, **settings: str) -> Iterator[dict[str, str]]:
    """So many jobs that run; the environment in which they were started."""
    with tempfile.TemporaryDirectory(prefix="migctl-bench-") as folder:
        environ = {
            **os.environ,
            "MIGCTL_NVML": f"sim:a100-40gbx{-(-jobs // 7)}",
            "MIGCTL_SIM_STATE": f"{folder}/gpu.json",
            "MIGCTL_STATE_DIR": f"{folder}/state",
            "MIGCTL_RUN_DIR": f"{folder}/run",
            "PYTHONPATH": str(ROOT),
            **settings,
        }
        Path(folder, "job.py").write_text(JOB, "utf-8")
        Path(folder, "plan.yaml").write_text(PLAN % (jobs, sys.executable), "utf-8")
        try:
            call("up", folder, environ)
            yield environ
        finally:
            call("down", folder, environ, "--timeout", "0")


def call(verb: str, folder: str, environ: dict[str, str], *words: str) -> None:
    subprocess.run([*MIGCTL, verb, *words], cwd=folder, env=environ, check=True, stdout=subprocess.DEVNULL)


def readings(session: Session, jobs: int, seconds: int) -> tuple[float, float]:
    """CPU seconds a second of this thread, and of the one that reads the GPUs."""
    recorder = Recorder(session.paths.state)
    with Watcher(Sampler(session), keep=(recorder.add,)) as watcher:
        for _ in range(3):  # loads, opens, finds the processes
            watcher.look()
            time.sleep(1)
        whole, own, wall = time.process_time(), time.thread_time(), time.monotonic()
        for _ in range(seconds):
            seen = watcher.look()
            assert seen is not None
            assert len(seen.reading.jobs) == jobs, f"{len(seen.reading.jobs)} of {jobs} jobs are seen"
            time.sleep(max(0.0, 1 - (time.monotonic() - wall) % 1))
        own, whole = time.thread_time() - own, time.process_time() - whole
        wall = time.monotonic() - wall
    recorder.close()
    return own / wall, (whole - own) / wall


def recorder(environ: dict[str, str]) -> int:
    """Its pid, once it is there."""
    mark = f"MIGCTL_STATE_DIR={environ['MIGCTL_STATE_DIR']}".encode()
    end = time.monotonic() + 30
    while time.monotonic() < end:
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
                started = b"migctl.watch.recording" in words and not words.startswith(b"/bin/sh")
                if started and mark in (entry / "environ").read_bytes():
                    return int(entry.name)
            except OSError:
                continue
        time.sleep(0.2)
    raise SystemExit("no recorder was started")


def screen(environ: dict[str, str], kind: str, seconds: int) -> tuple[float, float]:
    """Milliseconds from the imports to the first picture, and CPU seconds a second at rest."""
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    words = [sys.executable, "-c", SCREEN, kind, "status", "--watch"]
    with terminal(words, folder=Path("/"), environ={**environ, "IMPORTED": str(writing)}, inherited=(writing,)) as on:
        os.read(reading, 1)
        begun = time.monotonic()
        painted(on)
        paint_ms = 1000 * (time.monotonic() - begun)
        time.sleep(5)
        used = rate(lambda: cpu_s(on.process.pid), seconds)
        on.press("q" if kind == "textual" else "ctrl+c")
        on.left()
    os.close(reading)
    os.close(writing)
    return paint_ms, used


def painted(on: Terminal) -> None:
    end = time.monotonic() + 20
    while PAINTED not in on.written:
        if time.monotonic() > end:
            raise SystemExit(f"nothing was painted: {on.written}")
        time.sleep(0.002)


def rate(counted: Callable[[], float], seconds: int) -> float:
    before, begun = counted(), time.monotonic()
    time.sleep(seconds)
    return (counted() - before) / (time.monotonic() - begun)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    rows = dict(row.split(":", 1) for row in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(rows["VmRSS"].split()[0]) / 1024


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 60))
