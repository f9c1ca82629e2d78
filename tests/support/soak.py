# ruff: noqa: T201 -- what it prints is what it is for
"""Long campaigns of what the tests do for a minute: `python -m tests.support.soak`, as scripts/soak starts it."""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from migctl.core.choices import RuntimeName
from tests.support import cycles
from tests.support.crashes import site_at
from tests.support.days import Days


def main() -> int:
    """Run what was asked for; exit 1 where something was found."""
    ask = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    ask.add_argument("--sequences", type=int, default=50_000, help="random days (50000)")
    ask.add_argument("--steps", type=int, default=12, help="things that happen in each (12)")
    ask.add_argument("--seed", type=int, default=secrets.randbelow(2**31), help="of the random days; printed")
    ask.add_argument("--cycles", type=int, default=1000, help="up and down with processes on the simulator (1000)")
    ask.add_argument("--docker-cycles", type=int, default=100, help="up and down with real containers (100)")
    ask.add_argument(
        "--provoked", type=int, default=20, help="times each situation that holds a training back (20; root)"
    )
    ask.add_argument("--healthy", type=int, default=3600, help="seconds that ten healthy programs are watched (3600)")
    ask.add_argument("--queue", type=int, default=500, help="short jobs through seven places while all is killed (500)")
    ask.add_argument("--docker-queue", type=int, default=200, help="the same with real containers (200; root)")
    ask.add_argument("--fuzz", type=int, default=2_000_000, help="inputs that others could write (2000000)")
    ask.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = ask.parse_args()
    if given.worker:
        days(given.sequences, given.steps, given.seed)
        return 0
    found = _on_all_cores(given.sequences, given.steps, given.seed) if given.sequences else 0
    found |= _fuzz(given.fuzz, given.seed) if given.fuzz else 0
    with tempfile.TemporaryDirectory() as folder:
        from tests.support import watched

        if given.provoked and os.geteuid() == 0:
            found |= not watched.provoke(Path(folder), given.provoked)
        if given.healthy:
            found |= not watched.watch_healthy(Path(folder), given.healthy)
    for runtime, number in ((RuntimeName.PROCESS, given.cycles), (RuntimeName.DOCKER, given.docker_cycles)):
        if number:
            _cycles(runtime, number)
    for number, docker in ((given.queue, False), (given.docker_queue, True)):
        if number and (not docker or os.geteuid() == 0):
            _queue(number, given.seed, docker=docker)
    return 1 if found else 0


def days(sequences: int, steps: int, number: int) -> None:
    """So many random days in this process."""
    seed(number)(Days)
    run_state_machine_as_test(
        Days,
        settings=settings(
            max_examples=sequences,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )


def _on_all_cores(sequences: int, steps: int, number: int) -> int:
    """A process for each core, each with a seed of its own; returns how many found something."""
    cores = min(len(os.sched_getaffinity(0)), sequences)
    began = time.monotonic()
    workers = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.support.soak", "--worker", "--steps", str(steps)),
                *("--seed", str(number + n), "--sequences", str(sequences // cores + (n < sequences % cores))),
            ]
        )
        for n in range(cores)
    ]
    failed = sum(worker.wait() != 0 for worker in workers)
    took_s = time.monotonic() - began
    print(
        f"random days: {sequences} of up to {steps} steps, seeds {number} to {number + cores - 1}, {cores} processes, "
        f"{took_s:.0f} s ({1000 * took_s * cores / sequences:.0f} ms each): "
        + (f"{failed} of the processes found a fault" if failed else "no fault")
    )
    return failed


def _fuzz(inputs: int, number: int) -> int:
    """A process for each core, each with a seed of its own; each prints what it tried. Returns how many found something."""
    cores = len(os.sched_getaffinity(0))
    began = time.monotonic()
    words = [sys.executable, "-m", "tests.support.fuzz", "--inputs", str(-(-inputs // cores))]
    workers = [subprocess.Popen([*words, "--seed", str(number + n)]) for n in range(cores)]
    failed = sum(worker.wait() != 0 for worker in workers)
    took_s = time.monotonic() - began
    print(
        f"fuzz: {inputs} inputs, seeds {number} to {number + cores - 1}, {took_s:.0f} s: "
        + (f"{failed} of the processes found a fault" if failed else "no fault")
    )
    return failed


def _cycles(runtime: RuntimeName, number: int) -> None:
    began = time.monotonic()
    host = {name: os.environ[name] for name in ("DOCKER_HOST",) if name in os.environ}
    with tempfile.TemporaryDirectory() as folder, site_at(Path(folder)) as site:
        cycles.run(site, host, runtime, number)
    took_s = time.monotonic() - began
    print(
        f"up and down ({runtime.value}): {number} cycles of {len(cycles.SPEC)} jobs, {took_s:.0f} s: nothing left behind"
    )


def _queue(jobs: int, number: int, *, docker: bool) -> None:
    from tests.support.engines import private_engine
    from tests.support.queue_campaign import main as campaign

    began = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        host = stack.enter_context(private_engine("--live-restore")) if docker else ""
        engine = Path(host.removeprefix("unix://")).parent if docker else None
        ends = campaign(jobs, folder, engine, number)
    took_s = time.monotonic() - began
    figures = ", ".join(f"{what} {count}" for what, count in ends.items())
    print(f"queue ({'docker' if docker else 'process'}): {jobs} jobs, seed {number}, {took_s:.0f} s: {figures}")


if __name__ == "__main__":
    sys.exit(main())
