"""A training that is slow where it is told to be; needs nothing but Python. Started as a job, it reports as one should."""

from __future__ import annotations

import argparse
import mmap
import os
import sys
import time
from pathlib import Path

_PIECE = 1 << 20
_FILE = 64 * _PIECE


def main() -> None:
    ask = argparse.ArgumentParser()
    ask.add_argument("--workers", type=int, default=1)
    ask.add_argument("--load-cpu", type=float, default=0.0, help="CPU seconds a sample takes to load")
    ask.add_argument("--load-disk", default="", help="file that samples are read from, past the page cache")
    ask.add_argument(
        "--step", type=float, default=0.01, help="seconds that the training step takes, on a GPU that is not here"
    )
    ask.add_argument("--cgroup", default="", help="folders of cgroups to enter first, with commas between them")
    ask.add_argument("--narrow", action="store_true", help="bind everything to one CPU, as some imports do")
    ask.add_argument("--silent", action="store_true", help="report nothing")
    ask.add_argument(
        "--nice", type=int, default=-20, help="what else this machine does is not to be seen, where allowed"
    )
    given = ask.parse_args()
    for folder in filter(None, given.cgroup.split(",")):
        Path(folder, "cgroup.procs").write_text(str(os.getpid()), "ascii")
    try:
        os.nice(given.nice)
        Path("/proc/self/autogroup").write_text(
            str(given.nice), "ascii"
        )  # where sessions share CPUs, it is theirs that counts
    except OSError:
        pass  # only root may, and not every kernel has it
    if given.load_disk:
        make(Path(given.load_disk))
    if given.narrow:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    ready, filled = os.pipe()
    room, emptied = os.pipe()
    os.write(emptied, b"." * 2 * given.workers)  # batches fetched ahead
    for _ in range(given.workers):
        if os.fork() == 0:
            os.close(ready)
            os.close(emptied)
            load(given, room, filled)
    os.close(filled)
    os.close(room)
    train(given, ready, emptied)


def load(given: argparse.Namespace, room: int, filled: int) -> None:
    """In a worker: a sample for every free place, until the training is gone."""
    disk = os.open(given.load_disk, os.O_RDONLY | os.O_DIRECT) if given.load_disk else -1
    space, offset = mmap.mmap(-1, _PIECE), os.getpid() % 64 * _PIECE  # O_DIRECT wants aligned memory, which this is
    while os.read(room, 1):
        end = time.thread_time() + given.load_cpu
        while time.thread_time() < end:
            pass
        if disk >= 0:
            offset = (offset + _PIECE) % _FILE
            os.preadv(disk, [space], offset)
        try:
            os.write(filled, b".")
        except BrokenPipeError:
            break
    os._exit(0)


def train(given: argparse.Namespace, ready: int, emptied: int) -> None:
    """In the main process: take a sample, compute, report."""
    samples, waited, told = 0, 0.0, 0.0
    while True:
        begun = time.monotonic()
        if not os.read(ready, 1):
            sys.exit("the workers have ended")
        waited += time.monotonic() - begun
        os.write(emptied, b".")
        time.sleep(given.step)
        samples += 1
        if not given.silent and time.monotonic() - told >= 0.1:
            told = time.monotonic()
            os.write(1, f"migctl: samples={samples} wait={waited:.3f}\n".encode())


def make(path: Path) -> None:
    """The file, once."""
    if path.exists() and path.stat().st_size == _FILE:
        return
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    with draft.open("wb") as file:
        file.writelines(b"\1" * _PIECE for _ in range(_FILE // _PIECE))
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)


if __name__ == "__main__":
    main()
