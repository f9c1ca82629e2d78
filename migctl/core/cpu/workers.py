"""How many loader workers, threads and samples a batch a job's share can carry: the guide's rule and table."""

from __future__ import annotations

from dataclasses import dataclass

from migctl.core.choices import Storage
from migctl.core.words import counted
from migctl.errors import PlanError, Where


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of the guide's recommendation table."""

    cores: int
    """Physical cores of the machine."""
    jobs: int
    """Trainings at the same time."""
    num_workers: int
    """Loader workers of each training."""
    remark: str


GUIDE_TABLE: tuple[TableRow, ...] = (
    TableRow(4, 1, 3, "one core stays for the system and everything else"),
    TableRow(4, 2, 2, "an even split"),
    TableRow(4, 4, 1, "the minimum; input has to be fast"),
    TableRow(8, 1, 7, "one core stays for the system"),
    TableRow(8, 2, 4, "both trainings load the CPU evenly"),
    TableRow(8, 4, 2, "keeps the CPU from becoming the bottleneck"),
    TableRow(8, 8, 1, "many processes: a heavy load for this machine"),
    TableRow(16, 1, 15, "carries large batches"),
    TableRow(16, 2, 8, "for two GPUs, or two trainings on one"),
    TableRow(16, 4, 4, "a stable value to start from"),
    TableRow(16, 8, 2, "needs a fast SSD"),
    TableRow(32, 1, 31, "good for large data sets"),
    TableRow(32, 4, 8, "a common setting on compute servers"),
    TableRow(32, 8, 4, "tune the input along with it"),
    TableRow(32, 16, 2, "the least that is advisable"),
)
"""The appendix of the guide that migctl implements; remarks in our words."""


def reserved_cores(jobs: int, reserve: int | None) -> int:
    """Cores kept for the system: as asked, else one beside a single job and none beside several (the guide's table)."""
    if reserve is not None:
        return reserve
    return 1 if jobs == 1 else 0


def cores_per_job(cores: int, jobs: int, reserve: int | None = None) -> int:
    """Physical cores for each of `jobs` equal jobs that run at the same time; at least 1.

    Args:
        cores: physical cores in the pool.
        jobs: jobs at the same time, at least 1.
        reserve: cores to keep for the system; `None` = by the guide.

    Raises:
        ValueError: less than one job.
    """
    if jobs < 1:
        raise ValueError(f"{jobs} jobs cannot share cores")
    return max(1, (cores - reserved_cores(jobs, reserve)) // jobs)


def num_workers(cores: int, logical: int, storage: Storage | None, *, smt: bool) -> int:
    """Loader workers for a cpuset: its physical cores, more on NVMe, fewer on a hard disk.

    Args:
        cores: physical cores of the cpuset.
        logical: logical CPUs of the cpuset.
        storage: where the data lie; `ssd` and `None` (not told, or not found) change nothing, nor does `auto` by itself.
        smt: whether its cores have several hardware threads.
    """
    match storage:
        case Storage.NVME if smt:
            return min(logical, -(-cores * 5 // 4))
        case Storage.NVME:
            # Without a second hardware thread there is no spare one to fill: a single worker more hides the waits.
            return cores + 1 if cores >= 4 else cores
        case Storage.HDD:
            return max(1, cores // 2)
        case Storage.SSD | Storage.AUTO | None:
            return cores


def threads(cores: int, workers: int) -> int:
    """Threads for numeric libraries in each process, so that workers × threads stay within the cores; at least 1."""
    return max(1, cores // max(1, workers))


def remark(cores: int, jobs: int, reserve: int | None = None) -> str:
    """What to know about `jobs` trainings on `cores` physical cores: the guide's remark where its table has the row."""
    if reserve is None:
        for row in GUIDE_TABLE:
            if (row.cores, row.jobs) == (cores, jobs):
                return row.remark
    if jobs > cores:
        return f"more trainings than cores: two and more share a core; {cores} at a time would have one each"
    share = cores_per_job(cores, jobs, reserve)
    left = cores - share * jobs
    if left < 0:
        return "too few cores for the reserve: every training still gets one"
    kept = "nothing is left for the system" if left == 0 else f"{counted(left, 'core')} left over"
    return f"the minimum; input has to be fast; {kept}" if share == 1 else kept


def batch_size(
    reference: int,
    reference_mib: int,
    memory_mib: int,
    fixed_mib: int = 1536,
    *,
    where: Where | str | None = None,
) -> int:
    """Scale a batch size to a smaller (or larger) GPU memory: floor(B·(m−f)/(M−f)).

    Args:
        reference: batch size B that is known to fit in `reference_mib` (M).
        reference_mib: GPU memory of that measurement.
        memory_mib: GPU memory m of the instance.
        fixed_mib: what does not grow with the batch, f: CUDA context, weights, optimizer.
        where: place in the plan, for the error.

    Raises:
        PlanError: nothing is left beside the fixed part, here or in the reference.
    """
    if reference_mib <= fixed_mib:
        raise PlanError(
            "batch-reference-too-small",
            f"batch_size_memory ({reference_mib} MiB) is not more than batch_fixed_memory ({fixed_mib} MiB), so the "
            "memory of one sample cannot be told",
            where=where,
            hint="give the GPU memory with which batch_size was found to fit, or a smaller batch_fixed_memory",
        )
    size = reference * (memory_mib - fixed_mib) // (reference_mib - fixed_mib)
    if memory_mib <= fixed_mib or size < 1:
        raise PlanError(
            "batch-does-not-fit",
            f"no batch fits: the instance has {memory_mib} MiB, of which {fixed_mib} MiB are fixed (batch_fixed_memory), "
            f"and one sample takes about {(reference_mib - fixed_mib) / reference:.0f} MiB",
            where=where,
            hint="a larger profile, or a smaller batch_fixed_memory",
            data={"memory_mib": memory_mib, "fixed_mib": fixed_mib},
        )
    return size
