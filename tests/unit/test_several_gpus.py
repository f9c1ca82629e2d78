"""Several GPUs, of several kinds, some of which only root may read: tables before code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migctl.core.allocate import allocate
from migctl.core.choices import Strategy
from migctl.core.cpu.topology import uniform_topology
from migctl.core.gpu.mig import UNKNOWN_PLACEMENT, ComputeInstance, Gpu, GpuProcess, Instance
from migctl.core.gpu.selection import job_gpus, plan_gpus
from migctl.core.machine import Machine
from migctl.core.plan import Auto, ByMemory, ByProfile, GpuRequest, GpuSelector, Job, Plan
from migctl.errors import Busy, DoesNotFit, HostError, MigctlError, PlanError
from migctl.nvml.models import board_gpu, resolve_board

A100, ANOTHER, T4, SECOND_T4 = (
    board_gpu(resolve_board(key), n) for n, key in enumerate(["a100-40gb", "a100-40gb", "t4", "t4"])
)
ALL = (A100, ANOTHER, T4, SECOND_T4)


def at(*indexes: int) -> tuple[GpuSelector, ...]:
    return tuple(GpuSelector(index=index) for index in indexes)


def job(name: str, request: GpuRequest | None = None, *gpus: GpuSelector) -> Job:
    return Job(name=name, origin=name, request=request or Auto(), gpus=gpus)


def plan(*jobs: Job, gpus: tuple[GpuSelector, ...] = (), strategy: Strategy | None = None) -> Plan:
    return Plan(name="sweep", path="", folder="/", jobs=jobs, gpus=gpus, strategy=strategy)


def machine(*gpus: Gpu, **fields: object) -> Machine:
    topology = uniform_topology(16, 2)
    return replace(Machine(gpus=gpus, topology=topology, affinity=topology.online), **fields)


def where(found: object) -> dict[str, int]:
    uuids = {gpu.uuid: gpu.index for gpu in ALL}
    return {a.job.name: uuids[a.gpu_uuid] for a in found.assignments}  # type: ignore[attr-defined]  # an Allocation


ONE = ByProfile("1g.5gb")
# the plan's gpu, each job's gpu, where the jobs go
SPREADS: list[tuple[tuple[GpuSelector, ...], list[tuple[GpuSelector, ...]], list[int]]] = [
    (at(0), [(), ()], [0, 0]),
    (at(0), [(), at(1)], [0, 1]),  # a job's own gpu stands in place of the plan's
    ((), [at(1), at(0)], [1, 0]),  # where every job names its own, the plan needs none
    (at(0, 1), [at(1), ()], [1, 0]),
    ((GpuSelector(all=True),), [(GpuSelector(uuid=ANOTHER.uuid),), (GpuSelector(pci=A100.pci_bus_id),)], [1, 0]),
]


@pytest.mark.parametrize(("selected", "own", "expected"), SPREADS)
def test_where_the_jobs_go(
    selected: tuple[GpuSelector, ...], own: list[tuple[GpuSelector, ...]], expected: list[int]
) -> None:
    jobs = [job(f"j{n}", ONE, *gpus) for n, gpus in enumerate(own)]

    assert list(where(allocate(plan(*jobs, gpus=selected), machine(*ALL))).values()) == expected


def test_sixteen_jobs_go_on_as_many_gpus_as_they_need_and_only_uuids_leave_the_planner() -> None:
    found = allocate(plan(*(job(f"j{n}", ONE) for n in range(14)), gpus=at(0, 1)), machine(*ALL))

    assert sorted(where(found).values()) == [0] * 7 + [1] * 7
    assert all(a.gpu_uuid.startswith("GPU-") for a in found.assignments)


def test_a_job_without_gpu_beside_others_that_name_theirs_needs_a_choice_where_several_would_do() -> None:
    with pytest.raises(PlanError) as caught:
        allocate(plan(job("a", ONE, *at(0)), job("b", ONE)), machine(*ALL))

    assert caught.value.id == "which-gpu"


def test_a_gpu_that_is_not_there_is_told_at_the_job_that_names_it() -> None:
    wanted = plan(job("a", ONE), job("b", ONE, *at(7)), gpus=at(0))

    with pytest.raises(PlanError, match="no GPU has index 7") as caught:
        plan_gpus(wanted, ALL)
    assert caught.value.where == "job b"
    assert job_gpus(wanted.jobs[0], wanted, ALL) == (A100,)


def test_a_gpu_without_mig_goes_whole_to_one_job_beside_jobs_with_instances() -> None:
    found = allocate(
        plan(job("a", ONE, *at(0)), job("b", None, *at(2)), job("c", ByMemory(8192), *at(3))), machine(*ALL)
    )
    whole = {a.job.name: a for a in found.assignments if a.placement is None}

    assert found.strategy is Strategy.MIG
    assert where(found) == {"a": 0, "b": 2, "c": 3}
    assert set(whole) == {"b", "c"}
    assert all(a.profile is None and a.memory_mib == T4.memory_mib for a in whole.values())
    assert found.blocked is None


def test_of_several_gpus_without_mig_each_job_gets_another() -> None:
    either = (GpuSelector(model="T4"),)
    found = allocate(plan(job("a", ONE, *at(0)), job("b", None, *either), job("c", None, *either)), machine(*ALL))

    assert where(found) == {"a": 0, "b": 2, "c": 3}


def test_a_job_that_leaves_its_gpu_open_never_gets_one_without_mig() -> None:
    found = allocate(plan(job("a", ONE), job("b"), gpus=(GpuSelector(all=True),)), machine(A100, T4))

    assert where(found) == {"a": 0, "b": 0}


# machine, the job's request, error, what is said
TAKEN: list[tuple[Machine, GpuRequest, type[MigctlError], str]] = [
    (machine(*ALL, whole={T4.uuid: "anna/night"}), Auto(), Busy, "which anna/night uses"),
    (
        machine(
            A100, ANOTHER, replace(T4, processes=(GpuProcess(4711, None, 100),)), processes={4711: "python of bert"}
        ),
        Auto(),
        Busy,
        "which python of bert uses",
    ),
    (machine(*ALL), ByProfile("1g.5gb"), HostError, "has no MIG, and b asks for a GPU instance on it"),
    (machine(*ALL), ByMemory(80 * 1024), DoesNotFit, "asks for 81920 MiB of GPU memory; Tesla T4 has"),
]


@pytest.mark.parametrize(("there", "request_", "kind", "says"), TAKEN)
def test_why_a_whole_gpu_is_not_to_be_had(
    there: Machine, request_: GpuRequest, kind: type[MigctlError], says: str
) -> None:
    wanted = plan(job("a", ONE, *at(0)), job("b", request_, *at(2)))
    try:
        error = allocate(wanted, there).blocked
    except MigctlError as raised:
        error = raised

    assert type(error) is kind
    assert says in error.message


def test_two_jobs_of_a_plan_cannot_both_have_the_same_whole_gpu() -> None:
    found = allocate(plan(job("a", ONE, *at(0)), job("b", None, *at(2)), job("c", None, *at(2))), machine(*ALL))

    assert found.waiting == ("c",)
    assert isinstance(found.blocked, DoesNotFit)
    assert "which job b has" in found.blocked.message


def test_under_shared_a_jobs_own_gpu_stands_in_place_of_the_plans_too() -> None:
    wanted = plan(job("a"), job("b", None, *at(3)), gpus=at(2), strategy=Strategy.SHARED)

    assert where(allocate(wanted, machine(*ALL))) == {"a": 2, "b": 3}


SEEN = Instance(
    gpu_uuid=A100.uuid,
    gi_id=3,
    profile_id=-1,
    profile="1g.5gb",
    placement=UNKNOWN_PLACEMENT,
    compute_instances=(ComputeInstance(0, "MIG-1"),),
)
HIDDEN = "needs root: placements, and instances without a compute instance"


@pytest.mark.parametrize(("instances", "says"), [((), "none can be seen"), ((SEEN,), "1 instance can be seen")])
def test_a_gpu_that_only_root_may_read_is_never_planned_as_empty(instances: tuple[Instance, ...], says: str) -> None:
    hidden = replace(A100, instances=instances, instances_reason=HIDDEN)
    with pytest.raises(HostError, match=says) as caught:
        allocate(plan(job("a", ONE)), machine(hidden))

    assert caught.value.id == "no-permission"
    assert caught.value.data["needs_root"] is True
    assert "only root may read" in caught.value.message


def test_beside_a_hidden_gpu_the_readable_ones_are_used() -> None:
    hidden = replace(A100, instances_reason=HIDDEN)

    assert where(allocate(plan(job("a", ONE), gpus=at(0, 1)), machine(hidden, ANOTHER))) == {"a": 1}


@pytest.mark.parametrize("count", [1, 2])
def test_what_does_not_fit_beside_a_hidden_gpu_is_not_said_never_to_fit(count: int) -> None:
    hidden = replace(A100, instances_reason=HIDDEN)
    wanted = plan(*(job(f"j{n}", ByProfile("7g.40gb")) for n in range(1 + count)), gpus=at(0, 1))
    with pytest.raises(HostError) as caught:
        allocate(wanted, machine(hidden, ANOTHER))

    assert caught.value.id == "no-permission"
