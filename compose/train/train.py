"""A PyTorch training to start from: it takes workers, batch size and cores as migctl hands them over, and survives being stopped.

Without migctl it runs too, on whatever CPUs and GPU it finds. SIGTERM (`migctl stop`, `docker stop`, Slurm) writes a checkpoint
and ends with 143; `--resume` goes on from it. Put your own dataset and model where `images_of` and `model_of` stand.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from images import ImageFolder, SyntheticImages
from throughput import Throughput
from torch import nn
from torch.utils.data import DataLoader, Sampler

asked_to_stop = threading.Event()
TRIAL = "MIGCTL_SAMPLES_FILE" in os.environ
"""Whether `migctl tune` only measures: nothing is kept then, and nothing taken up."""


def handed_over(name: str, otherwise: int) -> int:
    """A number that migctl gives to each job, or the one to use without migctl."""
    return int(os.environ.get(name) or otherwise)


def arguments() -> argparse.Namespace:
    """The command line; what migctl handed over is the default."""
    cpus = len(os.sched_getaffinity(0))
    job = os.environ.get("MIGCTL_JOB", "train")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder with one folder of pictures a class; without it: made up")
    parser.add_argument("--samples", type=int, default=4096, help="made-up samples of an epoch")
    parser.add_argument("--size", type=int, default=224, help="pixels a side")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=handed_over("MIGCTL_BATCH_SIZE", 32))
    # One core stays for this process and the system: the guide's rule for a training that has the machine to itself.
    parser.add_argument("--workers", type=int, default=handed_over("MIGCTL_NUM_WORKERS", max(1, cpus - 1)))
    parser.add_argument("--checkpoint", type=Path, default=Path(f"{job}.pt"))
    parser.add_argument("--checkpoint-every", type=int, default=200, metavar="STEPS")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint where there is one")
    return parser.parse_args()


def images_of(options: argparse.Namespace) -> ImageFolder | SyntheticImages:
    """The dataset, with `classes`."""
    if options.data is not None:
        return ImageFolder(options.data, options.size)
    return SyntheticImages(options.samples, size=options.size)


def model_of(classes: int) -> nn.Module:
    """A small convolutional network."""
    layers: list[nn.Module] = []
    channels = 3
    for width in (16, 32, 64):
        layers += [nn.Conv2d(channels, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


class Shuffled(Sampler[int]):
    """All samples in an order that depends on seed and epoch only, from any position on: what --resume needs."""

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.seed = count, seed
        self.epoch, self.start = 0, 0

    def __iter__(self) -> Iterator[int]:
        order = torch.randperm(self.count, generator=torch.Generator().manual_seed(self.seed + self.epoch))
        return iter(order[self.start :].tolist())

    def __len__(self) -> int:
        return self.count - self.start


def worker_start(_number: int) -> None:
    """Seed the random crops, and leave SIGTERM and Ctrl-C to the main process: a worker that dies first costs the checkpoint."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    random.seed(torch.initial_seed())


def loader_of(images: ImageFolder | SyntheticImages, sampler: Shuffled, options: argparse.Namespace) -> DataLoader[Any]:
    """The loader with as many workers as this job's cores carry."""
    return DataLoader(
        images,
        batch_size=options.batch_size,
        sampler=sampler,
        num_workers=options.workers,
        worker_init_fn=worker_start,
        persistent_workers=options.workers > 0,
        pin_memory=torch.cuda.is_available(),
        drop_last=False,
    )


def save(path: Path, content: dict[str, Any]) -> None:
    """The whole checkpoint or the one before it: never half of one, whatever happens meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


class Training:
    """Model, optimizer and how far they are: `epoch`, and `position` samples into it."""

    def __init__(self, options: argparse.Namespace) -> None:
        torch.manual_seed(options.seed)
        self.options = options
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.images = images_of(options)
        self.model = model_of(len(self.images.classes)).to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=options.lr, momentum=0.9)
        self.sampler = Shuffled(len(self.images), options.seed)
        self.speed = Throughput()
        self.step, self.epoch, self.position = 0, 0, 0
        self.latest = torch.tensor(float("nan"))

    def restore(self) -> bool:
        """Take over the checkpoint; whether there was one."""
        if not self.options.checkpoint.exists():
            return False
        saved = torch.load(self.options.checkpoint, map_location=self.device, weights_only=True)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.step, self.epoch, self.position = saved["step"], saved["epoch"], saved["position"]
        return True

    def keep(self) -> None:
        """Write the checkpoint, except in a trial."""
        if TRIAL:
            return
        content = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        save(self.options.checkpoint, content | {"step": self.step, "epoch": self.epoch, "position": self.position})

    def train_batch(self, pictures: torch.Tensor, labels: torch.Tensor) -> None:
        """One step. On a GPU the loss is left there: reading it would wait for the GPU in each step."""
        pictures = pictures.to(self.device, non_blocking=True)
        labels = labels.to(self.device, non_blocking=True)
        self.optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(self.model(pictures), labels)
        loss.backward()
        self.optimizer.step()
        self.latest = loss.detach()

    def run(self, say: Callable[[str], None]) -> bool:
        """All epochs that are left; whether they were finished (False = asked to stop)."""
        loader = loader_of(self.images, self.sampler, self.options)
        self.model.train()
        begun, told = time.monotonic(), time.monotonic()
        while self.epoch < self.options.epochs:
            self.sampler.epoch, self.sampler.start = self.epoch, self.position
            asked = time.monotonic()
            for pictures, labels in loader:
                waited = time.monotonic() - asked
                self.train_batch(pictures, labels)
                self.step += 1
                self.position += len(labels)
                self.speed.add(len(labels), waited)
                if asked_to_stop.is_set():
                    return False
                if self.step % self.options.checkpoint_every == 0:
                    self.keep()
                asked = time.monotonic()
                if asked - told >= 5:
                    told = asked
                    say(self.progress(asked - begun))
            self.epoch, self.position = self.epoch + 1, 0
        self.speed.add(0, last=True)
        say(self.progress(time.monotonic() - begun))
        return True

    def progress(self, elapsed_s: float) -> str:
        """A line for people."""
        rate, waiting = self.speed.samples / elapsed_s, self.speed.wait_s / elapsed_s
        return f"step {self.step}, loss {float(self.latest):.3f}, {rate:.0f} samples/s, {waiting:.0%} of the time waiting for data"


def main() -> int:
    """Train; 143 after SIGTERM, as shells count."""
    options = arguments()
    job = os.environ.get("MIGCTL_JOB", "train")

    def say(text: str) -> None:
        print(f"{job}: {text}", flush=True)

    signal.signal(signal.SIGTERM, lambda _number, _frame: asked_to_stop.set())
    training = Training(options)
    if options.resume and not TRIAL and training.restore():
        say(f"goes on at step {training.step}")
    gpu = torch.cuda.get_device_name() if training.device.type == "cuda" else "no GPU"
    cpus = sorted(os.sched_getaffinity(0))
    say(f"{gpu}, {options.workers} workers, batch size {options.batch_size}, {len(cpus)} CPUs {cpus}")
    finished = training.run(say)
    training.keep()
    if not finished:
        kept = "nothing kept of this trial" if TRIAL else f"checkpoint in {options.checkpoint}"
        say(f"stopped at step {training.step}, {kept}")
    return 0 if finished else 143


if __name__ == "__main__":
    sys.exit(main())
