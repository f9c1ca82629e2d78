"""Measures commands against each other within one run: a fixed number of rounds, the order rotated, medians and ratios."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
MIGCTL = (sys.executable, "-m", "migctl")


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of one command."""

    wall_s: float
    cpu_s: float
    """User and system time of the process and its ended children: what a busy machine changes least."""
    peak_mib: float


@dataclass(slots=True)
class Case:
    """Something to measure: `before` and `after` are not counted."""

    name: str
    run: Callable[[], Measured]
    before: Callable[[], object] = lambda: None
    after: Callable[[], object] = lambda: None
    seen: list[Measured] = field(default_factory=list)

    @property
    def wall_s(self) -> float:
        """Median, in seconds."""
        return statistics.median(one.wall_s for one in self.seen)

    @property
    def cpu_s(self) -> float:
        """Median, in seconds."""
        return statistics.median(one.cpu_s for one in self.seen)

    @property
    def peak_mib(self) -> float:
        """The largest resident set of any round."""
        return max(one.peak_mib for one in self.seen)


def timed(command: Sequence[str], environ: Mapping[str, str] | None = None) -> Measured:
    """Run to the end, output thrown away unless it fails; wall time and the peak of the process itself (children not)."""
    begun = time.perf_counter()
    child = subprocess.Popen(
        command, cwd=ROOT, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert child.stderr is not None
    complaint = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    wall_s = time.perf_counter() - begun
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.stderr.buffer.write(complaint)
        sys.exit(f"{' '.join(command)}: exit {child.returncode}")
    return Measured(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def command(*words: str, environ: Mapping[str, str] | None = None) -> Callable[[], Measured]:
    """The same, for later."""
    return lambda: timed(words, environ)


def rotate(cases: Sequence[Case], rounds: int) -> None:
    """Measure every case once a round, each round starting with another; one round before warms caches and is dropped."""
    for number in range(-1, rounds):
        for offset in range(len(cases)):
            case = cases[(number + offset) % len(cases)]
            case.before()
            measured = case.run()
            case.after()
            if number >= 0:
                case.seen.append(measured)


def line(what: str, value: float, target: float, unit: str = "×") -> bool:
    """Print a result beside its target; whether it is reached."""
    good = value <= target
    print(f"{'ok  ' if good else 'MISS'}  {what}: {value:.2f} {unit} (at most {target:g} {unit})")
    return good


def table(cases: Sequence[Case]) -> None:
    """Print the medians, with the fastest and slowest round."""
    width = max(len(case.name) for case in cases)
    for case in cases:
        walls = sorted(one.wall_s for one in case.seen)
        spread = f"({walls[0]:.3f} to {walls[-1]:.3f})"
        print(
            f"{case.name:<{width}}  {case.wall_s:7.3f} s  {spread:<18}  CPU {case.cpu_s:6.3f} s  peak {case.peak_mib:4.0f} MiB"
        )
