"""What `up` leaves on disk for its supervisor: before the first effect, and as it was where that fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from migctl.core.plan import Plan
from migctl.core.queueing.entries import Queue
from migctl.core.queueing.submission import Submission
from migctl.core.runs.events import Event
from migctl.engine.queueing.queued import hold, release
from migctl.engine.upoptions import UpOptions
from migctl.errors import Busy, MigctlError, PlanError
from migctl.nvml.codes import Code
from migctl.nvml.simstate import SimState
from tests.support.crashes import Site, site_at
from tests.support.queue_site import TURNS, records, states, submit, supervise_all, turns, unattended


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with site_at(tmp_path) as made:
        yield made


def left(site: Site) -> tuple[Submission | None, Queue | None]:
    with site.session().ledger(write=False) as ledger:
        return ledger.submissions.submission(site.run), ledger.submissions.queue(site.run)


def long(site: Site, *names: str, **keys: object) -> Plan:
    return replace(turns(site, dict.fromkeys(names, "4g.20gb"), seconds="300"), **keys)  # type: ignore[arg-type]  # keys of a plan


def test_a_plan_that_runs_at_once_and_ends_by_itself_leaves_nothing(site: Site) -> None:
    submit(site, {"one": "4g.20gb"})

    assert left(site) == (None, None)


def test_the_plan_lies_on_disk_before_the_first_effect(site: Site) -> None:
    found: list[tuple[object, ...]] = []

    def look(_: Event) -> None:
        found.append(left(site))

    submit(site, TURNS, report=look)

    submission, queue = found[0]
    assert isinstance(submission, Submission)
    assert isinstance(queue, Queue)
    assert queue.names == tuple(TURNS)
    assert dict(submission.environ)["STARTS"] == str(site.folder / "starts")
    assert len(set(map(str, found))) == 1


@pytest.mark.parametrize("before", [False, True])
def test_where_the_effect_fails_what_was_submitted_before_stands_again(site: Site, before: bool) -> None:
    if before:
        submit(site, long(site, "one", "two"))
    was = left(site)
    with SimState.edit(site.sim) as state:
        state.set_fault("nvmlDeviceCreateGpuInstanceWithPlacement", "error", times=99, code=Code.UNKNOWN)
    wanted = long(site, "one", "two", "three")
    if before:
        small = turns(site, {"small": "1g.5gb"}, seconds="300").jobs
        wanted = replace(wanted, jobs=(*wanted.jobs, *small))

    with pytest.raises(MigctlError):
        submit(site, wanted)

    assert left(site) == was


def test_a_job_that_was_taken_out_stays_out_until_it_is_asked_for(site: Site) -> None:
    plan = long(site, "one", "two", "three")
    submit(site, plan)
    with unattended(site.session()), site.session().ledger(write=True) as ledger:
        from migctl.engine.queueing.queued import take_out

        assert take_out(site.session(), ledger, site.run, ["two", "one"]) == ("two",)

    submit(site, plan)
    once = left(site)[1]
    submit(site, plan, options=UpOptions(retry=True))
    again = left(site)[1]

    assert once is not None
    assert again is not None
    assert (once.stopped, again.stopped) == (("two",), ())


def test_nothing_is_held_where_nothing_waits(site: Site) -> None:
    submit(site, {"one": "4g.20gb"})

    for command in (hold, release):
        with pytest.raises(PlanError) as refused:
            command(site.session(), site.run, ())
        assert refused.value.id == "no-queue"


def test_a_job_that_runs_cannot_be_held(site: Site) -> None:
    submit(site, long(site, "one", "two"))

    with pytest.raises(PlanError) as refused:
        hold(site.session(), site.run, ["one"])

    assert refused.value.id == "not-waiting"


def test_a_second_up_of_what_is_over_tells_nobody_again(site: Site) -> None:
    submit(site, TURNS)
    supervise_all(site)
    was = left(site)

    submit(site, TURNS)
    same = left(site)
    submit(site, {**TURNS, "four": "3g.20gb"})
    other = left(site)[1]

    assert same == was
    assert was[1] is not None
    assert was[1].told
    assert other is not None
    assert not other.told
    supervise_all(site)
    assert states(site) == dict.fromkeys((*TURNS, "four"), "succeeded")


def test_after_a_restart_of_the_machine_nothing_starts_until_it_is_asked_for(site: Site) -> None:
    import threading

    from migctl.engine.queueing.advance import Memory, advance

    submit(site, long(site, "one", "two"))
    site.reboot()

    turn = advance(site.session(), site.run, Memory(), report=lambda _: None, cancel=threading.Event())
    held = left(site)[1]
    submit(site, long(site, "one", "two"))

    assert (turn.started, turn.over) == ((), False)
    assert held is not None
    assert (held.held, held.reason) == (True, "the machine was restarted (on_reboot: hold)")
    assert states(site)["one"] == "running", "lost by the restart: up runs it again"
    again = left(site)[1]
    assert again is not None
    assert not again.held


def test_only_one_supervises(site: Site) -> None:
    import threading

    from migctl.engine.queueing import supervise
    from migctl.engine.queueing.supervisor import lock_name

    submit(site, TURNS)
    session = site.session()
    old, supervise.EARLIER_SUPERVISOR_S = supervise.EARLIER_SUPERVISOR_S, 0.1
    try:
        with session.lock(lock_name(session)), pytest.raises(Busy):
            supervise.supervise(site.session(), stop=threading.Event())
    finally:
        supervise.EARLIER_SUPERVISOR_S = old
    assert records(site).keys() == {"one"}
