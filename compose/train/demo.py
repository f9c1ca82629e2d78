"""A training without a GPU library: loader workers decode, the GPU is a timer; the shape of a real training, in seconds.

It reads what migctl hands to every job: how many workers to start (MIGCTL_NUM_WORKERS) and the size of its GPU instance
(MIGCTL_PROFILE). SIGTERM writes a checkpoint; the next start goes on from there.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
import zlib
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path

RECORD = zlib.compress(b"".join(n.to_bytes(4, "little") for n in range(100_000)))
RECORDS_PER_BATCH = 10
GPU_STEP_S = 0.10
"""What one step takes on one compute slice; a GPU instance with n of them needs a nth of it."""
PREFETCH = 2
"""Batches that each worker keeps ready, as PyTorch's loader does."""


asked_to_stop = threading.Event()


def load_batch(number: int) -> int:
    """Decode the records of one batch: real CPU work, as decoding images is."""
    return sum(zlib.crc32(zlib.decompress(RECORD), number) for _ in range(RECORDS_PER_BATCH))


def train_step(batch: int, slices: int, state: float) -> float:
    """Pretend to be the GPU: take its time, and change the state by the batch."""
    time.sleep(GPU_STEP_S / slices)
    return 0.98 * state + 0.02 * (batch % 1000) / 1000


def worker_start() -> None:
    """Workers die with SIGTERM and leave Ctrl-C to the main process."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--lr", type=float, default=0.1, help="shown, and nothing else: there is no model here")
    parser.add_argument("--workers", type=int, default=int(os.environ.get("MIGCTL_NUM_WORKERS", "1")))
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint.json"))
    return parser.parse_args()


def train(options: argparse.Namespace, loader: ProcessPoolExecutor | None) -> bool:
    """All steps from the checkpoint on, with a line of speed now and then; whether it came to the end."""
    name, profile = os.environ.get("MIGCTL_JOB", "demo"), os.environ.get("MIGCTL_PROFILE", "")
    slices = int(found[0]) if (found := re.match(r"\d+", profile)) else 7
    step, state = 0, 1.0
    if options.checkpoint.exists():
        saved = json.loads(options.checkpoint.read_text("utf-8"))
        step, state = saved["step"], saved["state"]
        print(f"{name}: goes on at step {step}", flush=True)
    print(
        f"{name}: {profile or 'whole GPU'}, {options.workers} workers, CPUs {sorted(os.sched_getaffinity(0))}",
        flush=True,
    )

    first, begun = step, time.monotonic()
    ready: list[Future[int]] = []
    while step < options.steps and not asked_to_stop.is_set():
        while loader and len(ready) < PREFETCH * options.workers and step + len(ready) < options.steps:
            ready.append(loader.submit(load_batch, step + len(ready)))
        batch = ready.pop(0).result() if loader else load_batch(step)
        state = train_step(batch, slices, state)
        step += 1
        if step % max(1, options.steps // 4) == 0:
            speed = (step - first) / (time.monotonic() - begun)
            print(f"{name}: step {step}/{options.steps}, loss {state:.3f}, {speed:.1f} steps/s", flush=True)
    if step < options.steps:
        draft = options.checkpoint.with_suffix(".new")
        draft.write_text(json.dumps({"step": step, "state": state}), "utf-8")
        draft.replace(options.checkpoint)
        print(f"{name}: stopped at step {step}, checkpoint in {options.checkpoint}", flush=True)
        return False
    options.checkpoint.unlink(missing_ok=True)
    return True


def main() -> int:
    """Train; 143 after SIGTERM, as shells count."""
    options = arguments()
    signal.signal(signal.SIGTERM, lambda _number, _frame: asked_to_stop.set())
    loader = None
    if options.workers > 0:
        fork = multiprocessing.get_context("fork")
        loader = ProcessPoolExecutor(options.workers, mp_context=fork, initializer=worker_start)
    try:
        return 0 if train(options, loader) else 143
    finally:
        if loader:
            loader.shutdown(cancel_futures=True)


if __name__ == "__main__":
    sys.exit(main())
