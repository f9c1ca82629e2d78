"""What `adopt` prints, and how `status` shows an administrator's instance and what a restart took."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.gpu.mig import MemorySlices, Placement
from migctl.core.runs.ownership import ADMINISTRATORS
from migctl.core.runs.record import JobState, Ownership, Record
from migctl.core.runs.settle import RESTARTED
from migctl.errors import Notice
from migctl.render.adopt_text import adopt_text
from migctl.render.status_text import status_text
from tests.support import render_values as values

PLACE = Placement(4, MemorySlices(2))
OWNED = Ownership(
    gpu_uuid="GPU-0",
    gi_id=5,
    profile_id=14,
    placement=PLACE,
    boot_id="b",
    ci_id=0,
    mig_uuid="MIG-5c7c1dd3-5d6a-5a1c-9f4c-2f3d9a8f4b11",
)
RUNNING = Record(
    run="night",
    job="train-a",
    token="t",
    runtime="docker",
    strategy="mig",
    digest="",
    spec="{}",
    state=JobState.RUNNING,
    gpu_uuid="GPU-0",
    profile="2g.10gb",
    profile_id=14,
    placement=PLACE,
    cpus=CpuSet({0, 1}),
    instance=OWNED,
)
SHARED = replace(RUNNING, job="train-b", state=JobState.SUCCEEDED, profile=None, placement=None, instance=None)
LEFT = (
    ("container migctl-night-train-c-0a1b2c3d (night/train-c)", "of uid 1234"),
    (
        "container migctl-night-train-d-99aa88bb (night/train-d)",
        "the machine was restarted since: its GPU instance is gone",
    ),
    ("GPU 0: GPU instance 13 (1g.5gb at 6:1)", "no container, process or record tells that it is yours"),
)


@pytest.mark.parametrize("width", [60, 120])
def test_adopt_says_what_it_took_and_what_it_left(width: int, golden: Callable[[str, str], None]) -> None:
    style = replace(values.PLAIN, width=width)
    golden(f"render/adopt-{width}", adopt_text([RUNNING, SHARED], LEFT, style, dry_run=False))


def test_adopt_dry_run_says_would(golden: Callable[[str, str], None]) -> None:
    golden("render/adopt-dry-run", adopt_text([RUNNING], LEFT[:1], values.PLAIN, dry_run=True))


def test_adopt_without_anything_there_says_so(golden: Callable[[str, str], None]) -> None:
    golden("render/adopt-nothing", adopt_text([], (), values.PLAIN, dry_run=False))


def test_status_shows_whose_the_instance_of_a_job_is_where_an_administrator_made_it(
    golden: Callable[[str, str], None],
) -> None:
    view = values.busy_status()
    gpu = view.gpus[0]
    first = view.runs[0].jobs[0]
    instances = tuple(
        replace(i, owner=ADMINISTRATORS, foreign=True) if i.gi_id == first.gi_id else i for i in gpu.instances or ()
    )
    golden(
        "render/status-administrators",
        status_text(replace(view, gpus=(replace(gpu, instances=instances), *view.gpus[1:])), values.PLAIN),
    )


def test_status_after_a_restart_says_how_the_jobs_come_back(golden: Callable[[str, str], None]) -> None:
    view = values.busy_status()
    run = view.runs[0]
    jobs = tuple(replace(job, state=JobState.LOST, reason=RESTARTED, pid=None) for job in run.jobs)
    notice = Notice(
        "restarted",
        f"{RESTARTED} since {run.name} was started. Gone with it: the MIG mode of GPU 0, 3 GPU instances; lost: "
        + ", ".join(job.name for job in jobs),
        hint=f"migctl resume {run.name} --enable-mig",
        where=f"run {run.name}",
    )
    gpus = tuple(replace(gpu, instances=()) for gpu in view.gpus)
    after = replace(view, runs=(replace(run, state="lost", jobs=jobs),), gpus=gpus, notices=(notice,), drift=())
    golden("render/status-restarted", status_text(after, values.PLAIN))
