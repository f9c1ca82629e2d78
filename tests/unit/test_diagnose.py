"""What is said of running jobs: each verdict from its figures, and nothing where figures are missing or a job is healthy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.pinning import Finding, Slip
from migctl.core.seeing.diagnose import Patience, diagnose
from migctl.core.seeing.readings import GpuReading, InstanceReading, JobReading, Reading, Stranger
from migctl.core.seeing.verdicts import Kind, Level, Verdict

PATIENCE = Patience()
EVERY = {
    "run": "r",
    "job": "a",
    "cpus": CpuSet({0, 1, 2, 3}),
    "cores": 4,
    "age_s": 600.0,
    "own_cpus": 1.5,
    "busy_cpus": 1.6,
    "iowait_cpus": 0.0,
    "loads": (0.4, 0.4, 0.4, 0.4),
    "main_cpus": 0.5,
    "busiest_cpus": 0.5,
    "worker_cpus": 1.0,
    "blocked_processes": 0,
    "workers": 4,
    "processes": 5,
}
"""A job of four cores and four workers, neither busy nor idle."""


def instance(**figures: Any) -> InstanceReading:
    return InstanceReading(at_s=0.0, gpu_uuid="GPU-1", gi_id=7, profile="1g.5gb", **figures)


def active(share: float) -> InstanceReading:
    return instance(activity_share=share, activity_source="GPM")


def past(*jobs: JobReading, seconds: int = 120, gpus: tuple[GpuReading, ...] = ()) -> list[Reading]:
    """The same for so long, a reading a second."""
    return [
        Reading(at_s=1000.0 + n, seconds=1.0, jobs=jobs, gpus=tuple(replace(g, at_s=1000.0 + n // 5 * 5) for g in gpus))
        for n in range(seconds)
    ]


def said(seconds: int = 120, **figures: Any) -> tuple[Verdict, ...]:
    job = JobReading(**{**EVERY, **figures})
    return diagnose(past(job, seconds=seconds), PATIENCE).jobs["r/a"]


A_STRANGER = (Stranger(pid=99, command="stress", used_cpus=3.0),)
LOST = (Finding(Slip.ONE_CPU, "all 5 threads are bound to CPU 0, of 4 that the job has", "unset OMP_PROC_BIND"),)
BUSY = {"own_cpus": 3.8, "busy_cpus": 3.9, "loads": (0.97, 0.97, 0.97, 0.97), "worker_cpus": 3.5}

# Figures → the verdicts, most important first.
CASES: Mapping[str, tuple[dict[str, Any], list[Kind]]] = {
    "loaders use all cores and the training waits": ({**BUSY, "wait_share": 0.4}, [Kind.CPU_BOUND]),
    "the same, known from the GPU": ({**BUSY, "instance": active(0.3)}, [Kind.CPU_BOUND]),
    "too few workers, all busy": (
        {"workers": 1, "worker_cpus": 0.99, "own_cpus": 1.3, "wait_share": 0.5},
        [Kind.CPU_BOUND],
    ),
    "a quota": ({"throttled_share": 0.4, "wait_share": 0.5}, [Kind.CPU_BOUND]),
    "cores idle for a device": (
        {"own_cpus": 0.4, "busy_cpus": 0.4, "iowait_cpus": 2.5, "wait_share": 0.8},
        [Kind.DISK_BOUND],
    ),
    "workers stuck in I/O": (
        {"own_cpus": 0.4, "busy_cpus": 0.4, "blocked_processes": 3, "wait_share": 0.8},
        [Kind.DISK_BOUND],
    ),
    "pressure of the disk": ({"own_cpus": 0.4, "pressure_io_share": 0.7, "wait_share": 0.8}, [Kind.DISK_BOUND]),
    "workers stuck, nothing else known": (
        {"own_cpus": 0.2, "busy_cpus": 0.2, "blocked_processes": 4},
        [Kind.DISK_BOUND],
    ),
    "data are ready": ({"own_cpus": 2.6, "wait_share": 0.01}, [Kind.GPU_BOUND]),
    "the GPU is busy": ({"own_cpus": 2.6, "instance": active(0.97)}, [Kind.GPU_BOUND]),
    "waiting overlaps with work queued on the GPU": (
        {"own_cpus": 2.6, "wait_share": 0.5, "instance": active(0.95)},
        [Kind.GPU_BOUND],
    ),
    "busy cores, GPU unknown, nothing reported": (BUSY, [Kind.UNKNOWN]),
    "neither cores nor disk busy, and it waits": ({"wait_share": 0.6, "worker_cpus": 0.2}, [Kind.UNKNOWN]),
    "a bit of both": ({"wait_share": 0.12}, [Kind.UNKNOWN]),
    "GPU-bound with many idle cores": (
        {"own_cpus": 0.6, "busy_cpus": 0.6, "wait_share": 0.0},
        [Kind.GPU_BOUND, Kind.CPU_IDLE],
    ),
    "a stranger on its cores": (
        {"own_cpus": 1.0, "busy_cpus": 4.0, "wait_share": 0.6, "strangers": A_STRANGER},
        [Kind.OVERSUBSCRIBED],
    ),
    "a stranger who cannot be seen": (
        {"own_cpus": 1.0, "busy_cpus": 4.0, "unknown": {"strangers": "/proc is mounted with hidepid"}},
        [Kind.OVERSUBSCRIBED],
    ),
    "more at work than the job's processes, and nobody found": ({"own_cpus": 1.0, "busy_cpus": 4.0}, []),
    "others on its cores, and it never waits for one": (
        {"own_cpus": 2.6, "busy_cpus": 4.0, "wait_share": 0.01, "strangers": A_STRANGER, "queued_threads": 0.02},
        [Kind.GPU_BOUND],
    ),
    "one process, no workers": (
        {"own_cpus": 1.0, "busiest_cpus": 1.0, "main_cpus": 1.0, "workers": 0, "worker_cpus": 0.0, "wait_share": 0.7},
        [Kind.ONE_PROCESS],
    ),
    "one core, by its load": (
        {"own_cpus": 1.0, "busiest_cpus": 0.6, "loads": (0.99, 0.02, 0.1, 0.0), "worker_cpus": 0.1},
        [Kind.ONE_PROCESS],
    ),
    "a busy main process that only drives the GPU": (
        {"own_cpus": 1.0, "busiest_cpus": 1.0, "main_cpus": 1.0, "wait_share": 0.0},
        [Kind.GPU_BOUND, Kind.CPU_IDLE],
    ),
    "data ready, GPU idle, main process busy": (
        {"own_cpus": 1.6, "main_cpus": 0.99, "busiest_cpus": 0.99, "wait_share": 0.0, "instance": active(0.4)},
        [Kind.ONE_PROCESS],
    ),
    "affinity lost": ({"slips": LOST, "wait_share": 0.01, "own_cpus": 2.6}, [Kind.AFFINITY_LOST, Kind.GPU_BOUND]),
    "slice memory": (
        {
            "own_cpus": 2.6,
            "wait_share": 0.01,
            "instance": instance(memory_used_mib=4800, memory_total_mib=4864),
        },
        [Kind.GPU_BOUND, Kind.MEMORY_NEARLY_FULL],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_said_that(name: str) -> None:
    figures, kinds = CASES[name]

    assert [verdict.kind for verdict in said(**figures)] == kinds


def test_every_verdict_names_numbers_and_what_to_change() -> None:
    found = [v for figures, _ in CASES.values() for v in said(**figures)]

    assert {v.kind for v in found} == set(Kind) - {Kind.GPU_THROTTLED}
    for verdict in found:
        if verdict.kind is not Kind.UNKNOWN:
            assert any(c.isdigit() for c in verdict.message), verdict
            assert verdict.hint, verdict
            assert verdict.keys or "quota" in verdict.message, verdict


def test_a_cpu_bound_job_is_told_workers_cores_and_batch_size() -> None:
    (crowded,) = said(**BUSY, wait_share=0.4, workers=9)
    (enough,) = said(**BUSY, wait_share=0.4)

    assert crowded.keys == ("num_workers", "cpus", "batch_size")
    assert "lower num_workers from 9 to 4" in crowded.hint
    assert enough.keys == ("cpus", "num_workers", "batch_size")
    assert "40% of the time waiting for data: 3.8 of 4 cores at work" in enough.message


def test_unknown_says_what_would_tell() -> None:
    (verdict,) = said(**BUSY, instance=instance(unknown={"activity_share": "before Hopper"}))

    assert "migctl: samples=N wait=SECONDS" in verdict.message
    assert "n/a (before Hopper)" in verdict.message


def test_a_job_that_has_just_started_is_left_in_peace() -> None:
    assert said(**BUSY, wait_share=0.9) != ()
    assert said(**{**BUSY, "wait_share": 0.9, "age_s": 30.0}) == ()
    assert said(seconds=10, **BUSY, wait_share=0.9) == ()


def test_one_process_must_last_half_a_minute() -> None:
    figures = {
        "own_cpus": 1.0,
        "busiest_cpus": 1.0,
        "main_cpus": 1.0,
        "workers": 0,
        "worker_cpus": 0.0,
        "wait_share": 0.7,
    }

    assert [v.kind for v in said(seconds=25, **figures)] == []
    assert [v.kind for v in said(seconds=31, **figures)] == [Kind.ONE_PROCESS]


def test_a_slip_of_one_moment_is_no_lost_affinity() -> None:
    readings = past(JobReading(**EVERY), seconds=60)
    readings[-1] = replace(readings[-1], jobs=(JobReading(**{**EVERY, "slips": LOST}),))

    assert Kind.AFFINITY_LOST not in {v.kind for v in diagnose(readings, PATIENCE).jobs["r/a"]}


def test_figures_of_an_earlier_attempt_do_not_count() -> None:
    readings = [
        *past(JobReading(**{**EVERY, **BUSY, "wait_share": 0.9}), seconds=60),
        Reading(at_s=1060.0, seconds=1.0, jobs=(JobReading(**{**EVERY, "attempt": 2, "wait_share": 0.01}),)),
    ]

    assert diagnose(readings, PATIENCE).jobs["r/a"] == ()


def test_a_job_that_does_nothing_is_told_nothing() -> None:
    found = said(own_cpus=0.0, busy_cpus=0.0, loads=(0.0,) * 4, main_cpus=0.0, busiest_cpus=0.0, worker_cpus=0.0)

    assert [v.kind for v in found] == [Kind.UNKNOWN]


def gpu(**figures: Any) -> GpuReading:
    return GpuReading(at_s=0.0, uuid="GPU-1", index=0, **figures)


HOT = {
    "throttles": ("temperature",),
    "sm_clock_mhz": 990,
    "sm_clock_max_mhz": 1410,
    "temperature_c": 91,
    "power_w": 380.0,
}
# A GPU for two minutes → whether it is said to be throttled.
GPUS: Mapping[str, tuple[dict[str, Any], bool]] = {
    "hot and slow": (HOT, True),
    "clocks unknown": ({"throttles": ("its power cap",)}, True),
    "at its power cap, hardly slower": ({**HOT, "sm_clock_mhz": 1380}, False),
    "slow because idle": ({**HOT, "throttles": ()}, False),
    "not known": ({"throttles": None}, False),
}


@pytest.mark.parametrize("name", GPUS)
def test_throttling_is_one_verdict_of_the_gpu_and_none_of_a_job(name: str) -> None:
    figures, throttled = GPUS[name]
    found = diagnose(past(JobReading(**{**EVERY, "wait_share": 0.01}), gpus=(gpu(**figures),)), PATIENCE)

    assert [v.kind for v in found.gpus["GPU-1"]] == ([Kind.GPU_THROTTLED] if throttled else [])
    assert Kind.GPU_THROTTLED not in {v.kind for v in found.jobs["r/a"]}


def test_a_throttled_moment_is_not_said() -> None:
    readings = past(seconds=60, gpus=(gpu(**{**HOT, "throttles": ()}),))
    readings[-1] = replace(readings[-1], gpus=(replace(gpu(**HOT), at_s=readings[-1].at_s),))

    assert diagnose(readings, PATIENCE).gpus["GPU-1"] == ()


HEALTHY: Mapping[str, dict[str, Any]] = {
    "GPU-bound": {"wait_share": 0.01, "own_cpus": 2.6},
    "nothing reported": {},
    "a bit of both": {"wait_share": 0.1},
    "much memory": {"wait_share": 0.01, "instance": instance(memory_used_mib=4700, memory_total_mib=4864)},
    "a short visitor": {"busy_cpus": 2.4, "own_cpus": 1.5, "wait_share": 0.02},
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_job_raises_no_alarm(name: str) -> None:
    assert [v.kind for v in said(**HEALTHY[name]) if v.level is Level.ALARM] == []
