"""An `up` that waits for whoever holds the GPU (`--wait-for`) keeps nobody else from the machine meanwhile."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from migctl.core.plan import Plan
from migctl.core.runs.events import Event, NoteEvent
from migctl.core.runs.record import JobState
from migctl.engine.converge import converge
from migctl.engine.upoptions import UpOptions
from migctl.errors import MigctlError
from migctl.host.lock import machine_lock
from migctl.nvml.codes import Code
from migctl.nvml.simstate import SimState
from tests.support.world import World

CREATE, COMPUTE = "nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceCreateComputeInstance"


class Waiting:
    """An `up` in a thread, which has come to wait for somebody."""

    def __init__(self, world: World, jobs: dict[str, str]) -> None:
        self.error: MigctlError | None = None
        self.cancel = threading.Event()
        self._waits = threading.Event()
        self._thread = threading.Thread(target=self._up, args=(world, jobs))
        self._thread.start()
        assert self._waits.wait(20)

    def _up(self, world: World, jobs: dict[str, str]) -> None:
        options = UpOptions(wait_for_s=20.0)
        try:
            converge(world.session(), modest(world.plan("one", jobs)), options, self._tell, self.cancel)
        except MigctlError as error:
            self.error = error
        self._waits.set()

    def _tell(self, event: Event) -> None:
        if isinstance(event, NoteEvent) and "waiting up to" in event.text:
            self._waits.set()

    def ended(self) -> MigctlError | None:
        self._thread.join(30)
        assert not self._thread.is_alive()
        return self.error


def modest(plan: Plan) -> Plan:
    """The same, with cores left for others."""
    return replace(plan, jobs=tuple(replace(job, cpus=2) for job in plan.jobs))


def in_use(world: World, call: str) -> None:
    with SimState.edit(world.sim) as state:
        state.set_fault(call, code=Code.IN_USE, times=0)


def free(world: World) -> None:
    with SimState.edit(world.sim) as state:
        state.faults.clear()


@pytest.mark.parametrize("call", [CREATE, COMPUTE])
def test_others_have_the_machine_while_an_up_waits_for_a_holder(tmp_path: Path, call: str) -> None:
    world = World(tmp_path, "a100-40gb")
    in_use(world, call)

    waiting = Waiting(world, {"a": "1g.5gb", "b": "2g.10gb"})
    with machine_lock(world.run_dir, "machine", wait_s=5.0):
        free(world)

    assert waiting.ended() is None
    assert {record.job: record.state for record in world.records()} == dict.fromkeys("ab", JobState.RUNNING)
    world.down("one")
    world.check_gone()


def test_who_makes_an_instance_there_meanwhile_keeps_it_and_the_first_leaves_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, "a100-40gb")
    in_use(world, CREATE)

    waiting = Waiting(world, {"a": "7g.40gb"})
    free(world)
    second = modest(world.plan("two", {"b": "7g.40gb"}))
    converge(world.session(), second, UpOptions(), lambda _: None, threading.Event())
    error = waiting.ended()

    assert error is not None
    assert (error.id, error.exit_code) == ("no-room", 5)
    assert [(r.run, r.job, r.state) for r in world.records()] == [("two", "b", JobState.RUNNING)]
    world.down("two")
    world.check_gone()


def test_a_signal_during_the_wait_leaves_nothing_although_another_has_the_machine(tmp_path: Path) -> None:
    world = World(tmp_path, "a100-40gb")
    in_use(world, CREATE)

    waiting = Waiting(world, {"a": "1g.5gb"})
    with machine_lock(world.run_dir, "machine", wait_s=5.0):
        waiting.cancel.set()
    error = waiting.ended()

    assert error is not None
    assert error.exit_code == 130
    assert world.records() == []
    world.check_gone()
