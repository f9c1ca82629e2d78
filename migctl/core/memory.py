"""Whether what runs together can be too much for the machine's memory."""

from __future__ import annotations

from collections.abc import Sequence

from migctl.core.allocation import Assignment
from migctl.errors import Notice


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


def _shm_mib(assignment: Assignment) -> int:
    """Only what was asked for counts: a default is a limit that few trainings reach."""
    return (assignment.job.shm_size_bytes or 0) >> 20
