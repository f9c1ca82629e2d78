"""How long `migctl up --engine slurm` of 1,000 jobs takes beside one `sbatch --array` of as many, on a real Slurm of its own.

    python scripts/bench/slurm.py [--jobs 1000] [--rounds 5]

Both hand over to the same slurmctld, in turn, so that what else the machine does concerns both; the jobs are held, so that
nothing runs meanwhile. Wall times in milliseconds, median. Exit 1: more than 1.3 × one sbatch + 1 s.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.support.program import Program  # noqa: E402 -- the checkout is on the path only now
from tests.support.slurm import Cluster, missing  # noqa: E402 -- as above


def taken_ms(words: list[str], program: Program) -> float:
    """Wall time of a command that must succeed."""
    begin = time.monotonic()
    done = subprocess.run(words, env=program.environ, cwd=program.folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{words}: {done.stdout}{done.stderr}")
    return 1000 * (time.monotonic() - begin)


def main() -> int:
    """Measure, print, and tell by the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    if gone := missing():
        sys.exit(f"not on this machine: {', '.join(gone)} (scripts/packages installs them)")
    cluster = Cluster({"mig1": {"1g.5gb": 7}}, config=["MaxArraySize=20000", "MaxJobCount=50000"])
    cluster.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            program = Program(Path(folder), **{**cluster.environ, "MIGCTL_NVML": ""})
            program.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program is compiled
            program.plan(
                "name: bench\nruntime: process\nengine: slurm\nslurm: {options: [--hold]}\n"
                f"jobs: {{a: {{profile: 1g.5gb, matrix: {{n: [{','.join(map(str, range(asked.jobs)))}]}}, "
                "command: 'true ${matrix.n}'}}\n"
            )
            ours: list[float] = []
            theirs: list[float] = []
            array = f"--array=0-{asked.jobs - 1}"
            up = [sys.executable, "-m", "migctl", "up"]
            for number in range(asked.rounds + 1):
                one = taken_ms(
                    ["sbatch", "--hold", array, "--gres=gpu:1g.5gb:1", "--output=/dev/null", "--wrap=true"], program
                )
                cluster.ask("scancel", "--me")
                two = taken_ms(up, program)
                program.run("down", "--timeout", "0").ended(0)
                if number:  # the first round loads both from the disk
                    theirs.append(one)
                    ours.append(two)
    finally:
        cluster.stop()
    one, two = statistics.median(theirs), statistics.median(ours)
    target = 1.3 * one + 1000
    print(
        f"{asked.jobs} jobs: one sbatch --array {one:.0f} ms, migctl up {two:.0f} ms, target {target:.0f} ms", end="   "
    )
    print("ok" if two <= target else "MISS")
    return 0 if two <= target else 1


if __name__ == "__main__":
    sys.exit(main())
