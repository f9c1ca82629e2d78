"""How long two pure parts take: 64 jobs on 256 CPUs, and 10,000 queued jobs read back; CPU milliseconds, best of ten.

python scripts/bench/parts.py
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from migctl.core.choices import CpuSplit, Numa
from migctl.core.cpu.cpus import CpuDemand, assign
from migctl.core.cpu.pool import make_pool
from migctl.core.cpu.topology import uniform_topology
from migctl.core.runs.record import JobState, Record
from migctl.store.ledger import Ledger


def best_ms(work: Callable[[], object], rounds: int = 10) -> float:
    """CPU time of the fastest round."""
    times = []
    for _ in range(rounds):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return 1000 * min(times)


def assignment() -> float:
    """64 jobs of three sizes on 128 cores with two threads each."""
    topology = uniform_topology(128, 2)
    pool = make_pool(topology, affinity=topology.online, engine=None, claimed={}, foreign=())
    demands = [CpuDemand(job=f"j{n}", compute_slices=1 + n % 3) for n in range(64)]
    return best_ms(
        lambda: assign(
            demands,
            pool,
            topology,
            reserve_cores=None,
            cpu_split=CpuSplit.SLICES,
            numa=Numa.PREFER,
            oversubscribe=False,
            max_parallel=None,
        )
    )


def reading() -> float:
    """10,000 queued jobs."""
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        queued = [
            Record(
                run="sweep",
                job=f"job-{n}",
                token=f"{n:016x}",
                runtime="process",
                strategy="mig",
                state=JobState.QUEUED,
                digest="d",
                spec="{}",
                revision=1,
            )
            for n in range(10_000)
        ]
        with Ledger.open(state, write=True, now=time.time) as ledger:
            ledger.save(queued, durable=True)

        def read() -> None:
            with Ledger.open(state, write=False, now=time.time) as again:
                assert len(again.records("sweep")) == 10_000

        return best_ms(read, rounds=3)


for name, value, target in (
    ("assign 64 jobs on 256 CPUs", assignment(), 10),
    ("read 10,000 queued jobs", reading(), 500),
):
    print(f"{name:<30} {value:8.1f} ms   target {target} ms   {'ok' if value < target else 'MISS'}")
