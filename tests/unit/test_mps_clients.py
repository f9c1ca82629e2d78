"""What MPS clients are told, how their containers reach the server, and what is said when they fail together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migctl.core.choices import Strategy
from migctl.core.gpu.mps import client_environment, in_one_namespace, refuse_without_sharing, uses_mps, with_company
from migctl.core.plan import Job, MpsShare, Plan, Volume
from migctl.core.runs.record import JobState, Record
from migctl.core.runs.sameness import spec
from migctl.errors import PlanError
from tests.support.store_values import record

ALL = Job(name="a", origin="a", mps=MpsShare())
PART = replace(ALL, mps=MpsShare(active_threads_percent=40, memory_mib=6144))


def test_limits_are_told_where_they_are_given() -> None:
    assert client_environment(ALL, "/p") == {"CUDA_MPS_PIPE_DIRECTORY": "/p"}
    assert client_environment(PART, "/p") == {
        "CUDA_MPS_PIPE_DIRECTORY": "/p",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "40",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=6144M",
    }


def test_a_container_sees_the_pipes_and_shares_ipc_with_the_server() -> None:
    data = Volume(target="/data", source="/data")
    moved = in_one_namespace(replace(ALL, volumes=(data,)), "/run/p")

    assert moved.ipc == "host"
    assert moved.volumes == (data, Volume(target="/run/p", source="/run/p"))


@pytest.mark.parametrize("strategy", [Strategy.MIG, Strategy.SEQUENTIAL])
def test_nobody_is_a_client_where_nothing_is_shared(strategy: Strategy) -> None:
    plan = Plan(name="p", path="", folder="/", jobs=(ALL,))

    assert not uses_mps(ALL, strategy)
    with pytest.raises(PlanError, match="wants MPS"):
        refuse_without_sharing(plan, strategy)
    refuse_without_sharing(replace(plan, jobs=(replace(ALL, mps=None),)), strategy)
    refuse_without_sharing(plan, Strategy.SHARED)


def failed(job: str, at: float, reason: str = "CUDA error: unspecified launch failure", *, mps: bool = True) -> Record:
    made = replace(ALL, name=job, mps=MpsShare() if mps else None)
    return replace(
        record(job, state=JobState.FAILED),
        strategy="shared",
        gpu_uuid="GPU-1",
        spec=spec(made),
        exit_code=1,
        finished_at=at,
        reason=reason,
    )


def test_clients_that_fail_together_with_a_fault_of_cuda_say_so_once() -> None:
    records = {r.job: r for r in (failed("a", 100.0), failed("b", 103.0), failed("late", 500.0))}

    told = with_company(records)

    assert told["a"].reason == (
        "CUDA error: unspecified launch failure; at the same time as b: a fault of one client of an MPS server ends all of them"
    )
    assert "as a:" in (told["b"].reason or "")
    assert told["late"] == records["late"]
    assert with_company(told) == told


def test_what_is_no_fault_of_cuda_or_has_no_company_is_left_as_it_is() -> None:
    for records in (
        [failed("a", 100.0, "exit code 2"), failed("b", 100.0, "exit code 2")],
        [failed("a", 100.0), failed("b", 100.0, mps=False)],
        [failed("a", 100.0), replace(failed("b", 100.0), gpu_uuid="GPU-2")],
        [failed("a", 100.0)],
    ):
        given = {r.job: r for r in records}

        assert with_company(given) == given
