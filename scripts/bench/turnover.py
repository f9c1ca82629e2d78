"""How fast a queue goes on, and what it costs: turn-over, the idle supervisor, and ten thousand waiting jobs.

Usage: .venv/bin/python scripts/bench/turnover.py [--rounds 20] [--idle 60] [--jobs 10000]   (0 = leave it out)

Turn-over is the time from the end of a job to the start of the next one, as the runtime itself noted them: with containers the
engine's FinishedAt and StartedAt, beside a bare `docker run -d` on the same engine, half of them before and half after. The jobs
take each other's GPU instance over, so nothing is cut; what cutting costs, `scripts/bench/up.py` measures.
Uses DOCKER_HOST, or as root starts an engine of its own. Exit 1: a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from machine import IMAGE, place
from rounds import MIGCTL, ROOT, Case, command, line, timed

RUN = ("docker", "run", "-d", "--init", "--network", "none", "--cpuset-cpus", "0")


def migctl(environ: Mapping[str, str], *words: str) -> str:
    done = subprocess.run([*MIGCTL, *words], cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"migctl {' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def submit(environ: Mapping[str, str], folder: Path, count: int, work: str, *keys: str) -> None:
    plan = folder / "turnover.yaml"
    lines = ["name: turnover", *keys, "defaults: {profile: 1g.5gb, network_mode: none, image: " + IMAGE + "}"]
    lines += ["jobs:", f"  job: {{replicas: {count}, command: [sh, -c, '{work}']}}"]
    plan.write_text("\n".join(lines) + "\n")
    migctl(environ, "up", str(plan), "-q")


def gaps_s(environ: Mapping[str, str], folder: Path, runtime: str, rounds: int) -> list[float]:
    """From the end of each job to the start of the next one."""
    submit(environ, folder, rounds + 2, "sleep 0.5", f"runtime: {runtime}", "max_parallel: 1")
    migctl(environ, "wait", "turnover", "-q")
    jobs: list[Any] = json.loads(migctl(environ, "status", "--json"))["runs"][0]["jobs"]
    jobs.sort(key=lambda job: float(job["started_at"]))
    migctl(environ, "down", "-q")
    pairs = list(pairwise(jobs))[1:]  # the first one waits for the supervisor's start
    return [float(later["started_at"]) - float(earlier["finished_at"]) for earlier, later in pairs]


def bare(environ: Mapping[str, str], case: Case, rounds: int) -> None:
    for number in range(rounds):
        name = f"bench-bare-{number}"
        case.seen.append(timed([*RUN, "--name", name, IMAGE, "sleep", "0.5"], environ))
        timed(["docker", "rm", "-f", name], environ)


def shown(what: str, values: list[float]) -> float:
    values.sort()
    middle = statistics.median(values)
    print(
        f"{what:<32} {middle * 1000:6.0f} ms  ({values[0] * 1000:.0f} to {values[-1] * 1000:.0f}, {len(values)} times)"
    )
    return middle


def turn_over(environ: Mapping[str, str], folder: Path, rounds: int) -> list[bool]:
    case = Case("docker run -d", command("true"))
    process = shown("process: end to next start", gaps_s(environ, folder, "process", rounds))
    bare(environ, case, rounds // 2)
    docker = shown("docker: end to next start", gaps_s(environ, folder, "docker", rounds))
    bare(environ, case, rounds - rounds // 2)
    alone = shown("bare docker run -d", [one.wall_s for one in case.seen])
    return [
        line("turn-over of processes", process, 0.15, "s"),
        line("turn-over of containers − 1.3 × docker run -d", docker - 1.3 * alone, 0.15, "s"),
    ]


def supervisor(environ: Mapping[str, str]) -> int:
    mark = f"MIGCTL_STATE_DIR={environ['MIGCTL_STATE_DIR']}".encode()
    for entry in Path("/proc").iterdir():
        try:
            supervising = (
                entry.name.isdigit() and b"migctl.engine.queueing.supervision" in (entry / "cmdline").read_bytes()
            )
            if supervising and mark in (entry / "environ").read_bytes().split(b"\0"):
                return int(entry.name)
        except OSError:
            continue
    sys.exit("nobody supervises")


def cpu_s(pid: int) -> float:
    rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(rest[11]) + int(rest[12])) / os.sysconf("SC_CLK_TCK")


def rss_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def idle(environ: Mapping[str, str], folder: Path, seconds: float) -> list[bool]:
    """Seven containers run, three wait; nothing ends."""
    good: list[bool] = []
    for runtime in ("process", "docker"):
        keys = (f"runtime: {runtime}", "oversubscribe: true")
        submit(environ, folder, 10, 'trap "exit 0" TERM; sleep 1000 & wait', *keys)
        pid = supervisor(environ)
        time.sleep(5)
        before = cpu_s(pid)
        time.sleep(seconds)
        used = cpu_s(pid) - before
        good += [
            line(f"idle supervisor ({runtime}), CPU of one core", 100 * used / seconds, 0.5, "%"),
            line(f"idle supervisor ({runtime}), resident", rss_mib(pid), 60, "MiB"),
        ]
        migctl(environ, "down", "-q", "--timeout", "0")
    return good


def many(environ: Mapping[str, str], folder: Path, jobs: int) -> list[bool]:
    plan = folder / "turnover.yaml"
    submit(environ, folder, 8, "exec sleep 1000", "runtime: process", "oversubscribe: true")
    migctl(environ, "down", "-q", "--timeout", "0")  # so that everything is loaded once
    text = plan.read_text().replace("replicas: 8", f"replicas: {jobs}")
    plan.write_text(text)
    up = timed([*MIGCTL, "up", str(plan), "-q"], environ)
    pid = supervisor(environ)
    time.sleep(5)
    resident = rss_mib(pid)
    seen = [timed([*MIGCTL, "status", "--json"], environ) for _ in range(5)]
    timed([*MIGCTL, "down", "-q", "--timeout", "0"], environ)
    status_s = statistics.median(one.wall_s for one in seen)
    print(
        f"CPU: up {up.cpu_s:.2f} s, status {statistics.median(one.cpu_s for one in seen):.2f} s; peak of up {up.peak_mib:.0f} MiB"
    )
    return [
        line(f"up of {jobs} jobs", up.wall_s, 5, "s"),
        line(f"status with {jobs} jobs", status_s, 1, "s"),
        line(f"supervisor with {jobs} jobs, resident", resident, 60, "MiB"),
    ]


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--rounds", type=int, default=20)
    ask.add_argument("--idle", type=float, default=60.0)
    ask.add_argument("--jobs", type=int, default=10_000)
    given = ask.parse_args()
    good: list[bool] = []
    with place() as environ:
        folder = Path(environ["MIGCTL_STATE_DIR"]).parent
        if given.rounds:
            good += turn_over(environ, folder, given.rounds)
        if given.idle:
            good += idle(environ, folder, given.idle)
        if given.jobs:
            good += many(environ, folder, given.jobs)
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
