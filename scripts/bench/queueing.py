"""How good and how fast the queue's decisions are: makespans on random workloads, waits, and the time of one decision.

    python scripts/bench/queueing.py [--workloads 200] [--seed 1] [--jobs 10000]

The product's own decision code (`migctl/core/queueing/queue.py`) runs with a simulated clock (`migctl/core/queueing/forecast.py`)
on one GPU of each board. It is compared with

- the bound: no schedule is shorter than its compute slices × time, its memory slices × time, or its longest job;
- waves by hand: the file's order cut into batches that fit together, each of which ends before the next begins;
- fixed small slices: one 1g instance after the other on all of the GPU, every job on one of them, for as long as it takes there.
  Jobs that need more memory than such an instance has could not run there at all; how many is told, and the time is
  what it would be if they could.

A workload: 40 to 120 jobs, all there at the start, in random order, each with the profile that it asks for. Work (time on a 1g
instance) is log-normal (sigma 0.6, median 2 h × slices^0.8: who asks for more has more to do). The time on the job's own profile
is that divided by slices^a × 0.9…1.1, with a of each job evenly from 0.5 to 1: no constant factor between profiles, seldom
linear, as measured for real trainings (Villarrubia et al. 2025, arXiv:2507.13601). `expect` is told to the queue exactly, off by
a log-normal factor (sigma 0.5), or not at all. Making and destroying instances costs about a second and is left out.

That paper's FAR schedules offline batches too and reports makespans of at most 1.22 × the optimum on benchmarks (1.10 on synthetic
tasks), reconfiguration included. The settings differ: FAR chooses the size of every job's instance (moldable) and knows all
durations; here the user has chosen the sizes, the order of the file is a promise, durations need not be known, and the
reference is a bound that lies below the optimum. So the figures stand beside each other, not against each other.

The last columns tell whether anybody starves: of the jobs that need the whole GPU, when the one that waits longest starts, as a
part of the makespan and of its start by hand, and how many jobs behind them in the file were started before them.

Exit 1: a target is missed (mean at most 1.15 × the bound and 20 % shorter than waves with `expect`; a decision under 20 ms).
"""

from __future__ import annotations

import argparse
import heapq
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from migctl.core.gpu import packing
from migctl.core.gpu.mig import Gpu, Profile
from migctl.core.queueing.forecast import Forecast, forecast
from migctl.core.queueing.queue import decide
from migctl.core.queueing.situation import Situation
from migctl.core.queueing.turn import History, Patience, Site, Turn, Wish
from migctl.core.runs.record import JobState
from migctl.nvml.models import board_gpu, resolve_board

MIXES = {
    "a100-40gb": {"1g.5gb": 35, "1g.10gb": 5, "2g.10gb": 25, "3g.20gb": 18, "4g.20gb": 10, "7g.40gb": 7},
    "h100-sxm5-80gb": {"1g.10gb": 35, "1g.20gb": 5, "2g.20gb": 25, "3g.40gb": 18, "4g.40gb": 10, "7g.80gb": 7},
    "a30": {"1g.6gb": 45, "2g.12gb": 35, "4g.24gb": 20},
}
"""Board → profiles and how often they are asked for."""
KNOWN, OFF, UNKNOWN = "expect given", "expect off", "no expect"
BOUND, BETTER, DECISION_MS = 1.15, 0.20, 20.0
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Work:
    """One job of a workload."""

    name: str
    wish: Wish
    profile: Profile
    lasts_s: float
    small_s: float
    """On a 1g instance."""
    told_s: float
    """What `expect` says where it is off."""


def workload(board: str, seed: int) -> tuple[Gpu, list[Work]]:
    chance = random.Random(f"{board} {seed}")
    gpu, mix = board_gpu(resolve_board(board)), MIXES[board]
    profiles = {profile.name: profile for profile in gpu.profiles}
    wishes = {name: Wish(name, {gpu.uuid: profiles[name]}) for name in mix}
    jobs: list[Work] = []
    for n in range(chance.randint(40, 120)):
        name = chance.choices(list(mix), list(mix.values()))[0]
        slices = profiles[name].compute_slices
        small = chance.lognormvariate(0, 0.6) * 2 * HOUR * slices**0.8
        lasts = small / slices ** chance.uniform(0.5, 1.0) / chance.uniform(0.9, 1.1)
        told = lasts * chance.lognormvariate(0, 0.5)
        jobs.append(Work(f"job{n}", wishes[name], profiles[name], lasts, small, told))
    return gpu, jobs


def bound(gpu: Gpu, jobs: Sequence[Work]) -> float:
    compute = sum(job.profile.compute_slices * job.lasts_s for job in jobs) / gpu.compute_slices
    memory = sum(job.profile.memory_slices * job.lasts_s for job in jobs) / gpu.memory_slices
    return max(compute, memory, *(job.lasts_s for job in jobs))


def waves(gpu: Gpu, jobs: Sequence[Work]) -> tuple[float, list[float]]:
    """The end of the last wave, and when each job starts."""
    rules = packing.grid(gpu.profiles)
    empty = packing.used(rules, ())
    total, wave, begun = 0.0, list[Work](), list[float]()
    for job in jobs:
        positions = sorted(n for one in (*wave, job) if (n := rules.position(one.profile.id)) is not None)
        kinds = tuple(dict.fromkeys(positions))
        if not packing.fits(rules, empty, kinds, tuple(map(positions.count, kinds))):
            total += max(one.lasts_s for one in wave)
            wave = []
        wave.append(job)
        begun.append(total)
    return total + max(one.lasts_s for one in wave), begun


