"""Which worker counts to try, which one to recommend, and what holds the training back there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from migctl.core.seeing.throughput import PRECISION, Estimate
from migctl.core.words import counted

_BUSY = 0.85
"""Part of the cores at work from which they are the limit; the rest is what a kernel needs to hand over."""
_READY = 0.05
"""Part of the time waiting for data up to which data are always there in time."""
_DEVICE = 0.10
"""Cores idle for a device, as a part of the cores, from which the device is the limit."""


@dataclass(frozen=True, slots=True)
class Point:
    """One worker count, measured."""

    num_workers: int
    measured: Estimate


Curve = Mapping[int, Point]


def better(one: Estimate, other: Estimate) -> bool:
    """Whether the first is faster by more than matters (3 %) and by more than the intervals leave open."""
    gain = one.rate - other.rate
    return gain > PRECISION * other.rate and gain > math.hypot(one.half_width, other.half_width)


def next_count(curve: Curve, start: int, most: int, least: int = 1) -> int | None:
    """The worker count to measure next; `None` = the curve is known well enough.

    Throughput over workers is taken to have one top: more workers help until cores, device or GPU are used up, then
    nothing changes, then they get in each other's way. So counts beyond one that brought nothing need no measurement, and
    the fewest workers that reach the top can be found by halving. Half as many workers again that bring less than 3 % are
    taken to bring nothing.
    """
    if start not in curve:
        return start
    highest = max(curve)
    below = [point.measured for count, point in curve.items() if count < highest]
    if highest < most and (highest == start or all(better(curve[highest].measured, other) for other in below)):
        return min(most, max(highest + 1, highest * 3 // 2))
    top = best(curve)
    above = min((count for count in curve if count > top), default=None)
    if above is not None and above > top + 1 and better(curve[top].measured, curve[above].measured):
        return top + 1
    level = sorted(count for count, point in curve.items() if not better(curve[top].measured, point.measured))
    if len(level) == 2 and level[1] - level[0] > 1:
        # Two equal counts have the top between them; three are a plateau.
        return (level[0] + level[1]) // 2
    good = level[0]
    short = max((count for count in curve if count < good), default=None)
    if short is None:
        return max(least, good // 2) if good > least else None
    return (good + short) // 2 if good - short > 1 else None


def best(curve: Curve) -> int:
    """The count with the highest throughput measured."""
    return max(curve, key=lambda count: (curve[count].measured.rate, -count))


def fewest(curve: Curve) -> int:
    """The recommendation: the fewest workers that are not measurably slower than the best; each costs memory and start-up time."""
    top = curve[best(curve)].measured
    return min(count for count, point in curve.items() if not better(top, point.measured))


class Bound(StrEnum):
    """What a training waits for."""

    CPU = "cpu"
    IO = "io"
    GPU = "gpu"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What holds the training back with the recommended workers, and from what that was read."""

    bound: Bound
    reason: str


def verdict(measured: Estimate, cores: int) -> Verdict:
    """What limits the throughput.

    Args:
        measured: with the recommended number of workers.
        cores: physical cores of the cpuset.
    """
    wait, full, iowait = measured.wait_share, measured.busy_cpus, measured.iowait_cpus
    busy = measured.own_cpus if measured.own_cpus is not None else full
    all_cores = counted(cores, "core")
    at_work = f"{busy:.1f} of {all_cores} at work" if busy is not None else "the cores' use is not known"
    if wait is not None and wait <= _READY:
        return Verdict(
            Bound.GPU, f"data are ready when asked for ({wait:.0%} of the time waiting): the training step is the limit"
        )
    waiting = f", {wait:.0%} of the time waiting for data" if wait is not None else ""
    if busy is not None and busy >= _BUSY * cores:
        return Verdict(Bound.CPU, f"{at_work}{waiting}: the cores are the limit")
    if busy is not None and full is not None and full >= _BUSY * cores:
        others = f"others used {full - busy:.1f} of them"
        return Verdict(Bound.UNKNOWN, f"{at_work} for the job, {others}: what limits the job itself cannot be told")
    if iowait is not None and iowait >= _DEVICE * cores:
        return Verdict(Bound.IO, f"{iowait:.1f} of {all_cores} idle for a device{waiting}: the storage is the limit")
    if wait is not None and busy is not None:
        return Verdict(Bound.IO, f"{at_work}{waiting}: the loaders wait for storage or network")
    return Verdict(
        Bound.UNKNOWN,
        f"{at_work}, and the job does not tell how long it waits for data (wait=SECONDS): the training step, "
        "a network file system or a lock may be the limit",
    )


def drifted(first: Estimate, again: Estimate) -> bool:
    """Whether one count, measured at the beginning and at the end, differs: a cold page cache, or somebody else's load."""
    return better(first, again) or better(again, first)
