"""The guide's ways to run the same jobs, side by side and in its order of effort."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.core.allocation import Allocation
from migctl.core.choices import Strategy
from migctl.core.cpu.workers import cores_per_job
from migctl.core.gpu.mig import Gpu
from migctl.core.views.plan import Way


def ways(allocation: Allocation, gpus: Sequence[Gpu], jobs: int) -> tuple[Way, ...]:
    """Compare: fewer workers and a smaller batch on the shared GPU, one after another, MIG.

    Args:
        allocation: the answer for the plan's own strategy.
        gpus: the selected ones.
        jobs: how many the plan has.
    """
    cores = max(1, len(allocation.pool.cores))
    memory = min(gpu.memory_mib for gpu in gpus)
    each_gpu = -(-jobs // len(gpus))
    shared = cores_per_job(cores, jobs)
    alone = cores_per_job(cores, 1)
    found = [
        Way(
            name="shared GPU",
            at_once=jobs,
            cores=shared,
            num_workers=shared,
            memory_mib=memory // each_gpu,
            note="all on the whole GPU with few workers and small batches; one job can take the others' memory"
            if any(gpu.mig is None or not gpu.mig.current for gpu in gpus)
            else "all on the whole GPU; not while MIG mode is on",
            chosen=allocation.strategy is Strategy.SHARED,
            possible=not all(gpu.mig is not None and gpu.mig.current for gpu in gpus),
        ),
        Way(
            name="one by one",
            at_once=min(jobs, len(gpus)),
            cores=alone,
            num_workers=alone,
            memory_mib=memory,
            note="one job has everything, the others wait; best where one job fills the GPU",
            chosen=allocation.strategy is Strategy.SEQUENTIAL,
        ),
    ]
    able = any(gpu.mig is not None for gpu in gpus)
    if allocation.strategy is Strategy.MIG and allocation.assignments:
        smallest = min(allocation.assignments, key=lambda a: a.cpu.cores)
        seats = max(a.job.per_instance for a in allocation.assignments)
        found.append(
            Way(
                name="MIG",
                at_once=len(allocation.assignments),
                cores=smallest.cpu.cores,
                num_workers=smallest.cpu.num_workers,
                memory_mib=min(a.memory_mib for a in allocation.assignments),
                note="an instance each, at the same time; memory and compute of each are its own"
                if seats == 1
                else f"up to {seats} jobs on an instance, at the same time; its memory and compute are theirs together",
                chosen=True,
            )
        )
    elif not able:
        found.append(
            Way(
                name="MIG",
                at_once=0,
                cores=0,
                num_workers=0,
                memory_mib=None,
                note="this GPU has no MIG",
                possible=False,
            )
        )
    return tuple(found)
