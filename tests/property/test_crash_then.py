"""What else can have happened between a kill and the next command: damage, strangers, a reboot; and deaths inside NVML calls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from migctl.core.runs.record import JobState
from migctl.engine.down import stop_jobs
from migctl.errors import Busy
from migctl.nvml.simstate import SimState
from tests.support.crash_server import Order, Server
from tests.support.crashes import Site, site_at

SPEC = {"one": "2g.10gb", "two": "1g.5gb"}
ONE = {"one": "2g.10gb"}
CREATE_GPU = "nvmlDeviceCreateGpuInstanceWithPlacement"
CREATE_COMPUTE = "nvmlGpuInstanceCreateComputeInstance"
DESTROY_GPU = "nvmlGpuInstanceDestroy"
DESTROY_COMPUTE = "nvmlComputeInstanceDestroy"
BEFORE_THE_FIRST_EFFECT = 1
EVENTS_OF_ONE = range(1, 13)
STARTED = 11
"""The event that tells that the job was started."""


def delete(store: Path) -> None:
    for path in store.parent.glob(f"{store.name}*"):
        path.unlink()


def fill_with_garbage(store: Path) -> None:
    store.write_bytes(b"no database " * 1000)


def plan_death(site: Site, call: str, nth: int, *, after: bool) -> None:
    with SimState.edit(site.sim) as state:
        state.set_fault(call, "die", nth=nth, after=after)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("call", [CREATE_GPU, CREATE_COMPUTE])
@pytest.mark.parametrize("then", ["up", "down"])
def test_death_inside_a_creation_leaves_nothing_unknown(
    site: Site, commands: Server, call: str, nth: int, after: bool, then: str
) -> None:
    strangers = site.gpu_instances()
    plan_death(site, call, nth, after=after)
    assert commands.run(Order(site=site, command="up", spec=SPEC)).killed

    if then == "up":
        site.up(SPEC)
        site.assert_up(SPEC, strangers)
    site.down()

    site.assert_gone(strangers)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("call", [DESTROY_GPU, DESTROY_COMPUTE])
def test_death_inside_a_removal_is_finished_by_down(
    site: Site, commands: Server, call: str, nth: int, after: bool
) -> None:
    strangers = site.gpu_instances()
    site.up(SPEC)
    plan_death(site, call, nth, after=after)
    assert commands.run(Order(site=site, command="down", spec=SPEC)).killed

    site.down()

    site.assert_gone(strangers)


@pytest.mark.parametrize("damage", [delete, fill_with_garbage])
@pytest.mark.parametrize("event", range(1, 25, 4))
def test_a_store_lost_with_the_crash_is_rebuilt_from_the_owner_files(
    site: Site, commands: Server, damage: Callable[[Path], None], event: int
) -> None:
    strangers = site.gpu_instances()
    assert commands.run(Order(site=site, command="up", spec=SPEC, at_event=event)).killed
    stores = list(site.state.glob("*.db")) + list(site.state.glob("*.sqlite*"))
    assert stores
    damage(stores[0])

    site.up(SPEC)

    site.assert_up(SPEC, strangers)
    site.down()
    site.assert_gone(strangers)


@pytest.mark.parametrize("damage", [delete, fill_with_garbage])
def test_down_works_from_the_owner_files_alone(site: Site, commands: Server, damage: Callable[[Path], None]) -> None:
    strangers = site.gpu_instances()
    assert commands.run(Order(site=site, command="up", spec=SPEC, at_event=14)).killed
    damage(next(iter([*site.state.glob("*.db"), *site.state.glob("*.sqlite*")])))

    site.down()

    site.assert_gone(strangers)


def stranger_takes_the_place(site: Site) -> None:
    with site.session().ledger(write=False) as ledger:
        (record,) = ledger.records(site.run)
    assert record.placement is not None
    with SimState.edit(site.sim) as state:
        state.add_foreign_instance(0, record.profile or "", record.placement.start)


def test_a_stranger_who_takes_the_very_placement_is_no_part_of_the_killed_up(site: Site, commands: Server) -> None:
    commands.run(Order(site=site, command="up", spec=ONE, at_event=BEFORE_THE_FIRST_EFFECT))
    stranger_takes_the_place(site)
    strangers = site.gpu_instances()

    site.up(ONE)

    site.assert_up(ONE, strangers)
    site.down()
    site.assert_gone(strangers)


def test_down_leaves_the_stranger_on_the_very_placement(site: Site, commands: Server) -> None:
    commands.run(Order(site=site, command="up", spec=ONE, at_event=BEFORE_THE_FIRST_EFFECT))
    stranger_takes_the_place(site)
    strangers = site.gpu_instances()

    site.down()

    site.assert_gone(strangers)


def test_up_that_a_stranger_leaves_no_room_for_changes_nothing_and_down_cleans_up(site: Site, commands: Server) -> None:
    spec = {"one": "3g.20gb"}
    commands.run(Order(site=site, command="up", spec=spec, at_event=BEFORE_THE_FIRST_EFFECT))
    stranger_takes_the_place(site)
    strangers = site.gpu_instances()

    with pytest.raises(Busy, match="not ours holds"):
        site.up(spec)
    assert site.gpu_instances() == strangers

    site.down()
    site.assert_gone(strangers)


@pytest.mark.parametrize("compute", [True, False], ids=["whole", "half-made"])
def test_a_stranger_quicker_than_our_creation_keeps_its_instance(site: Site, compute: bool) -> None:
    """The driver refuses ours for want of room: then even an instance without compute instance is not what we made."""

    def be_quicker(event: object) -> None:
        if not strangers:
            with SimState.edit(site.sim) as state:
                with site.session().ledger(write=False) as ledger:
                    (record,) = ledger.records(site.run)
                assert record.placement is not None
                state.add_foreign_instance(0, record.profile or "", record.placement.start, compute=compute)
            strangers.extend(site.gpu_instances())

    strangers: list[object] = []
    with pytest.raises(Busy) as refused:
        site.up(ONE, report=be_quicker)

    assert refused.value.id == "no-room"
    assert site.gpu_instances() == strangers
    site.down()
    site.assert_gone(site.gpu_instances())
    assert site.gpu_instances() == strangers


@pytest.mark.parametrize("event", EVENTS_OF_ONE)
@pytest.mark.parametrize("then", ["up", "down"])
def test_after_a_reboot_nothing_is_mistaken_for_what_the_killed_up_made(
    site: Site, commands: Server, event: int, then: str
) -> None:
    """The instances are gone, and somebody has made one where ours was."""
    commands.run(Order(site=site, command="up", spec=ONE, at_event=event))
    site.reboot()
    stranger_takes_the_place(site)
    strangers = site.gpu_instances()

    if then == "up":
        result = site.up(ONE)
        assert result.records["one"].state is JobState.RUNNING
        assert result.records["one"].boot_id == SimState.load(site.sim).boot_id
        assert all(stranger in site.gpu_instances() for stranger in strangers)
    site.down()

    assert site.gpu_instances() == strangers
    assert not site.living()


@pytest.mark.parametrize("change", range(1, 74, 8))
@pytest.mark.parametrize("then", ["up", "down"])
def test_a_mode_turned_on_by_a_killed_up_is_off_again_after_down(
    tmp_path: Path, commands: Server, change: int, then: str
) -> None:
    with site_at(tmp_path, foreign=(), boards="h100-sxm5-80gb:off") as site:
        spec = {"one": "1g.10gb"}
        assert commands.run(Order(site=site, command="up", spec=spec, at_change=change)).killed

        if then == "up":
            site.up(spec)
            site.assert_up(spec, [])
        site.down()

        site.assert_gone([])
        (gpu,) = SimState.load(site.sim).gpus
        assert (gpu.current, gpu.pending) == (False, False)


@pytest.mark.parametrize("event", EVENTS_OF_ONE)
def test_a_plan_changed_after_the_kill_is_what_the_next_up_brings_up(site: Site, commands: Server, event: int) -> None:
    """Unless the job runs already: then it is kept as it is."""
    strangers = site.gpu_instances()
    changed = {"one": "1g.5gb"}
    commands.run(Order(site=site, command="up", spec=ONE, at_event=event))

    site.up(changed)

    if event < STARTED:
        site.assert_up(changed, strangers)
        assert [i.size for i in site.gpu_instances()] == [1, 1]
    site.down()
    site.assert_gone(strangers)


@pytest.mark.parametrize("event", [1, 5, 8])
def test_stopping_a_job_that_a_killed_up_never_started_is_no_error(site: Site, commands: Server, event: int) -> None:
    strangers = site.gpu_instances()
    commands.run(Order(site=site, command="up", spec=ONE, at_event=event))

    stop_jobs(site.session(), site.run, ["one"], grace_s=0.0, report=lambda _: None, cancel=threading.Event())

    site.down()
    site.assert_gone(strangers)
