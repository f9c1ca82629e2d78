"""Every call of the driver succeeded, and what was asked for is not there: that is no success of `up`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from migctl.core.runs.events import Event, Moment, StepEvent
from migctl.core.runs.record import Action
from migctl.engine.converge import converge
from migctl.engine.upoptions import UpOptions
from migctl.errors import MigctlError
from migctl.nvml.simstate import SimState
from tests.support.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, "a100-40gb")
    yield made
    made.settle()
    made.down("one")
    made.check_gone()


def test_up_lists_again_and_what_is_missing_undoes_everything(world: World) -> None:
    """As where a hypervisor or another controller answers with success and takes the instance away (NVIDIA/mig-parted#9, #18)."""

    def vanish(event: Event) -> None:
        if isinstance(event, StepEvent) and (event.action, event.moment) == (Action.START, Moment.RECORDED):
            with SimState.edit(world.sim) as state:
                state.gpus[0].processes.clear()
                del state.gpus[0].instances[1:]

    plan = world.plan("one", {"a": "1g.10gb", "b": "2g.10gb"})
    with pytest.raises(MigctlError) as caught:
        converge(world.session(), plan, UpOptions(), vanish, threading.Event())

    (missing,) = [error for error in caught.value.all if error.id == "instance-missing"]
    assert "the driver reported success" in missing.message
    assert world.instances() == {}
    assert world.engine.running() == []
