"""Who is named in a conflict of a plan, with what each needs and what there is for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migctl.core.cpu.topology import uniform_topology
from migctl.core.gpu.contenders import conflict_view
from migctl.core.gpu.mig import Gpu
from migctl.core.machine import Machine
from migctl.core.plan import Auto, ByMemory, ByProfile, GpuRequest, GpuSelector, Job, Plan
from migctl.core.queueing.entries import requeued
from migctl.core.queueing.progress import Progress
from migctl.core.queueing.run_layout import lay_out_run
from migctl.core.views.plan import ConflictView
from migctl.nvml.models import board_gpu, resolve_board

A100 = board_gpu(resolve_board("a100-40gb"))
A30 = replace(board_gpu(resolve_board("a30")), index=1, uuid="GPU-a30")
T4 = replace(board_gpu(resolve_board("t4")), index=2, uuid="GPU-t4")
ALL = (GpuSelector(all=True),)


def jobs(name: str, request: GpuRequest, count: int = 1, model: str | None = None, seats: int = 1) -> list[Job]:
    gpus = (GpuSelector(model=model),) if model else ()
    return [
        Job(name=f"{name}{n}", origin=name, command=("x",), request=request, gpus=gpus, per_instance=seats)
        for n in range(count)
    ]


def named(*gpus: Gpu, wanted: list[Job]) -> ConflictView | None:
    plan = Plan(name="p", path="", folder="/", jobs=tuple(wanted), gpus=ALL)
    topology = uniform_topology(32, 2)
    machine = Machine(gpus=gpus, topology=topology, affinity=topology.online)
    layout = lay_out_run(plan, machine, Progress(queue=requeued(None, plan, 0.0)), now=0.0)
    return conflict_view(plan, layout.allocation, gpus)


def told(view: ConflictView | None) -> tuple[object, ...]:
    assert view is not None
    kinds = tuple(one.profile for one in view.contenders)
    return view.jobs, kinds, view.memory_slices, view.compute_slices


@pytest.mark.parametrize(
    ("gpus", "wanted", "expected"),
    [
        pytest.param(
            (A100, A30, T4),
            [*jobs("large", ByMemory(18 * 1024), 2), *jobs("there", ByProfile("4g.24gb"), model="A30")],
            (("large0", "large1", "there0"), ("4g.20gb", "4g.20gb", "4g.24gb"), 12, 11),
            id="a profile that only the second GPU has",
        ),
        pytest.param(
            (A100, A30),
            jobs("there", ByProfile("4g.24gb"), 2, model="A30"),
            (("there0", "there1"), ("4g.24gb", "4g.24gb"), 4, 4),
            id="only the slices of the GPU that they name",
        ),
        pytest.param(
            (A100, A30),
            jobs("half", ByProfile("3g.20gb"), 3),
            (("half0", "half1", "half2"), ("3g.20gb",) * 3, 8, 7),
            id="only the slices of GPUs that offer the profile",
        ),
        pytest.param(
            (A100,),
            [*jobs("whole", ByProfile("7g.40gb")), *jobs("any", Auto())],
            (("whole0", "any0"), ("7g.40gb", "1g.5gb"), 8, 7),
            id="a job of any size needs the smallest",
        ),
        pytest.param(
            (A100,),
            jobs("seat", ByProfile("3g.20gb"), 5, seats=2),
            (("seat0", "seat1", "seat2", "seat3", "seat4"), ("3g.20gb",) * 3, 8, 7),
            id="all who sit on the instances",
        ),
    ],
)
def test_the_conflict_names_all_its_jobs_with_their_slices(
    gpus: tuple[Gpu, ...], wanted: list[Job], expected: tuple[object, ...]
) -> None:
    assert told(named(*gpus, wanted=wanted)) == expected


def test_a_job_without_a_gpu_for_it_is_no_conflict_about_slices() -> None:
    assert named(A100, T4, wanted=jobs("whole", Auto(), 2, model="T4")) is None
