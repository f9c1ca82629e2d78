"""SIGKILL at every step of `up` and `down` where two jobs share one instance: nothing leaks, and nothing in use is destroyed."""

from __future__ import annotations

import pytest

from migctl.core.runs.ownership import Standing, standing
from migctl.core.runs.record import Action, JobState
from tests.support.crash_server import Order, Server
from tests.support.crashes import Site
from tests.support.queue_site import assert_over, resume, submit, supervise_all

SPEC = {"one": "2g.10gb*2", "two": "2g.10gb*2"}
FIRST = (Action.CREATE_GPU_INSTANCE, Action.CREATE_COMPUTE_INSTANCE, Action.CREATE_CONTAINER, Action.START)
SECOND = (Action.JOIN_INSTANCE, Action.CREATE_CONTAINER, Action.START)
LEAVING = (Action.STOP, Action.REMOVE_CONTAINER, Action.LEAVE_INSTANCE)
LAST = (Action.STOP, Action.REMOVE_CONTAINER, Action.DESTROY_COMPUTE_INSTANCE, Action.DESTROY_GPU_INSTANCE)
EVENTS_UP = (len(FIRST) + len(SECOND)) * 3
EVENTS_DOWN = (len(LEAVING) + len(LAST)) * 3
EVENTS_LEAVING = len(LEAVING) * 3
EVENTS_BESIDE = 2 * 3
"""Of a job whose instance is there already."""


QUEUE = {"one": "4g.20gb*2", "two": "4g.20gb*2", "three": "4g.20gb*2", "four": "3g.20gb"}
"""The third takes the seat of whoever ends first; for the fourth the room is cut anew when all three have ended."""
STEPS_OF_THE_QUEUE = 9
"""At least: the third job's container and start, two that make room, and four of the last one; leaving is not always one."""


def test_whoever_comes_first_makes_the_instance_and_the_last_one_destroys_it(site: Site) -> None:
    up: list[object] = []
    down: list[object] = []
    strangers = site.gpu_instances()

    site.up(SPEC, report=up.append)
    site.assert_up(SPEC, strangers)
    site.down(report=down.append)
    site.assert_gone(strangers)

    assert (len(up), len(down)) == (EVENTS_UP, EVENTS_DOWN)


@pytest.mark.parametrize("event", range(1, EVENTS_UP + 1))
def test_up_killed_at_an_event_continues_with_up(site: Site, commands: Server, event: int) -> None:
    strangers = site.gpu_instances()
    assert commands.run(Order(site=site, command="up", spec=SPEC, at_event=event)).killed

    site.up(SPEC)

    site.assert_up(SPEC, strangers)
    site.down()
    site.assert_gone(strangers)


@pytest.mark.parametrize("event", range(1, EVENTS_UP + 1, 3))
def test_up_killed_at_an_event_is_undone_by_down(site: Site, commands: Server, event: int) -> None:
    strangers = site.gpu_instances()
    assert commands.run(Order(site=site, command="up", spec=SPEC, at_event=event)).killed

    site.down()

    site.assert_gone(strangers)


@pytest.mark.parametrize("event", range(1, EVENTS_DOWN + 1))
def test_down_killed_at_an_event_is_finished_by_down(site: Site, commands: Server, event: int) -> None:
    strangers = site.gpu_instances()
    site.up(SPEC)
    assert commands.run(Order(site=site, command="down", spec=SPEC, at_event=event)).killed

    site.down()

    site.assert_gone(strangers)


@pytest.mark.parametrize("event", range(1, EVENTS_LEAVING + 1, 2))
def test_one_job_taken_out_by_a_killed_up_leaves_the_other_where_it_runs(
    site: Site, commands: Server, event: int
) -> None:
    strangers = site.gpu_instances()
    site.up(SPEC)
    left = {"one": SPEC["one"]}
    assert commands.run(Order(site=site, command="up", spec=left, at_event=event, replacing=True)).killed

    seen = site.settled()
    assert seen is not None
    assert seen.records["one"].state is JobState.RUNNING
    assert standing(seen.records["one"].instance, seen.observed) is Standing.OURS

    site.up(left, replacing=True)
    site.assert_still_up(left, strangers)
    site.down()
    site.assert_gone(strangers)


@pytest.mark.parametrize("event", range(1, EVENTS_BESIDE + 1))
def test_a_job_that_joins_by_a_killed_up_shares_in_the_end(site: Site, commands: Server, event: int) -> None:
    strangers = site.gpu_instances()
    first = {"one": SPEC["one"]}
    site.up(first)
    assert commands.run(Order(site=site, command="up", spec=SPEC, at_event=event)).killed

    site.up(SPEC)

    site.assert_up(SPEC, strangers)
    site.down()
    site.assert_gone(strangers)


@pytest.mark.parametrize("event", range(1, STEPS_OF_THE_QUEUE * 3 + 1, 3))
def test_a_supervisor_killed_while_seats_are_passed_on_is_resumed(site: Site, commands: Server, event: int) -> None:
    strangers = site.gpu_instances()
    submit(site, QUEUE)
    commands.run(Order(site=site, command="supervise", spec=QUEUE, at_event=event))

    resume(site)
    supervise_all(site)

    assert_over(site, QUEUE, strangers)
    site.down()
    site.assert_gone(strangers)
