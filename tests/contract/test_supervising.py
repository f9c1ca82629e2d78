"""The supervisor, here: what it does when jobs end at once, fail, cannot start, or when another run is in trouble."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from migctl.core.choices import Finish
from migctl.core.plan import Job, Notify, Plan
from migctl.core.runs.events import Event, Moment, StepEvent
from migctl.core.runs.record import Action
from migctl.engine.follow import wait
from migctl.engine.queueing.advance import Memory, Turn, advance
from migctl.engine.queueing.closing import conclude
from migctl.nvml.codes import Code
from migctl.nvml.simstate import SimState
from tests.support.crashes import Site, site_at, until
from tests.support.queue_site import records, states, submit, supervise_all, turns

FAILS = ("sh", "-c", 'echo "$MIGCTL_JOB" >>"$STARTS"; exit 1')


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with site_at(tmp_path, foreign=()) as made:
        yield made


def plan(site: Site, *names: str, seconds: str = "0", **keys: object) -> Plan:
    made = turns(site, dict.fromkeys(names, "1g.5gb"), seconds=seconds)
    return replace(made, **{"max_parallel": 1, **keys})  # type: ignore[arg-type]  # keys of a plan


def changed(wanted: Plan, name: str, **keys: object) -> Plan:
    def one(job: Job) -> Job:
        return replace(job, **keys) if job.name == name else job  # type: ignore[arg-type]  # keys of a job

    return replace(wanted, jobs=tuple(one(job) for job in wanted.jobs))


def turn(site: Site, memory: Memory | None = None) -> Turn:
    return advance(site.session(), site.run, memory or Memory(), report=lambda _: None, cancel=threading.Event())


def test_jobs_that_end_at_once_keep_nobody_waiting(site: Site) -> None:
    submit(site, plan(site, *"abcdef"))

    done = threading.Event()

    def work() -> None:
        supervise_all(site)
        done.set()

    threading.Thread(target=work, daemon=True).start()

    assert done.wait(25), "one of them was looked at again only after half a minute"
    assert states(site) == dict.fromkeys("abcdef", "succeeded")


def test_with_fail_fast_a_pause_before_another_attempt_ends_too(site: Site) -> None:
    wanted = changed(plan(site, "flaky", "bad", "later", fail_fast=True), "flaky", command=FAILS, retries=5)
    submit(site, changed(wanted, "bad", command=FAILS))

    supervise_all(site)

    assert states(site) == {"flaky": "failed", "bad": "failed"}
    assert sorted(site.starts()) == ["bad", "flaky"]
    assert site.starts()["flaky"] == 1
    with site.session().ledger(write=False) as ledger:
        queue = ledger.submissions.queue(site.run)
    assert queue is not None
    assert set(queue.stopped) == {"flaky", "later"}
    assert queue.reason == "not started: bad failed (fail_fast)"


def test_a_refusal_of_the_driver_costs_no_attempt_and_is_told(site: Site) -> None:
    submit(site, plan(site, "one", "two", seconds="300", max_parallel=None, stagger_s=0.001))
    with SimState.edit(site.sim) as state:
        state.set_fault("nvmlDeviceCreateGpuInstanceWithPlacement", code=Code.UNKNOWN)
    memory = Memory()

    found = turn(site, memory)

    assert (found.started, found.over, list(memory.put_off)) == ((), False, ["two"])
    assert found.wake_at is not None
    with site.session().ledger(write=False) as ledger:
        assert "two" in ledger.submissions.waits(site.run)
    memory.put_off.clear()
    assert turn(site, memory).started == ("two",)
    assert {name: record.attempt for name, record in records(site).items()} == {"one": 1, "two": 1}


def test_an_instance_that_is_not_let_go_is_blocked_room_for_a_while_and_costs_no_attempt(site: Site) -> None:
    submit(site, replace(turns(site, {"a": "4g.20gb", "b": "7g.40gb"}, seconds="0.05"), max_parallel=1))
    with SimState.edit(site.sim) as state:
        for call in ("nvmlComputeInstanceDestroy", "nvmlGpuInstanceDestroy"):
            state.set_fault(call, times=99, code=Code.UNKNOWN)
    memory = Memory()
    assert until(lambda: bool(turn(site, memory).running == {} and memory.blocked))

    found = turn(site, memory)

    assert (found.started, found.over, found.waiting) == ((), False, 1)
    assert found.wake_at is not None
    assert records(site).keys() == {"a"}
    with SimState.edit(site.sim) as state:
        state.faults.clear()
    memory.blocked.clear()
    memory.put_off.clear()
    assert turn(site, memory).started == ("b",)
    assert records(site)["b"].attempt == 1


@pytest.mark.parametrize("nth", range(1, 8))
@pytest.mark.parametrize("call", ["nvmlComputeInstanceGetInfo_v2", "nvmlGpuInstanceGetInfo"])
def test_what_was_made_and_could_not_be_seen_is_gone_on_with(site: Site, call: str, nth: int) -> None:
    """Wherever the driver begins to fail in telling of instances: what a creation has made stays known for ours."""
    submit(site, plan(site, "one", "two", seconds="300", max_parallel=None, stagger_s=0.001))
    with SimState.edit(site.sim) as state:
        state.set_fault(call, nth=nth, times=4)
    memory = Memory()
    turn(site, memory)
    with SimState.edit(site.sim) as state:
        state.faults.clear()
    memory.put_off.clear()
    turn(site, memory)

    assert states(site) == {"one": "running", "two": "running"}
    owned = [r.instance.gi_id for r in records(site).values() if r.instance is not None]
    assert sorted(owned) == sorted(instance.gi_id for instance in site.gpu_instances())
    assert records(site)["two"].attempt == 1
    site.down()
    assert site.gpu_instances() == []


def test_a_pause_before_another_attempt_is_told(site: Site) -> None:
    submit(site, changed(plan(site, "flaky", "next"), "flaky", command=FAILS, retries=1))
    memory = Memory()

    assert until(lambda: "next" in turn(site, memory).started)

    with site.session().ledger(write=False) as ledger:
        assert ledger.submissions.waits(site.run) == {"flaky": "a pause before the next attempt"}


def test_who_changes_the_queue_after_the_last_turn_is_not_forgotten(site: Site) -> None:
    submit(site, plan(site, "one", "two"))
    memory = Memory()
    found = turn(site, memory)
    while not found.over:
        found = turn(site, memory)
    submit(site, plan(site, "one", "two", "three"))

    assert not conclude(site.session(), site.run, found.queue)
    supervise_all(site)
    assert states(site)["three"] == "succeeded"


def test_on_finish_down_leaves_nothing_and_never_takes_what_came_meanwhile(site: Site) -> None:
    submit(site, plan(site, "one", "two", on_finish=Finish.DOWN))

    supervise_all(site)

    assert site.settled() is None
    site.assert_gone([])


class Died(BaseException):
    """As of a process that is killed: nothing of migctl catches it."""


GOING = (Action.DESTROY_COMPUTE_INSTANCE, Action.DESTROY_GPU_INSTANCE)


@pytest.mark.parametrize("nth", range(1, 7))
def test_what_a_supervisor_died_in_taking_down_is_taken_down_by_the_next_one_and_told_of_once(
    site: Site, nth: int
) -> None:
    whom = Notify(command=("sh", "-c", "cat >>told; echo >>told"), on=("run",))
    submit(site, plan(site, "one", "two", on_finish=Finish.DOWN, notify=(whom,)))
    seen = 0

    def die(event: Event) -> None:
        nonlocal seen
        if isinstance(event, StepEvent) and event.action in GOING:
            seen += 1
            if seen == nth:
                raise Died

    with pytest.raises(Died):
        supervise_all(site, report=die)
    supervise_all(site)

    site.assert_gone([])
    told = site.folder / "told"
    assert until(lambda: told.exists() and told.read_text().endswith("\n"))
    assert len(told.read_text().splitlines()) == 1


def test_a_run_whose_queue_cannot_be_read_is_no_other_runs_trouble(site: Site) -> None:
    broken = replace(site, run="broken")
    submit(broken, replace(plan(site, "one", "two"), name="broken", path="/b"))
    submit(site, plan(site, "three", "four"))
    (site.state / "runs" / "broken" / "@queue.json").write_text("{")

    supervise_all(site)

    assert states(site) == {"three": "succeeded", "four": "succeeded"}


def test_wait_goes_on_while_the_supervisor_is_about_to_start_a_job(site: Site) -> None:
    submit(site, plan(site, "first", "second"))
    about_to = threading.Event()

    def slowly(event: Event) -> None:
        if isinstance(event, StepEvent) and (event.action, event.moment) == (Action.CREATE_CONTAINER, Moment.INTENT):
            about_to.set()
            time.sleep(1.0)

    thread = threading.Thread(target=lambda: supervise_all(site, report=slowly), daemon=True)
    thread.start()
    assert about_to.wait(20)
    with site.session().ledger(write=False) as ledger:
        run = ledger.run(site.run)
    assert run is not None

    ended = wait(site.session(), run, (), timeout_s=30)

    assert {name: record.state.value for name, record in ended.items()} == {"first": "succeeded", "second": "succeeded"}
    thread.join(20)
