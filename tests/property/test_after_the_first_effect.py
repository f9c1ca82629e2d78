"""What goes wrong once `up` has begun to make things: it is undone, or named with the command that recovers; never a bare error."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from migctl.core.runs.events import Event, Moment, StepEvent
from migctl.core.runs.record import Action
from migctl.errors import HostError, MigctlError, PartlyApplied
from migctl.host.claims import read_claims
from migctl.host.lock import machine_lock
from migctl.nvml.codes import Code
from migctl.nvml.simmodel import SimInstance
from migctl.nvml.simstate import SimState
from tests.support.crashes import Site

TWO = {"one": "1g.5gb", "two": "2g.10gb"}
ONE = {"one": "1g.5gb"}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.make(tmp_path)


def at(action: Action, moment: Moment) -> Callable[[Callable[[], None]], Callable[[Event], None]]:
    """Call the function once, at this event of job `one`."""

    def listening(act: Callable[[], None]) -> Callable[[Event], None]:
        came: list[bool] = []

        def report(event: Event) -> None:
            if event == StepEvent("one", action, moment) and not came:
                came.append(True)
                act()

        return report

    return listening


def ours(site: Site) -> list[SimInstance]:
    return site.gpu_instances()[1:]


def test_where_nothing_can_be_looked_at_any_more_down_is_named_and_recovers(site: Site) -> None:
    @at(Action.START, Moment.RECORDED)
    def blind() -> None:
        with SimState.edit(site.sim) as state:
            state.set_fault("nvmlDeviceGetCount", code=Code.UNKNOWN, times=1000)

    with pytest.raises(PartlyApplied) as partly:
        site.up(ONE, report=blind)

    assert partly.value.hint == f"migctl down {site.run}"
    with SimState.edit(site.sim) as state:
        state.faults.clear()
    site.down()
    assert ours(site) == []


@pytest.mark.parametrize("action", [Action.CREATE_COMPUTE_INSTANCE, Action.START])
def test_a_bug_in_one_job_stops_the_others_and_everything_is_undone(site: Site, action: Action) -> None:
    @at(action, Moment.ACTED)
    def bug() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as told:
        site.up(TWO, report=bug)

    assert told.value.__notes__ == ["everything that this command had made is undone"]
    assert ours(site) == []
    assert read_claims(site.machine / "run", SimState.load(site.sim).boot_id) == ()


@pytest.mark.parametrize("code", [Code.NO_PERMISSION, Code.INVALID_ARGUMENT, Code.RESET_REQUIRED, Code.NOT_SUPPORTED])
def test_what_comes_to_lie_where_a_creation_was_refused_is_left_alone(site: Site, code: Code) -> None:
    @at(Action.CREATE_GPU_INSTANCE, Moment.INTENT)
    def be_quicker() -> None:
        with site.session().ledger(write=False) as ledger:
            (record,) = ledger.records(site.run)
        assert record.placement is not None
        with SimState.edit(site.sim) as state:
            state.set_fault("nvmlDeviceCreateGpuInstanceWithPlacement", code=code)
            state.add_foreign_instance(0, "1g.5gb", record.placement.start, compute=False)

    with pytest.raises(MigctlError):
        site.up(ONE, report=be_quicker)

    assert len(ours(site)) == 1
    site.down()
    assert len(ours(site)) == 1


def test_what_an_unclear_answer_has_made_is_undone(site: Site) -> None:
    with SimState.edit(site.sim) as state:
        state.set_fault("nvmlDeviceCreateGpuInstanceWithPlacement", code=Code.UNKNOWN, after=True)

    with pytest.raises(HostError):
        site.up(ONE)
    assert ours(site) == []


def test_down_waits_for_another_command_at_the_machine_before_it_removes_an_instance(site: Site) -> None:
    site.up(ONE)
    there = len(ours(site))
    held, let_go = threading.Event(), threading.Event()
    seen: list[int] = []

    def other() -> None:
        with machine_lock(site.machine / "run", "machine"):
            held.set()
            let_go.wait(20)
            seen.append(len(ours(site)))

    @at(Action.REMOVE_CONTAINER, Moment.RECORDED)
    def soon() -> None:
        threading.Timer(0.5, let_go.set).start()

    holder = threading.Thread(target=other)
    holder.start()
    assert held.wait(10)
    site.down(report=soon)
    holder.join()

    assert seen == [there]
    assert ours(site) == []
