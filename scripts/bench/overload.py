"""The proof: real PyTorch trainings at once on this machine, run naively, carefully by hand, and by `migctl up`.

The same work in all arrangements, in rotated order, medians of the rounds. Needs what compose/train needs, and OpenCV:
    pip install --group bench && python scripts/bench/overload.py [--quick] [--rounds N] [--only KEY] [--readme]
About 20 minutes on two quiet cores; --quick takes a few. Exit 1: a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from overload_cases import Situation, situations
from overload_report import Machine, Measured, summary, targets, write_docs
from overload_runs import Outcome, measure, missing_libraries, physical_cores


def processor() -> str:
    """The model's name."""
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def machine(cores: int, rounds: int) -> Machine:
    """Where and when."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return Machine(
        processor=processor(),
        cores=cores,
        logical=os.cpu_count() or cores,
        memory_gib=round(memory),
        kernel=platform.release().split("-")[0],
        python=platform.python_version(),
        date=time.strftime("%Y-%m-%d"),
        rounds=rounds,
    )


def run_all(chosen: Sequence[Situation], rounds: int, keep: Callable[[list[Measured]], None]) -> list[Measured]:
    """Every arrangement once a round; each round begins with another, and so does each situation.

    What there is so far is kept after each round: a later failure costs only the round.
    """
    measured = [Measured(s.key, a.key, a.label) for s in chosen for a in s.arrangements]
    by_key = {(one.situation, one.arrangement): one for one in measured}
    for number in range(rounds):
        for at in range(len(chosen)):
            situation = chosen[(at + number) % len(chosen)]
            for offset in range(len(situation.arrangements)):
                arrangement = situation.arrangements[(offset + number) % len(situation.arrangements)]
                one = by_key[situation.key, arrangement.key]
                outcome = measure(situation, arrangement)
                one.outcomes.append(outcome)
                tell(number, situation, arrangement.label, outcome)
        keep(measured)
    return measured


def tell(number: int, situation: Situation, label: str, outcome: Outcome) -> None:
    """A line on stderr for whoever waits."""
    print(
        f"round {number + 1}  {situation.key:<16} {label:<36} {outcome.done_s:6.2f} s {outcome.total_per_s:7.0f}/s  "
        f"watched {outcome.watched_per_s:6.0f}/s  p95 {outcome.p95_ms:5.0f} ms  others {outcome.others:4.0%}",
        file=sys.stderr,
        flush=True,
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one round, less work: does it run at all?")
    parser.add_argument("--only", action="append", default=[], metavar="KEY", help="situations whose key begins so")
    parser.add_argument("--scale", type=float, default=1.0, help="more or less work for each training")
    parser.add_argument(
        "--readme", action="store_true", help="rewrite the README's table and picture, and docs/overload.md"
    )
    parser.add_argument("--save", type=Path, help="the figures of every round, as JSON")
    parser.add_argument("--load", type=Path, help="do not measure: take these figures")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    # As Ctrl-C does: on the way out the trainings that run are ended.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    if options.load:
        saved = json.loads(options.load.read_text("utf-8"))
        here = Machine(**saved["machine"])
        measured = [Measured.of(one) for one in saved["measured"]]
    else:
        if missing := missing_libraries():
            sys.exit(f"not installed: {', '.join(missing)} (pip install --group bench)")
        rounds, scale = (1, 0.25 * options.scale) if options.quick else (options.rounds, options.scale)
        here = machine(physical_cores(), rounds)
        chosen = [
            situation
            for situation in situations(here.cores, here.logical, scale)
            if not options.only or any(situation.key.startswith(key) for key in options.only)
        ]
        if not chosen:
            sys.exit(f"no situation is called {' or '.join(options.only)}")

        def keep(measured: list[Measured]) -> None:
            if options.save:
                saved = {"machine": asdict(here), "measured": [asdict(one) for one in measured]}
                options.save.write_text(json.dumps(saved), "utf-8")

        measured = run_all(chosen, rounds, keep)
    titles = {situation.key: situation for situation in situations(here.cores, here.logical, 1)}
    print(summary(here, measured, titles))
    reached = targets(measured)
    for line in reached:
        print(line.text)
    if options.readme:
        write_docs(here, measured, titles)
    return 0 if all(line.good for line in reached) else 1


if __name__ == "__main__":
    sys.exit(main())
