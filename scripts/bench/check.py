"""How long `migctl check` takes beside the driver's own start, and which part of it takes what.

Usage: .venv/bin/python scripts/bench/check.py [ROUNDS]. Uses DOCKER_HOST, or as root starts an engine of its own. The GPUs are
simulated ones (eight, one of them with seven jobs), so that nothing of NVML's own start is in the figures.
Exit 1: a target is missed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from machine import place
from rounds import MIGCTL, ROOT, Case, command, line, rotate, table, timed

PLAN = ROOT / "compose/plans/seven.yaml"
CROWD = 400
"""Processes of a busy server; whose files are open is looked at in each of them."""
MOST_S = 1.5


@contextmanager
def crowd() -> Iterator[None]:
    """So many processes more, each with some files open."""
    handed = [os.open(os.devnull, os.O_RDONLY) for _ in range(16)]
    sleepers = [subprocess.Popen(["sleep", "600"], pass_fds=handed) for _ in range(CROWD)]
    try:
        yield
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()
        for descriptor in handed:
            os.close(descriptor)


def main(rounds: int) -> int:
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    with place() as environ:
        environ["MIGCTL_NVML"] = "sim:a100-40gbx8:on"
        seven = Path(environ["MIGCTL_SIM_STATE"]).with_name("seven.yaml")
        seven.write_text(f"gpu: 0\ncpu_share: all\n{PLAN.read_text()}")
        timed([*MIGCTL, "up", str(seven)], environ)
        nothing = Case("python -c pass", command(sys.executable, "-c", "pass", environ=environ))
        start = Case("migctl --version", command(*MIGCTL, "--version", environ=environ))
        bare = Case("check --runtime process", command(*MIGCTL, "check", "--runtime", "process", environ=environ))
        engine = Case("check", command(*MIGCTL, "check", environ=environ))
        plan = Case("check PLAN", command(*MIGCTL, "check", str(seven), environ=environ))
        cases = [nothing, start, bare, engine, plan]
        rotate(cases, rounds)
        full = Case(f"check, {CROWD} processes more", command(*MIGCTL, "check", environ=environ))
        with crowd():
            rotate([full], rounds)
    table([*cases, full])
    print(f"load after: {os.getloadavg()[0]:.1f}")
    parts = {
        "Python and the command line": start.wall_s,
        "driver, holders, rights, policy": bare.wall_s - start.wall_s,
        "the engine": engine.wall_s - bare.wall_s,
        "the plan and what it would get": plan.wall_s - engine.wall_s,
        f"{CROWD} processes more": full.wall_s - engine.wall_s,
    }
    for name, seconds in parts.items():
        print(f"      {name:<34} {seconds:6.3f} s  {seconds / nothing.wall_s:5.1f} × python -c pass")
    good = [
        line("check", engine.wall_s, MOST_S, "s"),
        line("check with a plan", plan.wall_s, MOST_S, "s"),
        line("check on a machine full of processes", full.wall_s, MOST_S, "s"),
    ]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
