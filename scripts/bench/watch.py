"""What watching costs, in CPU time a second: 7 and 56 running jobs of five processes each, a reading and its verdicts a second.

Usage: .venv/bin/python scripts/bench/watch.py [SECONDS]. The jobs are real processes on simulated GPUs. Exit 1: a target is missed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rounds import MIGCTL, ROOT, line

from migctl.engine.session import Session
from migctl.watch.recorder import Recorder
from migctl.watch.sampler import Sampler
from migctl.watch.watcher import Watcher

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
TARGETS = {7: 1.0, 56: 3.0}
"""Jobs → percent of a core."""


def main(seconds: int) -> int:
    reached = True
    for jobs, target in TARGETS.items():
        with tempfile.TemporaryDirectory(prefix="migctl-bench-") as folder:
            environ = {
                **os.environ,
                "MIGCTL_NVML": f"sim:a100-40gbx{-(-jobs // 7)}",
                "MIGCTL_SIM_STATE": f"{folder}/gpu.json",
                "MIGCTL_STATE_DIR": f"{folder}/state",
                "MIGCTL_RUN_DIR": f"{folder}/run",
                "PYTHONPATH": str(ROOT),
            }
            Path(folder, "job.py").write_text(JOB, "utf-8")
            Path(folder, "plan.yaml").write_text(PLAN % (jobs, sys.executable), "utf-8")
            try:
                run("up", folder, environ)
                session = Session(environ=environ, nvml=environ["MIGCTL_NVML"])
                used, gpus = measure(session, jobs, seconds)
            finally:
                run("down", folder, environ, "--timeout", "0")
        reached &= line(f"{jobs} jobs, percent of a core", 100 * used, target, "%")
        print(
            f"      and {100 * gpus:.2f} % for reading {-(-jobs // 7)} simulated GPUs every 5 s (what the simulator itself takes)"
        )
    return 0 if reached else 1


def run(verb: str, folder: str, environ: dict[str, str], *words: str) -> None:
    subprocess.run([*MIGCTL, verb, *words], cwd=folder, env=environ, check=True, stdout=subprocess.DEVNULL)


def measure(session: Session, jobs: int, seconds: int) -> tuple[float, float]:
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


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 60))
