"""After a reboot: what is told to be gone, what comes back, what is not run again, and what is not mistaken for ours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from migctl.core.runs.record import JobState
from migctl.core.runs.settle import RESTARTED
from migctl.engine.status import status
from migctl.engine.upoptions import UpOptions
from migctl.errors import HostError, MigctlError
from tests.support.world import World

AMPERE, HOPPER = "a100-40gb", "h100-sxm5-80gb:off"
JOBS = {"a": "1g.10gb", "b": "1g.10gb", "c": "1g.10gb"}
NO, RESUME, FAILED = UpOptions(), UpOptions(resume=True), UpOptions(resume=True, retry=True)


@pytest.fixture(params=[AMPERE, HOPPER])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    made = World(tmp_path, request.param)
    yield made
    made.settle()
    made.down("one")
    made.check_gone()


def after_a_reboot(world: World, *, ended: dict[str, int] | None = None, reboot: bool = True) -> None:
    """Three jobs run; some end with these codes; then the machine is restarted."""
    world.up(world.plan("one", JOBS), NO)
    for container in world.engine.running():
        if container.launch.job in (ended or {}):
            world.engine.end(container, (ended or {})[container.launch.job])
    if reboot:
        world.reboot()


def states(world: World) -> dict[str, tuple[JobState, int]]:
    return {name: (r.state, r.attempt) for name, r in world.looks()["one"].records.items()}


def test_status_tells_what_the_restart_took_and_how_it_comes_back(world: World) -> None:
    after_a_reboot(world, ended={"a": 0})

    shown = status(world.session(), None)

    jobs = {job.name: (job.state, job.reason) for job in shown.runs[0].jobs}
    assert jobs == {
        "a": (JobState.SUCCEEDED, None),
        "b": (JobState.LOST, RESTARTED),
        "c": (JobState.LOST, RESTARTED),
    }
    (notice,) = [n for n in shown.notices if n.id == "restarted"]
    mode = "the MIG mode of GPU 0, " if world.boards == HOPPER else ""
    assert notice.message == f"{RESTARTED} since one was started. Gone with it: {mode}3 GPU instances; lost: b, c"
    assert notice.hint == f"migctl resume one{' --enable-mig' if mode else ''}"
    assert sum(f"its GPU instance is gone: {RESTARTED}" in line for line in shown.drift) == 3


@pytest.mark.parametrize("options", [NO, RESUME], ids=["up", "resume"])
def test_what_had_not_finished_runs_again_and_what_had_succeeded_does_not(world: World, options: UpOptions) -> None:
    after_a_reboot(world, ended={"a": 0})

    result = world.up(world.plan("one", JOBS), options)

    assert sorted(result.started) == ["b", "c"]
    assert states(world) == {"a": (JobState.SUCCEEDED, 1), "b": (JobState.RUNNING, 2), "c": (JobState.RUNNING, 2)}
    assert len(world.instances()) == 2
    world.check()


def test_jobs_that_failed_by_themselves_before_it_wait_for_resume_failed(world: World) -> None:
    after_a_reboot(world, ended={"a": 1})

    world.up(world.plan("one", JOBS), RESUME)
    assert states(world)["a"] == (JobState.FAILED, 1)
    result = world.up(world.plan("one", JOBS), FAILED)

    assert result.started == ("a",)
    assert states(world) == {"a": (JobState.RUNNING, 2), "b": (JobState.RUNNING, 2), "c": (JobState.RUNNING, 2)}


def test_a_job_lost_in_this_boot_waits_for_resume(world: World) -> None:
    after_a_reboot(world, reboot=False)
    (gone,) = [c for c in world.engine.running() if c.launch.job == "a"]
    world.engine.end(gone, 137)
    del world.engine.containers[gone.handle]

    assert world.up(world.plan("one", JOBS), NO).started == ()
    assert states(world)["a"] == (JobState.LOST, 1)
    assert world.up(world.plan("one", JOBS), RESUME).started == ("a",)


def test_a_second_restart_brings_the_jobs_back_once_more(world: World) -> None:
    after_a_reboot(world)
    world.up(world.plan("one", JOBS), NO)
    world.reboot()

    world.up(world.plan("one", JOBS), NO)

    assert states(world) == dict.fromkeys(JOBS, (JobState.RUNNING, 3))


def test_nothing_of_a_stranger_is_touched_whatever_stale_ids_say(world: World) -> None:
    after_a_reboot(world)
    if world.boards == HOPPER:
        with_mode_on(world)
    for start in (0, 2):
        world.stranger_comes(0, "1g.10gb" if world.boards == AMPERE else "1g.20gb", start, compute=True)
    strangers = dict(world.strangers)
    assert strangers

    world.up(world.plan("one", dict(list(JOBS.items())[:2])), RESUME)

    world.check()
    assert world.strangers == strangers


def with_mode_on(world: World) -> None:
    """An administrator was quicker."""
    session = world.session()
    with session.driver() as driver:
        driver.set_mig_mode(driver.gpus()[0].uuid, enabled=True)


def test_the_mode_comes_back_only_with_permission(tmp_path: Path) -> None:
    world = World(tmp_path, HOPPER)
    after_a_reboot(world)

    with pytest.raises(HostError) as refused:
        world.up(world.plan("one", JOBS, enable_mig=False), RESUME)

    assert (refused.value.id, refused.value.exit_code) == ("mig-mode-off", 4)
    assert not world.state().gpus[0].current
    world.up(world.plan("one", JOBS), RESUME)
    assert states(world) == dict.fromkeys(JOBS, (JobState.RUNNING, 2))
    world.down("one")
    assert not world.state().gpus[0].current


def test_where_everything_had_succeeded_a_lost_mode_is_no_obstacle(tmp_path: Path) -> None:
    world = World(tmp_path, HOPPER)
    after_a_reboot(world, ended=dict.fromkeys(JOBS, 0))

    result = world.up(world.plan("one", JOBS, enable_mig=False), NO)

    assert result.started == ()
    assert not world.state().gpus[0].current


def test_the_place_of_an_ended_job_whose_instance_is_gone_is_free_for_others(tmp_path: Path) -> None:
    world = World(tmp_path, AMPERE)
    world.up(world.plan("one", {"a": "3g.20gb", "b": "3g.20gb"}), NO)
    for container in world.engine.running():
        if container.launch.job == "a":
            world.engine.end(container, 0)
    world.reboot()
    world.stranger_comes(0, "3g.20gb", 4, compute=True)

    world.up(world.plan("one", {"a": "3g.20gb", "b": "3g.20gb"}), NO)

    assert states(world) == {"a": (JobState.SUCCEEDED, 1), "b": (JobState.RUNNING, 2)}
    world.check()


def test_a_job_on_an_administrators_instance_comes_back_when_the_instance_has(tmp_path: Path) -> None:
    """mig-parted's service makes them anew at boot, with the same UUIDs."""
    world = World(tmp_path, AMPERE)
    world.stranger_comes(0, "2g.10gb", 0, compute=True)
    (uuid,) = world.strangers_uuids()
    plan = world.plan("one", {"a": uuid})
    world.up(plan, NO)
    world.reboot()
    with pytest.raises(MigctlError) as refused:
        world.up(plan, NO)
    assert refused.value.id == "no-such-instance"
    world.stranger_comes(0, "2g.10gb", 0, compute=True)

    world.up(plan, NO)

    assert states(world) == {"a": (JobState.RUNNING, 2)}
    world.down("one")
    world.check_gone()


def test_resume_takes_up_what_a_killed_resume_left(world: World) -> None:
    from tests.support.fake_engine import Killed

    after_a_reboot(world)
    with pytest.raises(Killed):
        world.up(world.plan("one", JOBS), RESUME, kill_at=17)
    world.settle()

    world.up(world.plan("one", JOBS), RESUME)

    assert {name: state for name, (state, _) in states(world).items()} == dict.fromkeys(JOBS, JobState.RUNNING)
    world.check()


def test_only_the_jobs_of_the_run_are_resumed(world: World) -> None:
    after_a_reboot(world)
    plan = world.plan("one", {**JOBS, "later": "1g.10gb"})

    world.up(replace(plan, jobs=tuple(j for j in plan.jobs if j.name in JOBS)), RESUME)

    assert set(states(world)) == set(JOBS)
