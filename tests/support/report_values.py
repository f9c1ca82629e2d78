"""Runs for reports: a night of seven jobs on one A100 with everything that can be kept of it, made up and always the same."""

from __future__ import annotations

import math
from collections.abc import Iterator

from migctl.core.code import Code
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.gpu.mig import MemorySlices, Placement
from migctl.core.runs.record import JobState
from migctl.core.seeing.spells import spells
from migctl.core.seeing.tracks import Said, Sample
from migctl.core.views.report import (
    ReportAttempt,
    ReportGpu,
    ReportJob,
    ReportMachine,
    ReportView,
    ReportWaiting,
)
from migctl.errors import Notice

NOW = 1_764_500_000.0
BEGAN = NOW - 6 * 3600
GPU = "GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f"
MACHINE = ReportMachine(
    host="gpu-box",
    kernel="Linux 6.1.0-28-amd64 x86_64",
    cores=32,
    logical_cpus=64,
    nodes=2,
    memory_mib=257_000,
    version="0.1.0",
)
HOSTILE = "</title></style></script><script>window.stolen=1</script><img src=x onerror=window.stolen=2>\"'`&\x1b[31m\u202e\x00"
"""A name or a log line that wants to be a part of the page."""

_JOBS = (
    ("baseline", "3g.20gb", 4, 4, "0-6,32-38", 7, 19_968),
    ("wide", "2g.10gb", 2, 2, "7-11,39-43", 5, 9_856),
    ("sweep-lr0.1", "1g.5gb", 0, 1, "12-13,44-45", 2, 4_864),
    ("sweep-lr1e-2", "1g.5gb", 1, 1, "14-15,46-47", 2, 4_864),
)


def night(*, watched: bool = True) -> ReportView:
    """Four jobs of which one failed at first, and what followed on their slices."""
    attempts = tuple(_attempts())
    said = tuple(_said()) if watched else ()
    ends = {a.job: a.finished_at for a in attempts if a.finished_at is not None}
    return ReportView(
        now=NOW,
        utc_offset_s=32_400,
        zone="KST",
        name="lr-sweep",
        state="running",
        plan_path="/home/kim/sweep/plan.yaml",
        runtime="docker",
        strategy="mig",
        created_at=BEGAN,
        attempts=attempts,
        waiting=(ReportWaiting(job="report", state=JobState.QUEUED, reason="waits for baseline"),),
        plan=tuple(_plan()),
        gpus=(ReportGpu(uuid=GPU, name="NVIDIA A100-SXM4-40GB", index=0, memory_slices=8, memory_mib=40_960),),
        machine=MACHINE,
        samples=tuple(_samples(attempts)) if watched else (),
        verdicts=spells(said, ends),
    )


def hostile() -> ReportView:
    """Every text of it wants to be markup."""
    place = Placement(0, MemorySlices(1))
    failed = ReportAttempt(
        job=HOSTILE,
        attempt=1,
        state=JobState.FAILED,
        exit_code=1,
        reason=HOSTILE,
        gpu_uuid=HOSTILE,
        profile=HOSTILE,
        placement=place,
        cpus=CpuSet({0, 1}),
        cores=1,
        started_at=BEGAN,
        finished_at=BEGAN + 600,
    )
    loose = ReportAttempt(
        job=f"2{HOSTILE}", attempt=1, state=JobState.RUNNING, reason=HOSTILE, started_at=BEGAN, cpus=CpuSet({2})
    )
    said = Said(at_s=BEGAN + 60, job=HOSTILE, gpu="", kind=HOSTILE, title=HOSTILE, message=HOSTILE, hint=HOSTILE)
    samples = tuple(
        Sample(
            at_s=BEGAN + 10 * n,
            seconds=10.0,
            jobs={HOSTILE: {"own_cpus": 1.0 + n % 2, "gpu_memory_mib": 1000.0, "samples_s": 5.0}},
            cpus={0: 0.5, 1: 0.25},
        )
        for n in range(1, 60)
    )
    return ReportView(
        now=BEGAN + 900,
        utc_offset_s=0,
        zone=HOSTILE,
        name=HOSTILE,
        state=HOSTILE,
        plan_path=HOSTILE,
        runtime=HOSTILE,
        strategy=HOSTILE,
        simulated=HOSTILE,
        created_at=BEGAN,
        attempts=(failed, loose),
        waiting=(ReportWaiting(job=f"3{HOSTILE}", state=JobState.QUEUED, reason=HOSTILE),),
        plan=(ReportJob(name=HOSTILE, keys=((HOSTILE, HOSTILE),)),),
        gpus=(ReportGpu(uuid=HOSTILE, name=HOSTILE, index=0, memory_slices=8),),
        machine=ReportMachine(
            host=HOSTILE, kernel=HOSTILE, cores=1, logical_cpus=2, nodes=1, memory_mib=None, version=HOSTILE
        ),
        samples=samples,
        verdicts=spells((said,)),
        notices=(Notice(HOSTILE, HOSTILE, hint=HOSTILE),),
    )


