"""How fast a training is, and how sure that is: windows of its progress, the warm-up cut off, a confidence interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist, fmean, stdev

LEAST_WINDOWS = 5
"""Fewer say nothing about their spread."""
SETTLED_WINDOWS = 8
"""So many must agree before a measurement ends early."""
CONFIDENCE = 0.99
"""Of every interval. The intervals are looked at after each window, so one of 95 % would be wrong more often than it says."""
PRECISION = 0.03
"""Relative half width at which a measurement ends: closer numbers than this are not told apart anyway."""


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """What some logical CPUs did since boot, in CPU seconds."""

    busy_s: float
    iowait_s: float
    idle_s: float
    """Idle without waiting for a device."""
    own_s: float | None = None
    """What the job itself has taken, on whatever CPU; `None` = not known."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The state at one moment in which the training reported."""

    at_s: float
    """Of a monotonic clock."""
    samples: int
    wait_s: float | None = None
    cpu: CpuTimes | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """What happened between two marks."""

    seconds: float
    samples: int
    wait_s: float | None
    cpu: CpuTimes | None

    @property
    def rate(self) -> float:
        """Samples a second."""
        return self.samples / self.seconds


def between(before: Mark, after: Mark) -> Window | None:
    """The window between two marks; `None` where the count went back, as a process started anew lets it."""
    if after.samples < before.samples or after.at_s <= before.at_s:
        return None
    wait = _passed(before.wait_s, after.wait_s)
    cpu = None
    if before.cpu is not None and after.cpu is not None:
        # The kernel's iowait and idle counters can go back a little (proc_stat(5)).
        cpu = CpuTimes(
            busy_s=max(0.0, after.cpu.busy_s - before.cpu.busy_s),
            iowait_s=max(0.0, after.cpu.iowait_s - before.cpu.iowait_s),
            idle_s=max(0.0, after.cpu.idle_s - before.cpu.idle_s),
            own_s=_passed(before.cpu.own_s, after.cpu.own_s),
        )
    return Window(after.at_s - before.at_s, after.samples - before.samples, wait, cpu)


def _passed(before: float | None, after: float | None) -> float | None:
    return after - before if before is not None and after is not None and after >= before else None


def settled_from(rates: Sequence[float]) -> int:
    """Where the warm-up ends: the cut that leaves the mean of the rest with the smallest standard error.

    The rule is MSER (K. P. White, "An effective truncation heuristic for bias reduction in simulation output",
    Simulation 69, 1997): workers that fork, caches that fill and a queue of batches fetched ahead distort the beginning by
    an unknown length. At most half is cut off, as its author advises: a later minimum is chance.
    """
    best, least = 0, math.inf
    for cut in range(len(rates) // 2 + 1):
        rest = rates[cut:]
        if len(rest) < 2:
            break
        mean = fmean(rest)
        error = sum((rate - mean) ** 2 for rate in rest) / len(rest) ** 2
        if error < least:
            best, least = cut, error
    return best


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A throughput and how sure it is."""

    rate: float
    """Samples a second."""
    half_width: float
    """Of the confidence interval, in samples a second."""
    windows: int
    """Behind the warm-up."""
    seconds: float
    wait_share: float | None
    """Part of the time in which the main process waited for data; `None` = the job does not tell."""
    busy_cpus: float | None
    """Logical CPUs of the cpuset that were at work on average, for whomever; `None` = not known."""
    own_cpus: float | None
    """CPUs that the job used on average; `None` = not known."""
    iowait_cpus: float | None
    """Logical CPUs that were idle while a task of theirs waited for a block device."""


def estimate(windows: Sequence[Window]) -> Estimate | None:
    """The throughput behind the warm-up; `None` while there are too few windows."""
    rest = windows[settled_from([window.rate for window in windows]) :]
    if len(rest) < LEAST_WINDOWS:
        rest = windows[-LEAST_WINDOWS:]
    if len(rest) < LEAST_WINDOWS:
        return None
    seconds = sum(window.seconds for window in rest)
    waits = [window.wait_s for window in rest if window.wait_s is not None]
    cpu = [window.cpu for window in rest if window.cpu is not None]
    own = [times.own_s for times in cpu if times.own_s is not None]
    known = len(cpu) == len(rest)
    return Estimate(
        rate=sum(window.samples for window in rest) / seconds,
        half_width=student(CONFIDENCE, len(rest) - 1) * stdev(window.rate for window in rest) / math.sqrt(len(rest)),
        windows=len(rest),
        seconds=seconds,
        wait_share=min(1.0, sum(waits) / seconds) if len(waits) == len(rest) else None,
        busy_cpus=sum(times.busy_s for times in cpu) / seconds if known else None,
        own_cpus=sum(own) / seconds if len(own) == len(rest) else None,
        iowait_cpus=sum(times.iowait_s for times in cpu) / seconds if known else None,
    )


def student(confidence: float, degrees: int) -> float:
    """Two-sided quantile of Student's t: the expansion about the normal quantile, right to 1 % from 4 degrees on.

    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5.
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / float(degrees) ** power for power, term in enumerate(terms, 1))


class Enough(StrEnum):
    """Why a measurement ends before its time."""

    PRECISE = "precise"
    """The interval is as narrow as numbers are told apart (fixed-width sequential estimation, Chow and Robbins 1965)."""
    WORSE = "worse"
    """Its interval lies wholly below that of the best so far: this count cannot be chosen."""


def enough(now: Estimate | None, best: Estimate | None) -> Enough | None:
    """Whether measuring on could still change anything."""
    if now is None:
        return None
    if best is not None and now.rate + now.half_width < best.rate - best.half_width:
        return Enough.WORSE
    precise = now.windows >= SETTLED_WINDOWS and now.half_width <= PRECISION * now.rate
    return Enough.PRECISE if precise else None
