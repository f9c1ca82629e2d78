# ruff: noqa: T201 -- as a program it prints figures
"""What others can write, written as nobody would, and read by the product: `python -m tests.support.fuzz --target plan-text`.

Each input follows from the seed, the target's name and its number alone: the message of a failure is enough to see it again.
Whatever the input is, reading it takes no more than a second of CPU and 200 MiB, and what goes wrong is an error of migctl's.
"""

from __future__ import annotations

import argparse
import gc
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import FrameType
from typing import NoReturn

MOST_CPU_S = 1.0
MOST_WALL_S = 20.0
"""For an input that waits instead of computing; a loaded machine makes every input wait."""
MOST_BYTES = 200 << 20
_KIB = 1 << 10
_WARM = 5
Shoot = Callable[[Random], None]
"""Makes one input, hands it to the product, and raises where that does anything but take or refuse it."""


@dataclass(frozen=True, slots=True)
class Target:
    """A place where text or answers of others come in."""

    name: str
    share: int
    """Inputs of each 10,000."""
    open: Callable[[Path], AbstractContextManager[Shoot]]
    """Prepares a folder of its own for as many inputs as are wanted."""


class Found(AssertionError):  # noqa: N818 -- what a test fails with
    """An input that the product does not cope with."""


class TooSlow(BaseException):
    """The second is over."""


def run(target: Target, seed: int, numbers: Iterable[int], folder: Path) -> int:
    """Try these inputs; returns how many they were.

    Raises:
        Found: one of them, with the line that repeats it.
    """
    count = 0
    with target.open(folder) as shoot, _alarms():
        for warm in range(_WARM):
            shoot(Random(f"{seed}/{target.name}/warm/{warm}"))  # modules are loaded when they are first needed
        for number in numbers:
            random = Random(f"{seed}/{target.name}/{number}")
            try:
                _within_limits(shoot, random)
            except (Exception, TooSlow) as error:
                again = f"python -m tests.support.fuzz --target {target.name} --seed {seed} --only {number}"
                raise Found(f"{type(error).__name__}: {error}\n  again: {again}") from error
            count += 1
    return count


def _within_limits(shoot: Shoot, random: Random) -> None:
    before = _resident_bytes()
    _forget_peak()
    began = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
    signal.setitimer(signal.ITIMER_REAL, MOST_WALL_S)
    try:
        shoot(random)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    took = time.process_time() - began
    assert took <= MOST_CPU_S, f"it took {took:.1f} s of CPU"
    grown = _peak_bytes() - before
    assert grown <= MOST_BYTES, f"it took {grown >> 20} MiB"


@contextmanager
def _alarms() -> Iterator[None]:
    def too_slow(number: int, frame: FrameType | None) -> NoReturn:
        raise TooSlow(f"more than {MOST_CPU_S:g} s of CPU" if number == signal.SIGPROF else f"{MOST_WALL_S:g} s")

    earlier = {number: signal.signal(number, too_slow) for number in (signal.SIGPROF, signal.SIGALRM)}
    gc.collect()
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _status(name: str) -> int:
    text = Path("/proc/self/status").read_text()
    return int(text.partition(f"{name}:")[2].split(None, 1)[0]) * _KIB


def _resident_bytes() -> int:
    return _status("VmRSS")


def _peak_bytes() -> int:
    return _status("VmHWM")


def _forget_peak() -> None:
    """The highest use starts anew (proc(5), clear_refs)."""
    with open("/proc/self/clear_refs", "w") as file:  # noqa: PTH123 -- a thousand times a second
        file.write("5")


def campaign(inputs: int, seed: int, names: Iterable[str] = ()) -> int:
    """So many inputs over all targets (or these), by their shares; prints a line for each, returns how many found something."""
    from tests.support.fuzz_targets import TARGETS

    wanted = frozenset(names) or frozenset(TARGETS)
    chosen = [target for name, target in TARGETS.items() if name in wanted]
    whole = sum(target.share for target in chosen)
    failed = 0
    for target in chosen:
        number = max(1, inputs * target.share // whole)
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="migctl-fuzz-") as folder:
            try:
                run(target, seed, range(number), Path(folder))
                told = "nothing found"
            except Found as found:
                failed += 1
                told = str(found)
        took = time.monotonic() - began
        print(f"fuzz {target.name}: {number} inputs, seed {seed}, {took:.0f} s: {told}", flush=True)
    return failed


def main() -> int:
    """One target or all; exit 1 where something was found."""
    from tests.support.fuzz_targets import TARGETS

    ask = argparse.ArgumentParser(prog="python -m tests.support.fuzz", description=__doc__)
    ask.add_argument("--target", choices=sorted(TARGETS), action="append", help="which (all)")
    ask.add_argument("--inputs", type=int, default=10_000, help="in all (10000)")
    ask.add_argument("--seed", type=int, default=secrets.randbelow(2**31), help="printed")
    ask.add_argument("--only", type=int, help="this input alone, with its traceback")
    given = ask.parse_args()
    if given.only is None:
        return 1 if campaign(given.inputs, given.seed, given.target or ()) else 0
    (name,) = given.target
    with tempfile.TemporaryDirectory(prefix="migctl-fuzz-") as folder:
        run(TARGETS[name], given.seed, [given.only], Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
