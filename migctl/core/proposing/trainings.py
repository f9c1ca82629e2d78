"""Which files of a folder look like trainings, and how each of them takes its number of loader workers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_LIBRARIES = re.compile(
    r"(?m)^\s*(?:import|from)\s+(?:torch|lightning|pytorch_lightning|tensorflow|keras|jax|flax|mxnet|paddle)\b"
)
_TRAINS = re.compile(r"\.backward\(|\.fit\(|DataLoader\(|optimizer|\bepochs?\b|\bTrainer\(|GradientTape|\bgrad\(")
_STARTS = re.compile(r"""if\s+__name__\s*==\s*["']__main__["']|argparse|click\.|typer\.|absl""")
_SHELL = re.compile(r"(?m)^\s*(?:exec\s+)?(?:python3?|torchrun|accelerate|deepspeed)\s")
_NAMED = re.compile(r"(?i)(?:^|[_-])(?:train|finetune|fine_tune|pretrain|fit)(?:[_.-]|$)|^train|^main\.|^run")
# How scripts call the option in argparse, click and typer.
_OPTION = re.compile(
    r"""["'](--(?:num[-_]workers|workers|n[-_]workers|dataloader[-_]num[-_]workers|loader[-_]workers))["']"""
)
_VARIABLE = "MIGCTL_NUM_WORKERS"
_TESTS = re.compile(r"(?i)(?:^test_|_test\.py$|^conftest\.py$|^setup\.py$)")


@dataclass(frozen=True, slots=True)
class Training:
    """A file that looks like a training, beside the plan."""

    file: str
    workers_option: str = ""
    """The option by which it takes its number of workers, where its text names one."""
    reads_workers: bool = False
    """Whether it reads MIGCTL_NUM_WORKERS itself."""

    @property
    def shell(self) -> bool:
        """Whether a shell runs it, not Python."""
        return self.file.endswith(".sh")


def scripts(texts: Mapping[str, str]) -> tuple[Training, ...]:
    """All of the files (name → text) as what they would be if they were trainings."""
    return tuple(_training(name, texts[name]) for name in sorted(texts))


def trainings(texts: Mapping[str, str]) -> tuple[Training, ...]:
    """Those of the files (name → text) that look like trainings, by name; where only names tell, those that are called so."""
    surely, perhaps = [], []
    for name in sorted(texts):
        text = texts[name]
        if _TESTS.search(name):
            continue
        if name.endswith(".py"):
            called = bool(_NAMED.search(name))
            learns = bool(_LIBRARIES.search(text)) and bool(_TRAINS.search(text))
            if learns and (called or _STARTS.search(text)):
                surely.append(name)
            elif called and not learns:
                perhaps.append(name)
        elif name.endswith(".sh") and _NAMED.search(name) and _SHELL.search(text):
            perhaps.append(name)
    return tuple(_training(name, texts[name]) for name in surely or perhaps)


def _training(name: str, text: str) -> Training:
    option = _OPTION.search(text)
    return Training(name, option[1] if option and name.endswith(".py") else "", _VARIABLE in text)