def _attempts() -> Iterator[ReportAttempt]:
    code = Code(commit="4f2c9d1e7a3b5c6d8e9f0a1b2c3d4e5f6a7b8c9d", dirty=False)
    for name, profile, start, size, cpus, workers, memory in _JOBS:
        base = {
            "gpu_uuid": GPU,
            "gi_id": start + 1,
            "profile": profile,
            "placement": Placement(start, MemorySlices(size)),
            "memory_mib": memory,
            "cpus": CpuSet.parse(cpus),
            "cores": workers,
            "num_workers": workers,
            "code": code,
        }
        match name:
            case "baseline":
                yield ReportAttempt(job=name, attempt=1, state=JobState.RUNNING, started_at=BEGAN + 5, **base)
            case "wide":
                yield ReportAttempt(
                    job=name,
                    attempt=1,
                    state=JobState.FAILED,
                    exit_code=1,
                    reason="probably out of GPU memory in its slice (2g.10gb, 9856 MiB): torch.OutOfMemoryError: CUDA out of "
                    "memory. Tried to allocate 1.20 GiB; a smaller batch_size, or a larger profile",
                    started_at=BEGAN + 6,
                    finished_at=BEGAN + 2400,
                    **base,
                )
                yield ReportAttempt(
                    job=name,
                    attempt=2,
                    state=JobState.SUCCEEDED,
                    exit_code=0,
                    started_at=BEGAN + 2500,
                    finished_at=BEGAN + 17_300,
                    **base,
                )
            case "sweep-lr0.1":
                yield ReportAttempt(
                    job=name,
                    attempt=1,
                    state=JobState.SUCCEEDED,
                    exit_code=0,
                    started_at=BEGAN + 8,
                    finished_at=BEGAN + 9_000,
                    **base,
                )
                yield ReportAttempt(
                    job="sweep-lr1e-3", attempt=1, state=JobState.RUNNING, started_at=BEGAN + 9_050, **base
                )
            case _:
                yield ReportAttempt(
                    job=name,
                    attempt=1,
                    state=JobState.STOPPED,
                    exit_code=143,
                    reason="stopped by migctl stop",
                    started_at=BEGAN + 9,
                    finished_at=BEGAN + 12_000,
                    **base,
                )


def _plan() -> Iterator[ReportJob]:
    for name in ("baseline", "wide", "sweep-lr0.1", "sweep-lr1e-2", "sweep-lr1e-3", "report"):
        profile = next((p for n, p, *_ in _JOBS if n == name), "1g.5gb")
        yield ReportJob(
            name=name,
            keys=(
                ("profile", profile),
                ("image", "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime"),
                ("command", f"python train.py --run {name} --api-key [hidden]"),
                ("environment", "LR, WANDB_API_KEY"),
                ("volumes", "/home/kim/sweep:/workspace, /data/imagenet:/data:ro"),
            ),
        )


def _samples(attempts: tuple[ReportAttempt, ...]) -> Iterator[Sample]:
    """One a minute, with an hour in which nobody watched."""
    for minute in range(1, 360):
        at = BEGAN + 60 * minute
        if 200 <= minute < 240:
            continue
        jobs: dict[str, dict[str, float]] = {}
        cpus: dict[int, float] = {}
        for number, one in enumerate(attempts):
            end = one.finished_at if one.finished_at is not None else NOW
            if one.started_at is None or not one.started_at < at - 30 < end:
                continue
            wave = 0.5 + 0.5 * math.sin(minute / (17 + 5 * number) + number)
            busy = min(1.0, 0.55 + 0.4 * wave) if number % 2 else 0.25 + 0.3 * wave
            memory = float(one.memory_mib or 0)
            jobs[one.job] = {
                "own_cpus": busy * len(one.cpus),
                "memory_mib": 6_000 + 900 * wave,
                "samples_s": (180 + 60 * wave) * (one.num_workers or 1),
                "wait_share": 0.05 + 0.5 * (1 - wave) * (number % 2),
                "gpu_memory_mib": memory * (0.62 + 0.3 * min(1.0, minute / 90)),
                "gpu_memory_total_mib": memory,
                "gpu_activity_share": 0.95 - 0.4 * (1 - wave) * (number % 2),
                "read_mib_s": 40 * wave,
            }
            for cpu in one.cpus:
                cpus[cpu] = min(1.0, max(0.0, busy + 0.12 * math.sin(cpu + minute / 9)))
        yield Sample(
            at_s=at, seconds=60.0, jobs=jobs, cpus=cpus, gpus={GPU: {"power_w": 250.0 + 40 * math.sin(minute / 30)}}
        )


def _said() -> Iterator[Said]:
    def one(minute: float, job: str, kind: str, title: str, message: str, hint: str, *, over: bool = False) -> Said:
        return Said(
            at_s=BEGAN + 60 * minute, job=job, gpu="", kind=kind, title=title, message=message, hint=hint, over=over
        )

    cpu = (
        "cpu-bound",
        "waits for data: CPU-bound",
        "waits for data 41 % of the time, and its 5 workers use 96 % of its 5 cores",
        "cpus: 7, or a larger batch_size",
    )
    gpu = ("gpu-bound", "GPU-bound", "waits for data 2 % of the time; its GPU instance is active 94 %", "")
    idle = ("cpu-idle", "CPU idle: fewer cores would do", "never used more than 2 of its 7 cores", "cpus: 3")
    yield one(3, "baseline", *gpu)
    yield one(4, "wide", *cpu)
    yield one(5, "sweep-lr0.1", *gpu)
    yield one(31, "baseline", *idle)
    yield one(39, "wide", *cpu, over=True)
    yield one(46, "wide", *cpu)
    yield one(95, "baseline", *idle, over=True)
    yield one(149, "sweep-lr0.1", *gpu, over=True)
    yield one(280, "wide", *cpu, over=True)
