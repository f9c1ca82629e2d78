"""`up` interrupted at every event, and every NVML call refused: all of it is undone, or the error names what cleans up."""

from __future__ import annotations

import threading

import pytest

from migctl.errors import Interrupted, MigctlError, PartlyApplied
from migctl.nvml.codes import Code
from migctl.nvml.simstate import SimState
from tests.support.crashes import At, Site

SPEC = {"one": "2g.10gb", "two": "1g.5gb"}
CREATE_GPU = "nvmlDeviceCreateGpuInstanceWithPlacement"
CREATE_COMPUTE = "nvmlGpuInstanceCreateComputeInstance"
DESTROY_GPU = "nvmlGpuInstanceDestroy"
DESTROY_COMPUTE = "nvmlComputeInstanceDestroy"


def plan_error(site: Site, call: str, nth: int, code: Code, *, after: bool) -> None:
    with SimState.edit(site.sim) as state:
        state.set_fault(call, "error", nth=nth, code=code, after=after)


@pytest.mark.parametrize("event", range(1, 24))
def test_up_interrupted_at_an_event_undoes_everything(site: Site, event: int) -> None:
    strangers = site.gpu_instances()
    cancel = threading.Event()

    with pytest.raises(Interrupted):
        site.up(SPEC, report=At(event, cancel.set), cancel=cancel)

    site.assert_gone(strangers)


@pytest.mark.parametrize(
    ("code", "after"),
    [
        (Code.UNKNOWN, False),
        (Code.NO_PERMISSION, False),
        (Code.INSUFFICIENT_RESOURCES, False),
        (Code.UNKNOWN, True),  # done, but reported as failed
        (Code.IN_USE, True),
    ],
)
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("call", [CREATE_GPU, CREATE_COMPUTE])
def test_a_creation_that_fails_undoes_the_whole_up(site: Site, call: str, code: Code, nth: int, after: bool) -> None:
    strangers = site.gpu_instances()
    plan_error(site, call, nth, code, after=after)

    with pytest.raises(MigctlError) as failed:
        site.up(SPEC)

    assert not isinstance(failed.value, PartlyApplied)
    site.assert_gone(strangers)


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("call", [CREATE_GPU, CREATE_COMPUTE])
def test_a_creation_that_is_in_use_for_a_moment_is_tried_again(site: Site, call: str, nth: int) -> None:
    strangers = site.gpu_instances()
    plan_error(site, call, nth, Code.IN_USE, after=False)

    site.up(SPEC)

    assert len(site.gpu_instances()) == len(strangers) + len(SPEC)
    site.down()
    site.assert_gone(strangers)


@pytest.mark.parametrize("after", [False, True], ids=["refused", "done-but-reported-failed"])
@pytest.mark.parametrize("call", [DESTROY_GPU, DESTROY_COMPUTE])
def test_an_undo_that_fails_too_names_down_and_down_cleans_up(site: Site, call: str, after: bool) -> None:
    strangers = site.gpu_instances()
    plan_error(site, CREATE_COMPUTE, 2, Code.UNKNOWN, after=True)
    plan_error(site, call, 1, Code.UNKNOWN, after=after)

    with pytest.raises(PartlyApplied) as failed:
        site.up(SPEC)

    assert failed.value.hint == f"migctl down {site.run}"
    site.down()
    site.assert_gone(strangers)


@pytest.mark.parametrize("after", [False, True], ids=["refused", "done-but-reported-failed"])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("call", [DESTROY_GPU, DESTROY_COMPUTE])
def test_a_removal_that_fails_is_finished_by_the_next_down(site: Site, call: str, nth: int, after: bool) -> None:
    strangers = site.gpu_instances()
    site.up(SPEC)
    plan_error(site, call, nth, Code.UNKNOWN, after=after)

    with pytest.raises(PartlyApplied) as failed:
        site.down()

    assert failed.value.hint == f"migctl down {site.run}"
    site.down()
    site.assert_gone(strangers)


def test_an_instance_in_use_for_a_moment_is_removed_by_the_same_down(site: Site) -> None:
    strangers = site.gpu_instances()
    site.up(SPEC)
    plan_error(site, DESTROY_COMPUTE, 1, Code.IN_USE, after=False)

    site.down()

    site.assert_gone(strangers)


def test_a_second_up_that_is_undone_leaves_the_first_ups_jobs_alone(site: Site) -> None:
    strangers = site.gpu_instances()
    first = {"one": "2g.10gb"}
    site.up(first)
    plan_error(site, CREATE_COMPUTE, 1, Code.UNKNOWN, after=True)

    with pytest.raises(MigctlError):
        site.up(SPEC)

    site.assert_up(first, strangers)


def test_a_failed_up_keeps_the_logs_of_the_run_before_it(site: Site) -> None:
    site.up(SPEC)
    site.down()
    plan_error(site, CREATE_GPU, 1, Code.UNKNOWN, after=False)

    with pytest.raises(MigctlError):
        site.up(SPEC)

    with site.session().ledger(write=False) as ledger:
        assert {record.job for record in ledger.history(site.run)} == set(SPEC)
        assert all((ledger.folder(site.run, job, 1) / "log").exists() for job in SPEC)
