import pytest

from migctl.core.choices import Storage
from migctl.core.cpu.workers import GUIDE_TABLE, TableRow, batch_size, cores_per_job, num_workers, remark, threads
from migctl.errors import PlanError

# The guide's appendix, copied by hand from the guide and not from the code: cores, jobs, workers.
APPENDIX = [
    (4, 1, 3),
    (4, 2, 2),
    (4, 4, 1),
    (8, 1, 7),
    (8, 2, 4),
    (8, 4, 2),
    (8, 8, 1),
    (16, 1, 15),
    (16, 2, 8),
    (16, 4, 4),
    (16, 8, 2),
    (32, 1, 31),
    (32, 4, 8),
    (32, 8, 4),
    (32, 16, 2),
]


@pytest.mark.parametrize(("cores", "jobs", "workers"), APPENDIX)
def test_every_row_of_the_guides_table_is_what_the_rule_gives(cores: int, jobs: int, workers: int) -> None:
    share = cores_per_job(cores, jobs)

    assert num_workers(share, 2 * share, None, smt=True) == workers
    assert num_workers(share, share, None, smt=False) == workers


def test_the_table_as_data_is_the_guides() -> None:
    assert [(row.cores, row.jobs, row.num_workers) for row in GUIDE_TABLE] == APPENDIX


@pytest.mark.parametrize("row", GUIDE_TABLE)
def test_every_row_has_its_remark(row: TableRow) -> None:
    assert remark(row.cores, row.jobs) == row.remark
    assert row.remark.isascii()


@pytest.mark.parametrize(
    ("cores", "jobs", "reserve", "expected"),
    [
        (16, 4, 1, 3),
        (16, 4, 0, 4),
        (16, 1, 0, 16),
        (16, 1, 2, 14),
        (1, 1, None, 1),
        (6, 7, None, 1),
        (4, 2, 99, 1),
        (56, 7, None, 8),
    ],
)
def test_cores_of_each_job(cores: int, jobs: int, reserve: int | None, expected: int) -> None:
    assert cores_per_job(cores, jobs, reserve) == expected


def test_no_job_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="0 jobs"):
        cores_per_job(4, 0)


@pytest.mark.parametrize(
    ("cores", "logical", "storage", "expected"),
    [
        (4, 8, None, 4),
        (4, 8, Storage.SSD, 4),
        (4, 8, Storage.AUTO, 4),
        (1, 2, Storage.NVME, 2),
        (2, 4, Storage.NVME, 3),
        (4, 8, Storage.NVME, 5),
        (7, 14, Storage.NVME, 9),
        (8, 16, Storage.NVME, 10),
        (12, 14, Storage.NVME, 14),  # P- and E-cores: never above the logical CPUs
        (3, 3, Storage.NVME, 3),
        (4, 4, Storage.NVME, 5),
        (16, 16, Storage.NVME, 17),
        (1, 1, Storage.NVME, 1),
        (8, 16, Storage.HDD, 4),
        (7, 14, Storage.HDD, 3),
        (1, 2, Storage.HDD, 1),
    ],
)
def test_storage_moves_the_number_of_workers(cores: int, logical: int, storage: Storage | None, expected: int) -> None:
    assert num_workers(cores, logical, storage, smt=logical > cores) == expected


@pytest.mark.parametrize(
    ("cores", "workers", "expected"), [(8, 8, 1), (8, 4, 2), (8, 3, 2), (8, 0, 8), (1, 0, 1), (4, 5, 1), (1, 1, 1)]
)
def test_threads_of_each_process(cores: int, workers: int, expected: int) -> None:
    assert threads(cores, workers) == expected


@pytest.mark.parametrize(
    ("cores", "jobs", "word"),
    [(6, 7, "share a core"), (12, 5, "2 cores left over"), (12, 4, "nothing is left"), (10, 10, "minimum")],
)
def test_other_sizes_have_a_remark_too(cores: int, jobs: int, word: str) -> None:
    assert word in remark(cores, jobs)


def test_with_another_reserve_the_guides_remark_does_not_apply() -> None:
    assert remark(16, 4, 1) == "4 cores left over"


@pytest.mark.parametrize(
    ("memory", "expected"),
    [(40960, 256), (20480, 123), (9856, 54), (5120, 23), (81920, 521), (1537 + 1536, 9)],
)
def test_batch_scales_with_memory_beside_the_fixed_part(memory: int, expected: int) -> None:
    assert batch_size(256, 40960, memory, 1536) == expected
    assert batch_size(256, 40960, memory, 1536) == 256 * (memory - 1536) // (40960 - 1536)


@pytest.mark.parametrize(
    ("reference", "reference_mib", "memory", "fixed", "kind"),
    [
        (256, 40960, 1536, 1536, "batch-does-not-fit"),
        (256, 40960, 1000, 1536, "batch-does-not-fit"),
        (1, 40960, 20480, 1536, "batch-does-not-fit"),
        (256, 1536, 20480, 1536, "batch-reference-too-small"),
    ],
)
def test_no_batch_at_all_is_refused(reference: int, reference_mib: int, memory: int, fixed: int, kind: str) -> None:
    with pytest.raises(PlanError) as caught:
        batch_size(reference, reference_mib, memory, fixed, where="job a")

    assert caught.value.id == kind
    assert caught.value.where == "job a"
    assert caught.value.hint
