import pytest

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.handover import (
    GIB,
    HANDED,
    THREAD_VARIABLES,
    environment,
    resolve,
    shm_size_bytes,
)
from migctl.errors import PlanError

MIG = "MIG-4f2a0e2c-1111-5222-8333-444455556666"


def handed(**changes: object) -> dict[str, str]:
    known: dict[str, object] = {
        "run": "sweep",
        "job": "sweep-lr0.1",
        "attempt": 2,
        "cpus": CpuSet.parse("0-3,8-11"),
        "num_workers": 4,
        "threads": 1,
        "profile": "1g.5gb",
        "memory_mib": 4864,
        "mig_uuid": MIG,
        "gpu_uuid": "GPU-1",
        "batch_size": None,
        "user": {},
        "container": True,
    }
    return dict(environment(**{**known, **changes}))  # type: ignore[arg-type]  # a table of keyword arguments


def test_a_job_is_told_its_share() -> None:
    assert {name: value for name, value in handed(batch_size=64).items() if name.startswith("MIGCTL_")} == {
        "MIGCTL_RUN": "sweep",
        "MIGCTL_JOB": "sweep-lr0.1",
        "MIGCTL_ATTEMPT": "2",
        "MIGCTL_NUM_WORKERS": "4",
        "MIGCTL_CPUS": "8",
        "MIGCTL_CPUSET": "0-3,8-11",
        "MIGCTL_GPU_MEMORY_MIB": "4864",
        "MIGCTL_PROFILE": "1g.5gb",
        "MIGCTL_MIG_UUID": MIG,
        "MIGCTL_BATCH_SIZE": "64",
    }


def test_every_name_that_is_handed_over_is_documented() -> None:
    assert {name for name in handed(batch_size=1) if name.startswith("MIGCTL_")} == set(HANDED)


@pytest.mark.parametrize("name", THREAD_VARIABLES)
def test_thread_pools_are_limited_and_the_users_value_wins(name: str) -> None:
    assert handed(threads=3)[name] == "3"
    assert name not in handed(threads=3, user={name: "7"})


def test_python_is_told_the_number_of_its_cpus_unless_the_user_tells_it() -> None:
    assert handed()["PYTHON_CPU_COUNT"] == "8"
    assert "PYTHON_CPU_COUNT" not in handed(user={"PYTHON_CPU_COUNT": "1"})


def test_in_a_container_cuda_visible_devices_stays_unset() -> None:
    assert "CUDA_VISIBLE_DEVICES" not in handed()


@pytest.mark.parametrize(("mig", "expected"), [(MIG, MIG), (None, "GPU-1")])
def test_a_process_sees_exactly_its_device(mig: str | None, expected: str) -> None:
    assert handed(container=False, mig_uuid=mig)["CUDA_VISIBLE_DEVICES"] == expected


def test_under_shared_profile_and_instance_are_empty_and_unknown_memory_is_not_told() -> None:
    told = handed(profile=None, mig_uuid=None, memory_mib=None)

    assert (told["MIGCTL_PROFILE"], told["MIGCTL_MIG_UUID"]) == ("", "")
    assert "MIGCTL_GPU_MEMORY_MIB" not in told
    assert "MIGCTL_BATCH_SIZE" not in told


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--workers ${MIGCTL_NUM_WORKERS}", "--workers 4"),
        ("${MIGCTL_NUM_WORKERS}${MIGCTL_CPUS}", "48"),
        ("$MIGCTL_CPUS ${HOME} ${matrix.lr} $$", "$MIGCTL_CPUS ${HOME} ${matrix.lr} $$"),
        ("${MIGCTL_BATCH_SIZE:-32}", "32"),
        ("${MIGCTL_CPUS:-1}", "8"),
        ("${MIGCTL_CPUS:?needed}", "8"),
        ("", ""),
    ],
)
def test_references_are_resolved_and_all_else_is_left(text: str, expected: str) -> None:
    assert resolve(text, handed()) == expected


def test_an_empty_value_is_a_value_unless_a_default_is_given() -> None:
    told = handed(profile=None)

    assert resolve("[${MIGCTL_PROFILE}]", told) == "[]"
    assert resolve("[${MIGCTL_PROFILE:-whole}]", told) == "[whole]"


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(PlanError) as caught:
        resolve("x ${MIGCTL_NUM_WORKER}", handed(), where="job a")

    assert caught.value.id == "unknown-name"
    assert caught.value.hint == "did you mean ${MIGCTL_NUM_WORKERS}?"
    assert caught.value.where == "job a"


def test_a_foreign_word_is_not_near_to_anything() -> None:
    with pytest.raises(PlanError) as caught:
        resolve("${MIGCTL_FOO}", handed())

    assert "did you mean" not in (caught.value.hint or "")


def test_a_name_near_to_none_lists_all() -> None:
    with pytest.raises(PlanError) as caught:
        resolve("${MIGCTL_}", handed())

    assert "MIGCTL_CPUSET" in (caught.value.hint or "")


def test_a_name_without_a_value_for_this_job_is_refused() -> None:
    with pytest.raises(PlanError) as caught:
        resolve("${MIGCTL_BATCH_SIZE}", handed())

    assert caught.value.id == "no-value"
    assert "batch_size" in caught.value.message


def test_the_users_own_message_is_shown() -> None:
    with pytest.raises(PlanError) as caught:
        resolve("${MIGCTL_BATCH_SIZE:?say batch_size}", handed())

    assert caught.value.message == "say batch_size"


@pytest.mark.parametrize(
    ("workers", "ram_mib", "expected"),
    [
        (4, None, 5 * GIB),
        (0, None, GIB),
        (4, 512 * 1024, 5 * GIB),
        (8, 8 * 1024, 4 * GIB),
        (8, 64, 64 << 20),
    ],
)
def test_shared_memory_grows_with_the_workers_up_to_half_of_ram(
    workers: int, ram_mib: int | None, expected: int
) -> None:
    assert shm_size_bytes(workers, ram_mib) == expected
