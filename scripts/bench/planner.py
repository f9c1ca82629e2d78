"""How long placing takes: fixed random plans on imagined GPUs; medians and worst cases in milliseconds of CPU.

    python scripts/bench/planner.py [--plans 500] [--seed 1] [--slowest 0]

Every plan is placed with the search's tables still empty of it (`first`) or already known from the plans before (`again`).
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from migctl.core.gpu import packing
from migctl.core.gpu.mig import Gpu
from migctl.core.gpu.placement import Conflict, Demand, Occupied, Room, could_add, place, place_most
from migctl.nvml.models import board_gpu, boards, resolve_board

Plan = tuple[list[Demand], list[Room]]


def machine(*names: str) -> list[Gpu]:
    return [board_gpu(resolve_board(name), n) for n, name in enumerate(names)]


def demands(gpus: list[Gpu], jobs: list[str]) -> list[Demand]:
    return [
        Demand(f"job{n}", {gpu.uuid: profile for gpu in gpus if (profile := gpu.profile_named(name)) is not None})
        for n, name in enumerate(jobs)
    ]


def some_jobs(random: random.Random, gpu: Gpu, slices: int) -> list[str]:
    """Profiles drawn until their compute slices reach about this number; small ones are more frequent in half of the plans."""
    names: list[str] = []
    even = random.random() < 0.5
    plain = [p for p in gpu.profiles if random.random() < 0.8 and (not p.attribute or random.random() < 0.3)] or list(
        gpu.profiles[:2]
    )
    while slices > 0:
        (profile,) = random.choices(plain, [1 if even else 1 / p.compute_slices for p in plain])
        names.append(profile.name)
        slices -= profile.compute_slices
    return names


def one_gpu(random: random.Random) -> Plan:
    (gpu,) = machine(random.choice([name for name in boards() if name != "t4"]))
    small = [p.name for p in gpu.profiles if p.compute_slices <= 2]
    jobs = random.choice([[small[0]] * 7, some_jobs(random, gpu, gpu.compute_slices - 1), random.choices(small, k=7)])[
        :7
    ]
    return demands([gpu], jobs), [Room(gpu)]


def eight_gpus(random: random.Random) -> Plan:
    gpus = machine(*["a100-40gb"] * 8)
    jobs = random.choice([["1g.5gb"] * 56, some_jobs(random, gpus[0], 56)])
    return demands(gpus, jobs), [Room(gpu) for gpu in gpus]


def sixteen_gpus(random: random.Random) -> Plan:
    """Half on equal boards; half on two kinds with foreign instances and jobs that name some of the GPUs."""
    gpus = machine(*["h100-sxm5-80gb"] * 16)
    if random.random() < 0.5:
        return demands(gpus, some_jobs(random, gpus[0], random.randint(80, 116))), [Room(gpu) for gpu in gpus]
    jobs = some_jobs(random, gpus[0], random.randint(20, 90))
    gpus = machine(*["h100-sxm5-80gb"] * 10, *["a100-80gb"] * 6)
    groups = [gpus, gpus[:10], gpus[10:], gpus[:1], gpus[:4], gpus[2:6]]
    wanted = [
        replace(one, options=demands(random.choice(groups[: random.randint(1, 6)]), [job])[0].options)
        for job in jobs
        for one in demands(gpus, [job])
    ]
    return [replace(one, job=f"job{n}") for n, one in enumerate(wanted)], [occupy(random, gpu) for gpu in gpus]


def occupy(random: random.Random, gpu: Gpu) -> Room:
    """The GPU with none, one or two instances of others."""
    room = Room(gpu)
    for _ in range(random.choice([0, 0, 1, 2])):
        profile = random.choice(gpu.profiles[:4])
        spot = random.choice(profile.placements)
        if profile in could_add(room) and not any(spot.overlaps(o.placement) for o in room.occupied):
            room = replace(room, occupied=(*room.occupied, Occupied(spot, profile.id, "not ours")))
    return room


def timed(work: Callable[[], object]) -> tuple[float, object]:
    start = time.process_time()
    result = work()
    return (time.process_time() - start) * 1000, result


def forget() -> None:
    packing.grid.cache_clear()
    packing.packings.cache_clear()


def rows(name: str, make: Callable[[random.Random], Plan], plans: int, seed: int, slowest: int) -> Iterator[str]:
    chance = random.Random(f"{name}/{seed}")
    cold, fitting, conflicts, most = [], [], [], []
    worst: list[tuple[float, int, object]] = []
    for number in range(plans):
        wanted, rooms = make(chance)
        if number < 50:
            forget()
            cold.append(timed(lambda: place(wanted, rooms))[0])  # noqa: B023 -- called at once
        took, result = timed(lambda: place(wanted, rooms))  # noqa: B023
        (conflicts if isinstance(result, Conflict) else fitting).append(took)
        worst.append((took, number, result.jobs if isinstance(result, Conflict) else "fits"))
        if isinstance(result, Conflict):
            most.append(timed(lambda: place_most(wanted, rooms))[0])  # noqa: B023
    for label, times in (
        ("first", cold),
        ("again, fits", fitting),
        ("again, conflict", conflicts),
        ("place_most", most),
    ):
        if times:
            middle, worst_time = statistics.median(times), max(times)
            yield f"{name:12} {label:16} {len(times):5} plans  median {middle:8.2f} ms  worst {worst_time:8.2f} ms"
    for took, number, what in sorted(worst, key=lambda w: -w[0])[:slowest]:
        yield f"    plan {number}: {took:.1f} ms  {what}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--plans", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slowest", type=int, default=0)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    gc.disable()
    for name, make in {"7 on 1": one_gpu, "56 on 8": eight_gpus, "mixed on 16": sixteen_gpus}.items():
        if options.only in name:
            for row in rows(name, make, options.plans, options.seed, options.slowest):
                print(row, flush=True)


if __name__ == "__main__":
    main()
