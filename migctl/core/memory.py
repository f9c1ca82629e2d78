"""The machine's memory: the limit of a job that says `auto`, and whether what runs together can be too much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from migctl.errors import Notice

if TYPE_CHECKING:  # what only looks at ended jobs plans nothing
    from migctl.core.allocation import Assignment
    from migctl.core.plan import Job


def memory_notices(assignments: Sequence[Assignment], total_mib: int | None) -> tuple[Notice, ...]:
    """Warn where shared memory and limits of all jobs together exceed half of the machine's memory, or all of it.

    Args:
        assignments: the jobs that run at the same time.
        total_mib: RAM; `None` = unknown, nothing is said.
    """
    if total_mib is None:
        return ()
    notices: list[Notice] = []
    for what, mib, hint in (
        ("/dev/shm", sum(_shm_mib(a) for a in assignments), "shm_size"),
        ("mem_limit", sum((a.job.mem_limit_bytes or 0) >> 20 for a in assignments), "mem_limit"),
    ):
        if mib > total_mib:
            much = "more than the machine has"
        elif mib > total_mib // 2:
            much = "more than half of what the machine has"
        else:
            continue
        notices.append(
            Notice(
                "memory-overcommitted",
                f"{what} of all jobs together can reach {mib / 1024:.0f} GiB: {much} ({total_mib / 1024:.0f} GiB)",
                hint=f"{hint}: less, or fewer jobs at once",
            )
        )
    return tuple(notices)


def auto_limit_bytes(cpus: int, machine_cpus: int, total_mib: int) -> int:
    """What `mem_limit: auto` means for a job with so many of the machine's logical CPUs: the same part of RAM."""
    return (total_mib << 20) * min(cpus, machine_cpus) // machine_cpus


def with_memory_limit(job: Job, cpus: int, machine_cpus: int, total_mib: int | None) -> Job:
    """The job with its limit in bytes, also where it says `auto`; without one where RAM is not known."""
    if not job.mem_limit_auto or total_mib is None:
        return job
    return replace(job, mem_limit_bytes=auto_limit_bytes(cpus, machine_cpus, total_mib))


def _shm_mib(assignment: Assignment) -> int:
    """Only what was asked for counts: a default is a limit that few trainings reach."""
    return (assignment.job.shm_size_bytes or 0) >> 20
