"""How long a command takes that has little to do, as multiples of `python -c pass`, with the same interpreter.

Usage: .venv/bin/python scripts/bench/startup.py [ROUNDS]. Uses DOCKER_HOST, or as root starts an engine of its own.
Exit 1: a target is missed.
"""

from __future__ import annotations

import sys

from machine import place
from rounds import MIGCTL, Case, command, line, rotate, table, timed


def main(rounds: int) -> int:
    with place() as environ:
        timed([*MIGCTL, "up", "compose/plans/seven.yaml"], environ)
        cases = [
            Case("python -c pass", command(sys.executable, "-c", "pass", environ=environ)),
            Case("migctl --version", command(*MIGCTL, "--version", environ=environ)),
            Case("migctl --help", command(*MIGCTL, "--help", environ=environ)),
            Case("migctl status, 7 containers", command(*MIGCTL, "status", environ=environ)),
            Case("migctl status --json", command(*MIGCTL, "status", "--json", environ=environ)),
        ]
        rotate(cases, rounds)
    table(cases)
    nothing, version, help_text, status, _ = cases
    good = [
        line("migctl --version / python -c pass", version.wall_s / nothing.wall_s, 9),
        line("migctl status / python -c pass", status.wall_s / nothing.wall_s, 20),
    ]
    print(f"      for comparison: migctl --help / python -c pass: {help_text.wall_s / nothing.wall_s:.1f} ×")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
