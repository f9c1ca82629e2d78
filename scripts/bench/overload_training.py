"""One training of the proof: a real PyTorch DataLoader with real decoding, and a GPU step that only takes its time.

The images and their preparation are those of compose/train. Files in --folder keep the trainings together: NAME.ready is
written when everything is imported, `go` starts the work, NAME.json is the result. Then whoever measures finds all processes
alive; after `fill` the loader's queues are full (for the memory), and `release` lets the process end.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import zlib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "compose/train"))

import torch
from images import SyntheticImages
from torch import Tensor
from torch.utils.data import DataLoader

BLOCK = bytes(1 << 16)


class NumericImages(SyntheticImages):
    """The same pictures, prepared by libraries that start threads of their own: OpenCV and NumPy's BLAS."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        import cv2
        import numpy as np

        number = index % self.DISTINCT
        picture = cv2.imdecode(np.frombuffer(self.pictures[number], np.uint8), cv2.IMREAD_COLOR)
        picture = cv2.resize(picture, (self.size * 2, self.size * 2), interpolation=cv2.INTER_CUBIC)
        picture = cv2.GaussianBlur(picture, (5, 5), 0)
        turned = cv2.getRotationMatrix2D((self.size, self.size), index % 30 - 15, 0.5)
        picture = cv2.warpAffine(picture, turned, (self.size, self.size))
        pixels = picture.reshape(self.size, -1).astype(np.float32) / 255
        whitened = (pixels.T @ pixels) @ pixels.T  # a few hundred columns: large enough that BLAS uses all its threads
        return torch.from_numpy(pixels + 1e-6 * whitened.T), number % len(self.classes)


def gpu_step(duration_s: float, kind: str) -> None:
    """What the main process does while the GPU computes: sleep, or spin as CUDA does while it waits (without the GIL)."""
    if kind == "sleep":
        time.sleep(duration_s)
        return
    end = time.monotonic() + duration_s
    while time.monotonic() < end:
        zlib.crc32(BLOCK)


def put(path: Path, content: dict[str, Any]) -> None:
    """The whole file at once."""
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(content), "utf-8")
    draft.replace(path)


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.005)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--batches", type=int, required=True, help="0: until NAME.stop exists")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--stored", type=int, required=True, help="pixels a side of the JPEG")
    parser.add_argument("--size", type=int, required=True, help="pixels a side of the sample")
    parser.add_argument("--step-ms", type=float, required=True)
    parser.add_argument("--step", choices=["sleep", "spin"], required=True)
    parser.add_argument("--images", choices=["pillow", "numeric"], default="pillow")
    parser.add_argument("--workers", type=int, default=int(os.environ.get("MIGCTL_NUM_WORKERS", "-1")))
    return parser.parse_args()


def main() -> None:
    options = arguments()
    endless = options.batches == 0
    kind = NumericImages if options.images == "numeric" else SyntheticImages
    images = kind((options.batches or 1_000_000) * options.batch, stored=options.stored, size=options.size)
    loader = DataLoader(
        images, batch_size=options.batch, num_workers=options.workers, persistent_workers=options.workers > 0
    )
    stop = options.folder / f"{options.name}.stop"
    put(options.folder / f"{options.name}.ready", {"pid": os.getpid()})
    wait_for(options.folder / "go")

    took_s: list[float] = []
    begun = before = time.monotonic()
    batches = iter(loader)
    for _pictures, _labels in batches:
        gpu_step(options.step_ms / 1000, options.step)
        now = time.monotonic()
        took_s.append(now - before)
        before = now
        if endless and stop.exists():
            break
    result = {
        "begun": begun,
        "ended": before,
        "samples": len(took_s) * options.batch,
        "batch_s": took_s,
        "workers": options.workers,
        "threads": torch.get_num_threads(),
        "cpus": sorted(os.sched_getaffinity(0)),
    }
    put(options.folder / f"{options.name}.json", result)
    wait_for(options.folder / "fill")
    if not endless:
        # The same workers begin again, and nobody takes what they load.
        batches = iter(loader)
        next(batches)
    put(options.folder / f"{options.name}.filling", {})
    wait_for(options.folder / "release")


if __name__ == "__main__":
    main()
