"""SIGKILL at every moment of a queue: of the `up` that submits it, and of every step that its supervisor takes."""

from __future__ import annotations

import pytest

from tests.support.crash_server import Order, Server
from tests.support.crashes import Site
from tests.support.queue_site import TURNS, assert_over, resume, submit, supervise_all

EVENTS_UP = 12
"""Steps of the first job, three events each."""
EVENTS = 24
"""Two steps for the job that takes over; two that make room and four for the last one."""
CHANGES_UP = tuple(range(1, 70, 14))
CHANGES = tuple(range(1, 190, 16))
"""Sampled calls that change a file or start a process: between the events, inside the effects, and where ends are dealt with."""


def test_an_undisturbed_queue_has_as_many_events_as_are_killed_here(site: Site) -> None:
    up: list[object] = []
    later: list[object] = []
    strangers = site.gpu_instances()

    submit(site, TURNS, report=up.append)
    supervise_all(site, report=later.append)

    assert_over(site, TURNS, strangers)
    assert (len(up), len(later)) == (EVENTS_UP, EVENTS)
    site.down()
    site.assert_gone(strangers)


@pytest.mark.parametrize("event", range(1, EVENTS + 1))
def test_a_supervisor_killed_at_an_event_is_resumed(site: Site, commands: Server, event: int) -> None:
    strangers = site.gpu_instances()
    submit(site, TURNS)
    assert commands.run(Order(site=site, command="supervise", spec=TURNS, at_event=event)).killed

    resume(site)
    supervise_all(site)

    assert_over(site, TURNS, strangers)
    site.down()
    site.assert_gone(strangers)


@pytest.mark.parametrize("event", range(1, EVENTS + 1, 4))
def test_the_next_supervisor_goes_on_by_itself(site: Site, commands: Server, event: int) -> None:
    strangers = site.gpu_instances()
    submit(site, TURNS)
    assert commands.run(Order(site=site, command="supervise", spec=TURNS, at_event=event)).killed

    supervise_all(site)

    assert_over(site, TURNS, strangers)


@pytest.mark.parametrize("event", range(2, EVENTS + 1, 6))
def test_what_a_killed_supervisor_leaves_is_undone_by_down(site: Site, commands: Server, event: int) -> None:
    strangers = site.gpu_instances()
    submit(site, TURNS)
    assert commands.run(Order(site=site, command="supervise", spec=TURNS, at_event=event)).killed

    site.down()

    site.assert_gone(strangers)


@pytest.mark.parametrize("change", CHANGES)
def test_a_supervisor_killed_before_any_change_of_a_file_is_resumed(site: Site, commands: Server, change: int) -> None:
    strangers = site.gpu_instances()
    submit(site, TURNS)
    assert commands.run(Order(site=site, command="supervise", spec=TURNS, at_change=change)).killed

    resume(site)
    supervise_all(site)

    assert_over(site, TURNS, strangers)
    site.down()
    site.assert_gone(strangers)


@pytest.mark.parametrize("event", range(1, EVENTS_UP + 1, 3))
def test_an_up_killed_while_the_rest_waits_is_resumed(site: Site, commands: Server, event: int) -> None:
    strangers = site.gpu_instances()
    assert commands.run(Order(site=site, command="submit", spec=TURNS, at_event=event)).killed

    resume(site)
    supervise_all(site)

    assert_over(site, TURNS, strangers)


@pytest.mark.parametrize("change", CHANGES_UP)
def test_an_up_killed_before_any_change_of_a_file_is_finished_by_up(site: Site, commands: Server, change: int) -> None:
    strangers = site.gpu_instances()
    assert commands.run(Order(site=site, command="submit", spec=TURNS, at_change=change)).killed

    submit(site, TURNS)
    supervise_all(site)

    assert_over(site, TURNS, strangers)
    site.down()
    site.assert_gone(strangers)
