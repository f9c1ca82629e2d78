"""What a first plan could say on this machine: proposed from what was seen there, and from what its user has said."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from migctl.core import names
from migctl.core.choices import RuntimeName, Strategy
from migctl.core.gpu.mig import Gpu
from migctl.core.proposing.trainings import Training

DEFAULT_IMAGE = "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime"
"""What containers are made from where the engine has no image that looks like one for trainings."""
_FRAMEWORKS = ("pytorch", "torch", "tensorflow", "jax", "nemo", "cuda", "train")
STAND_IN = ("sh", "-c", "echo $MIGCTL_NUM_WORKERS workers on the CPUs $MIGCTL_CPUSET; sleep 30")
"""What runs where no training was found: it shows what a job gets. No `${}`: the shell in the job reads the variables."""
_REPLACED = re.compile(r"\$(?=[${])")
"""Dollars that a plan would take for a variable or for a doubled one."""
_RUNS = 2
"""Of one script: a comparison takes two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was found on the machine and in the folder."""

    gpus: tuple[Gpu, ...]
    """At least one."""
    cores: int
    """Physical cores that jobs may use."""
    trainings: tuple[Training, ...] = ()
    """Files of the folder that look like trainings."""
    scripts: tuple[Training, ...] = ()
    """All scripts of the folder."""
    engine: str = ""
    """The container engine that answers; nothing: there is none."""
    images: tuple[str, ...] = ()
    """Names of the images that it has."""
    environment: str = ""
    """The active virtual environment's folder, or Conda's name."""
    python: str = "python3"
    """How Python is called here."""
    folder: str = ""
    """Name of the folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the user has said; `None` and nothing = the proposal."""

    commands: tuple[str, ...] = ()
    """Command lines, or names of files that look like trainings."""
    runs: int | None = None
    image: str | None = None
    runtime: RuntimeName | None = None
    strategy: Strategy | None = None


@dataclass(frozen=True, slots=True)
class FirstJob:
    """A job of the plan."""

    name: str
    command: str | tuple[str, ...]
    """One line as the user wrote it, or words."""
    runs: int = 1
    training: Training | None = None
    """What it runs, where that was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A first plan."""

    name: str
    gpu: Gpu
    strategy: Strategy
    image: str | None
    """Of the containers; `None`: processes."""
    jobs: tuple[FirstJob, ...]

    @property
    def runs(self) -> int:
        """Trainings in all."""
        return sum(job.runs for job in self.jobs)

    @property
    def enabling(self) -> bool:
        """Whether MIG mode has to be turned on first."""
        return self.strategy is Strategy.MIG and self.gpu.mig is not None and not self.gpu.mig.current


def propose(seen: Seen, wishes: Wishes) -> Proposal:
    """The plan for what is there, with the user's wishes in place of what would be proposed."""
    gpu = best_gpu(seen.gpus, wishes.strategy)
    image = image_for(seen, wishes)
    return Proposal(
        name=names.sanitised(seen.folder, "trainings"),
        gpu=gpu,
        strategy=wishes.strategy or strategy_for(gpu),
        image=image,
        jobs=_jobs(seen, wishes, python="python" if image is not None else seen.python),
    )


def best_gpu(gpus: Sequence[Gpu], strategy: Strategy | None = None) -> Gpu:
    """Where a first plan goes: a GPU that can do what is wished for, with its MIG mode on before others, where least is at work."""
    open_ = [gpu for gpu in gpus if gpu.mig is None or not gpu.mig.current] if strategy is Strategy.SHARED else []
    return min(
        open_ or gpus,
        key=lambda gpu: (not is_ready(gpu), gpu.mig is None, len(gpu.instances) + len(gpu.processes), gpu.index),
    )


def is_ready(gpu: Gpu) -> bool:
    """Whether instances can be planned on it as it is."""
    on = gpu.mig is not None and gpu.mig.settled and gpu.mig.current
    return on and bool(gpu.profiles) and gpu.instances_reason is None


def strategy_for(gpu: Gpu) -> Strategy:
    """MIG where its mode is on; where it is off, a change that concerns everybody is for the user to ask for."""
    return Strategy.MIG if gpu.mig is not None and gpu.mig.current else Strategy.SHARED


def image_for(seen: Seen, wishes: Wishes) -> str | None:
    """The image, or `None` for processes: in an active virtual environment, and where no engine answers."""
    if wishes.image is not None:
        return wishes.image
    runtime = wishes.runtime
    if runtime is None:
        fitting = _fitting(seen.images)
        runtime = RuntimeName.DOCKER if fitting is not None and not seen.environment else RuntimeName.PROCESS
    if runtime is RuntimeName.PROCESS:
        return None
    return _fitting(seen.images) or DEFAULT_IMAGE


def _fitting(images: Sequence[str]) -> str | None:
    """The image that looks most like one for trainings."""
    found = [(_FRAMEWORKS.index(word), image) for image in images for word in _FRAMEWORKS if word in image.lower()]
    return min(found, default=(0, None))[1]


def _jobs(seen: Seen, wishes: Wishes, *, python: str) -> tuple[FirstJob, ...]:
    known = {script.file: script for script in (*seen.scripts, *seen.trainings)}
    wanted = wishes.commands or tuple(training.file for training in seen.trainings)
    alone = len(wanted) < 2
    runs = wishes.runs if wishes.runs is not None else _RUNS if alone else 1
    if not wanted:
        return (FirstJob("train", STAND_IN, runs),)
    taken: dict[str, FirstJob] = {}
    for command in wanted:
        training = known.get(command)
        name = _free(names.sanitised(_stem(command, known), "train"), taken)
        words = _words(training, python) if training is not None else command
        taken[name] = FirstJob(name, words, runs, training)
    return tuple(taken.values())


def _words(training: Training, python: str) -> tuple[str, ...]:
    words = ("sh" if training.shell else python, _as_file(training.file))
    return (*words, training.workers_option, "${MIGCTL_NUM_WORKERS}") if training.workers_option else words


def _as_file(name: str) -> str:
    """Not an option whatever it begins with, and nothing in it is replaced."""
    return ("./" if name.startswith("-") else "") + _REPLACED.sub("$$", name)


def _stem(command: str, known: Mapping[str, Training]) -> str:
    """`python src/train.py --lr 0.1` is `train`."""
    words = [command] if command in known else command.split()
    scripts = [word for word in words if word.endswith((".py", ".sh"))]
    word = (scripts or words or ["train"])[0]
    return word.rpartition("/")[2].removesuffix(".py").removesuffix(".sh")


def _free(name: str, taken: Mapping[str, FirstJob]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name[:58]}-{number}"
    return free
