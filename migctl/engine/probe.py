"""A stand-in for a training: worker processes read files and decode, the main process only counts; needs nothing but Python 3.

It runs by itself, in a container too, and knows nothing of migctl: `python3 probe.py --workers 4 DIR`.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
import zlib
from collections.abc import Iterator

_FILES = 4096
"""Enough that the page cache does not hold them all on most machines."""
_PIECE = 128 * 1024
"""Bytes read for one sample: a photograph of ImageNet's usual size."""
_STAND_IN = zlib.compress(bytes(range(256)) * 4096, 6)
"""What is decoded: a mebibyte, which takes about as long as one photograph."""


def main() -> None:
    """Count samples for ever; a signal ends it, and with it its workers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("folder")
    asked = parser.parse_args()
    files = list(find(asked.folder))
    if not asked.workers:
        tell(iter(lambda: sample(files), 0))
        return
    reading, writing = os.pipe()
    for seed in range(asked.workers):
        if os.fork() == 0:
            os.close(reading)
            work(files, seed, writing)
    os.close(writing)
    tell(iter(lambda: len(os.read(reading, 64)), 0))


def find(folder: str) -> list[str]:
    """Some files below a folder."""
    found: list[str] = []
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [os.path.join(where, name) for name in names]  # noqa: PTH118 -- pathlib would double its start-up time
        if len(found) >= _FILES:
            break
    return found[:_FILES]


def work(files: list[str], seed: int, done: int) -> None:
    """One worker: a byte for every sample, until nobody reads them."""
    random.seed(seed)
    try:
        while True:
            os.write(done, b"." * sample(files))
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(0)


def sample(files: list[str]) -> int:
    """Read and decode one; 1."""
    if files:
        try:
            with open(random.choice(files), "rb", buffering=0) as file:  # noqa: PTH123 -- as above
                zlib.crc32(file.read(_PIECE))
        except OSError:
            pass  # a socket, or gone by now: the decoding counts
    zlib.decompress(_STAND_IN)
    return 1


def tell(finished: Iterator[int]) -> None:
    """Print the progress ten times a second; what is not spent in here is waiting."""
    samples, wait_s, due = 0, 0.0, 0.0
    before = time.monotonic()
    for count in finished:
        now = time.monotonic()
        samples, wait_s = samples + count, wait_s + now - before
        if now >= due:
            due = now + 0.1
            sys.stdout.write(f"migctl: samples={samples} wait={wait_s:.3f}\n")
            sys.stdout.flush()
        before = time.monotonic()


if __name__ == "__main__":
    main()
