"""SIGKILL at every moment of every step of `up` and `down`: the same command again, or `down`, ends as if nothing had happened."""

from __future__ import annotations

import pytest

from migctl.core.runs.record import Action
from tests.support.crash_server import Order, Server
from tests.support.crashes import Site

SPEC = {"one": "2g.10gb", "two": "1g.5gb"}
UP = (Action.CREATE_GPU_INSTANCE, Action.CREATE_COMPUTE_INSTANCE, Action.CREATE_CONTAINER, Action.START)
DOWN = (Action.STOP, Action.REMOVE_CONTAINER, Action.DESTROY_COMPUTE_INSTANCE, Action.DESTROY_GPU_INSTANCE)
EVENTS_UP = len(SPEC) * len(UP) * 3
EVENTS_DOWN = len(SPEC) * len(DOWN) * 3
CHANGES_UP = tuple(range(1, 100, 5))
CHANGES_DOWN = tuple(range(1, 65, 3))
"""Sampled calls that change a file or start a process: they lie between the events too, and inside the effects."""


def test_an_undisturbed_up_and_down_have_as_many_events_as_are_killed_here(site: Site) -> None:
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


@pytest.mark.parametrize("event", range(1, EVENTS_UP + 1))
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


@pytest.mark.parametrize("event", range(1, EVENTS_DOWN + 1, 5))
def test_down_killed_at_an_event_leaves_what_up_and_down_can_handle(site: Site, commands: Server, event: int) -> None:
    strangers = site.gpu_instances()
    site.up(SPEC)
    assert commands.run(Order(site=site, command="down", spec=SPEC, at_event=event)).killed

    site.up(SPEC)
    site.down()

    assert site.gpu_instances() == strangers
    assert not site.living()


@pytest.mark.parametrize("change", CHANGES_UP)
def test_up_killed_before_any_change_of_a_file_continues_with_up(site: Site, commands: Server, change: int) -> None:
    strangers = site.gpu_instances()
    assert commands.run(Order(site=site, command="up", spec=SPEC, at_change=change)).killed

    site.up(SPEC)

    site.assert_up(SPEC, strangers)


@pytest.mark.parametrize("change", CHANGES_DOWN)
def test_down_killed_before_any_change_of_a_file_is_finished_by_down(site: Site, commands: Server, change: int) -> None:
    strangers = site.gpu_instances()
    site.up(SPEC)
    assert commands.run(Order(site=site, command="down", spec=SPEC, at_change=change)).killed

    site.down()

    site.assert_gone(strangers)
