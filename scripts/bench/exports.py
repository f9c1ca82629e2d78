"""How long 1,000 jobs take to be written for each tool, reading of the plan left out; CPU milliseconds, best of three.

python scripts/bench/exports.py
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from migctl import planfile
from migctl.core.plan import Plan
from tests.support import exports

TARGET_MS = 2000
ONE_ARRAY = f"matrix: {{lr: [0.1, 0.2, 0.3, 0.4], seed: [{', '.join(map(str, range(250)))}]}}"
PLANS = {
    "1,000 jobs of one array": f"jobs: {{a: {{image: i, profile: 1g.5gb, {ONE_ARRAY}, "
    "command: 'x ${matrix.lr} ${matrix.seed}', environment: {LR: '${matrix.lr}'}}}",
    "1,000 different jobs": "jobs:\n"
    + "".join(
        f"  j{n}: {{image: i, profile: 1g.5gb, stop_grace_period: {n + 1}s, command: x {n}}}\n" for n in range(1000)
    ),
}
WRITERS: dict[str, Callable[[Plan], object]] = {
    "slurm": exports.slurm_text,
    "kubernetes": exports.kubernetes,
    "compose": exports.compose,
    "shell": exports.shell,
    "mig-parted": exports.mig_parted,
}


def best_ms(work: Callable[[], object], rounds: int = 3) -> float:
    """CPU time of the fastest round."""
    times = []
    for _ in range(rounds):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return 1000 * min(times)


for what, text in PLANS.items():
    plan = planfile.loads(f"kubernetes: {{mig_strategy: mixed}}\n{text}", "plan.yaml", Path("/"), {})
    for name, write in WRITERS.items():
        value = best_ms(lambda write=write, plan=plan: write(plan))
        print(
            f"{what:<25} {name:<12} {value:8.0f} ms   target {TARGET_MS} ms   {'ok' if value < TARGET_MS else 'MISS'}"
        )