def small_slices(gpu: Gpu, jobs: Sequence[Work]) -> float:
    free = [0.0] * gpu.compute_slices
    for job in jobs:
        heapq.heappush(free, heapq.heappop(free) + job.small_s)
    return max(free)


def queue(gpu: Gpu, jobs: Sequence[Work], way: str, patience: Patience) -> Forecast:
    told = {KNOWN: lambda job: job.lasts_s, OFF: lambda job: job.told_s, UNKNOWN: lambda _: None}[way]
    turns = [Turn(name=job.name, wish=job.wish, expect_s=told(job)) for job in jobs]
    start = Situation(
        turns=turns,
        states={},
        sites=[Site(gpu=gpu)],
        now=0.0,
        history=History(submitted=dict.fromkeys([job.name for job in jobs], 0.0)),
        patience=patience,
    )
    return forecast(start, {job.name: job.lasts_s for job in jobs})


def compare(board: str, way: str, count: int, seed: int, patience: Patience) -> bool:
    ratios: list[float] = []
    shorter: list[float] = []
    to_small: list[float] = []
    too_large: list[float] = []
    means: list[float] = []
    late: list[float] = []
    whole: list[float] = []
    earlier: list[float] = []
    passed: list[int] = []
    for number in range(count):
        gpu, jobs = workload(board, seed * 1_000_000 + number)
        course = queue(gpu, jobs, way, patience)
        end = max(one.end for one in course.jobs.values() if one.end is not None)
        begun = {name: one.start for name, one in course.jobs.items() if one.start is not None}
        assert len(begun) == len(jobs), "somebody never started"
        waits = sorted(begun[job.name] for job in jobs)
        ratios.append(end / bound(gpu, jobs))
        by_hand, then = waves(gpu, jobs)
        shorter.append(1 - end / by_hand)
        to_small.append(end / small_slices(gpu, jobs))
        smallest = min(profile.memory_mib for profile in gpu.profiles)
        too_large.append(sum(job.profile.memory_mib > smallest for job in jobs) / len(jobs))
        means.append(statistics.mean(waits) / end)
        late.append(waits[int(0.95 * (len(waits) - 1))] / end)
        full = [n for n, job in enumerate(jobs) if job.profile.compute_slices == gpu.compute_slices]
        if full:
            last = max(full, key=lambda n: begun[jobs[n].name])
            whole.append(begun[jobs[last].name] / end)
            earlier.append(begun[jobs[last].name] / max(then[last], 1.0) if then[last] else 1.0)
        passed += [sum(begun[job.name] < begun[jobs[n].name] for job in jobs[n + 1 :]) for n in full]
    mean, better = statistics.mean(ratios), statistics.mean(shorter)
    print(
        f"{board:15} {way:13} {mean:6.3f} {max(ratios):6.3f} {better:8.1%} {statistics.mean(to_small):7.2f} "
        f"{statistics.mean(too_large):7.0%} {statistics.mean(means):6.0%} {statistics.mean(late):6.0%} "
        f"{statistics.mean(whole):7.0%} {statistics.mean(earlier):9.0%} {statistics.mean(passed):7.1f} {max(passed):5}"
    )
    return way != KNOWN or (mean <= BOUND and better >= BETTER)


def decisions(count: int) -> bool:
    gpu = board_gpu(resolve_board("a100-40gb"))
    wishes = [Wish(name, {gpu.uuid: p}) for name in MIXES["a100-40gb"] if (p := gpu.profile_named(name)) is not None]
    chance = random.Random(1)
    names = [f"job{n}" for n in range(count)]
    alike = [Turn(name=n, wish=chance.choice(wishes), priority=chance.randrange(3), expect_s=HOUR) for n in names]
    unlike = [Turn(name=n, wish=chance.choice(wishes), expect_s=chance.uniform(1, HOUR)) for n in names]
    bound_to = [Turn(name=n, wish=chance.choice(wishes), needs=(chance.choice(names),)) for n in names]
    half = dict.fromkeys(names[: count // 2], JobState.SUCCEEDED)
    history = History(
        submitted=dict.fromkeys(names, 0.0), started={name: float(n) for n, name in enumerate(names[: count // 2])}
    )
    cases = {
        "all waiting, three priorities": (alike, {}),
        "half ended": (alike, half),
        "every expect another": (unlike, half),
        "everybody needs somebody": (bound_to, half),
    }
    fine = True
    print(f"\none decision with {count} jobs: median and worst of 15 (ms of CPU)")
    for name, (turns, states) in cases.items():
        situation = Situation(turns=turns, states=states, sites=[Site(gpu=gpu)], now=1e6, history=history)
        times: list[float] = []
        for _ in range(15):
            began = time.process_time()
            decide(situation)
            times.append((time.process_time() - began) * 1000)
        fine &= statistics.median(times) < DECISION_MS
        print(f"  {name:32} {statistics.median(times):6.1f} {max(times):6.1f}")
    return fine


def main(arguments: argparse.Namespace) -> int:
    patience = Patience()
    print(
        "board           durations     × bound        shorter × small  cannot   wait/end   whole GPU, the one that waits longest:\n"
        "                               mean    max than waves slices   there  mean   p95  wait/end  /by hand  passed  most"
    )
    fine = [
        compare(board, way, arguments.workloads, arguments.seed, patience)
        for board in MIXES
        for way in (KNOWN, OFF, UNKNOWN)
    ]
    fine.append(decisions(arguments.jobs))
    return 0 if all(fine) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=10_000)
    sys.exit(main(parser.parse_args()))
