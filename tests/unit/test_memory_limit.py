"""`mem_limit: auto`: of RAM the part that the job has of the logical CPUs."""

from __future__ import annotations

import pytest

from migctl.core.memory import auto_limit_bytes, with_memory_limit
from migctl.core.plan import Job

GIB = 1 << 30


def job(*, auto: bool, limit: int | None = None) -> Job:
    return Job(name="a", origin="a", mem_limit_auto=auto, mem_limit_bytes=limit)


@pytest.mark.parametrize(
    ("cpus", "machine_cpus", "total_gib", "gib"),
    [
        (8, 32, 128, 32),
        (32, 32, 128, 128),
        (1, 2, 24, 12),
        (4, 2, 24, 24),  # records of another machine: never more than there is
    ],
)
def test_auto_is_the_part_of_ram_that_the_job_has_of_the_cpus(
    cpus: int, machine_cpus: int, total_gib: int, gib: int
) -> None:
    assert auto_limit_bytes(cpus, machine_cpus, total_gib << 10) == gib * GIB
    assert with_memory_limit(job(auto=True), cpus, machine_cpus, total_gib << 10).mem_limit_bytes == gib * GIB


def test_only_auto_is_filled_in_and_only_where_ram_is_known() -> None:
    assert with_memory_limit(job(auto=False), 8, 32, 1 << 17).mem_limit_bytes is None
    assert with_memory_limit(job(auto=False, limit=GIB), 8, 32, 1 << 17).mem_limit_bytes == GIB
    assert with_memory_limit(job(auto=True), 8, 32, None).mem_limit_bytes is None
