"""What the proof measures: situations of trainings at once, and the arrangements in which each is run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

STEP_MS = 20.0
"""The simulated GPU step. A batch takes about as long to load on one core, so that the loaders decide."""


@dataclass(frozen=True, slots=True)
class Training:
    """The work of one training; the same in all arrangements of a situation."""

    name: str
    batches: int
    """0: endless; it stops when the others have done their work."""
    batch: int = 16
    stored: int = 320
    """Pixels a side of the JPEG."""
    size: int = 160
    """Pixels a side of the sample."""
    images: Literal["pillow", "numeric"] = "pillow"


@dataclass(frozen=True, slots=True)
class Arrangement:
    """One way to run the trainings of a situation."""

    key: str
    label: str
    how: Literal["by hand", "migctl", "migctl in turns"]
    workers: Mapping[str, int] = field(default_factory=dict)
    """For each training by name; what is not named takes what migctl hands over."""
    environment: Mapping[str, str] = field(default_factory=dict)
    plan: Mapping[str, bool | int] = field(default_factory=dict)
    """Further keys of the plan."""
    step_ms: float = STEP_MS
    own_sessions: bool = False
    """By hand: a session for each training, as from two terminals, instead of one shell's background jobs."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Trainings at once, and what is asked about them."""

    key: str
    title: str
    trainings: tuple[Training, ...]
    arrangements: tuple[Arrangement, ...]
    step: Literal["sleep", "spin"] = "sleep"
    watched: str | None = None
    """The training whose batch time and speed count; none = all, and the slowest."""
    note: str = ""


def equal(count: int, batches: int, **more: object) -> tuple[Training, ...]:
    """So many equal trainings."""
    return tuple(replace(Training(f"t{number}", batches), **more) for number in range(1, count + 1))  # type: ignore[arg-type]


def everyone(trainings: Sequence[Training], workers: int) -> dict[str, int]:
    return {training.name: workers for training in trainings}


def some(number: int, what: str) -> str:
    """`1 worker`, `2 workers`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def for_too_many(count: int, logical: int) -> dict[str, bool | int]:
    """The plan's word for more trainings than CPUs."""
    return {"oversubscribe": True} if count > logical else {}


def equal_situations(cores: int, logical: int, scale: float) -> list[Situation]:
    """Situation 1: equal trainings."""
    found: list[Situation] = []
    for count in (2, 4):
        trainings = equal(count, max(8, round(160 * scale / count)))
        hand = [Arrangement("naive-8", "naive, 8 workers", "by hand", everyone(trainings, 8))]
        if (os.cpu_count() or 8) != 8:
            label = f"naive, {some(os.cpu_count() or 1, 'worker')} (cpu_count())"
            hand.append(Arrangement("naive-cpus", label, "by hand", everyone(trainings, os.cpu_count() or 1)))
        split = max(1, cores // count)
        hand.append(Arrangement("careful", f"by hand, {some(split, 'worker')}", "by hand", everyone(trainings, split)))
        for step in ("sleep", "spin"):
            own = [Arrangement("migctl", "migctl up", "migctl", plan=for_too_many(count, logical))]
            if count > logical:
                own[0] = replace(own[0], label="migctl up, oversubscribe")
                if step == "sleep":
                    own.append(Arrangement("queue", "migctl up, queue", "migctl"))
            title = f"{count} equal trainings, GPU step {step}s"
            note = "more trainings than cores" if count > cores else ""
            ways = [way for way in hand if way.key != "naive-cpus" or count == 2 or step == "sleep"]
            found.append(Situation(f"equal-{count}-{step}", title, trainings, (*ways, *own), step, note=note))
    return found


def neighbour_situations(cores: int, scale: float) -> list[Situation]:
    """Situation 2: a light training beside one with 16 workers, which goes on, or which ends first or last."""
    light = Training("light", max(8, round(120 * scale)), stored=224, size=112)
    heavy = Training("heavy", 0)
    split = max(1, cores // 2)
    arrangements = (
        Arrangement("naive", "naive, 2 and 16 workers", "by hand", {"light": 2, "heavy": 16}),
        Arrangement(
            "terminals", "the same from two terminals", "by hand", {"light": 2, "heavy": 16}, own_sessions=True
        ),
        Arrangement("careful", f"by hand, {some(split, 'worker')} each", "by hand", everyone((light, heavy), split)),
        Arrangement("migctl", "migctl up", "migctl"),
    )
    ending = replace(heavy, batches=max(8, round(140 * scale)))
    return [
        Situation(
            "neighbour",
            "light training beside one with 16 workers",
            (light, heavy),
            arrangements,
            watched="light",
            note="the neighbour goes on until the light one is done",
        ),
        Situation(
            "neighbour-ends",
            "the same, until both are done",
            (light, ending),
            arrangements,
            watched="light",
            note="the light one ends first; nobody may use its core then",
        ),
    ]


def loading_situations(cores: int, scale: float) -> list[Situation]:
    """Situations 3 and 4: loading in the main process, and transforms with threads of their own."""
    split = max(1, cores // 2)
    main = equal(2, max(8, round(70 * scale)))
    numeric = equal(2, max(8, round(60 * scale)), images="numeric")
    alone = equal(1, max(8, round(120 * scale)))
    none = everyone(main, 0)
    all_cores = {"reserve_cores": 0}
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return [
        Situation(
            "main-process",
            "2 trainings that load in the main process",
            main,
            (
                Arrangement("naive", "naive, 0 workers", "by hand", none),
                Arrangement("careful", f"by hand, {some(split, 'worker')}", "by hand", everyone(main, split)),
                Arrangement(
                    "careful-threads",
                    f"by hand, 0 workers, {some(split, 'thread')}",
                    "by hand",
                    none,
                    dict.fromkeys(names, str(split)),
                ),
                Arrangement("migctl", "migctl up, num_workers: 0", "migctl", none),
                Arrangement("migctl-workers", "migctl up, its workers", "migctl"),
            ),
        ),
        Situation(
            "numeric",
            "2 trainings, OpenCV and BLAS in the workers",
            numeric,
            (
                Arrangement("naive-8", "naive, 8 workers", "by hand", everyone(numeric, 8)),
                Arrangement("careful", f"by hand, {some(split, 'worker')}", "by hand", everyone(numeric, split)),
                Arrangement("migctl", "migctl up", "migctl"),
            ),
        ),
        Situation(
            "threads",
            "1 training on all cores, loading in the main process",
            alone,
            (
                Arrangement(
                    "one", "migctl up, 1 thread", "migctl", everyone(alone, 0), dict.fromkeys(names, "1"), all_cores
                ),
                Arrangement(
                    "migctl", f"migctl up, {some(cores, 'thread')}", "migctl", everyone(alone, 0), {}, all_cores
                ),
            ),
            note="which thread variables are best with 0 workers",
        ),
    ]


def turn_situations(cores: int, scale: float) -> list[Situation]:
    """`sequential` against `parallel`: alone on the GPU, a step takes half as long as on half of it."""
    pair = equal(2, max(8, round(70 * scale)))
    return [
        Situation(
            "turns",
            "2 trainings, one after another or at once",
            pair,
            (
                Arrangement("parallel", "at once, half a GPU each", "migctl"),
                Arrangement("turns", "in turn, one core kept", "migctl in turns", step_ms=STEP_MS / 2),
                Arrangement(
                    "turns-all",
                    f"in turn, all {cores} cores",
                    "migctl in turns",
                    plan={"reserve_cores": 0},
                    step_ms=STEP_MS / 2,
                ),
            ),
            note="in turn each step takes half as long: the whole GPU, perfectly used",
        )
    ]


def situations(cores: int, logical: int, scale: float) -> list[Situation]:
    """All of them, for a machine with so many physical cores and logical CPUs; `scale` 1 = a few seconds each."""
    return [
        *equal_situations(cores, logical, scale),
        *neighbour_situations(cores, scale),
        *loading_situations(cores, scale),
        *turn_situations(cores, scale),
    ]
