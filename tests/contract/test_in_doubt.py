"""A creation that failed halfway on a GPU that then cannot be read: what may be there keeps its record until it is seen again."""

from __future__ import annotations

from pathlib import Path

import pytest

from migctl.core.runs.record import Action
from migctl.engine.upoptions import UpOptions
from migctl.errors import HostError, MigctlError, PartlyApplied
from migctl.nvml.simstate import SimState
from tests.support.world import World

NO = UpOptions()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, "a100-40gb")


def unreadable(world: World, times: int) -> None:
    """The driver fails to tell about instances: right after the creation, and `times - 1` looks later still."""
    with SimState.edit(world.sim) as state:
        state.set_fault("nvmlGpuInstanceGetInfo", times=times)


def test_where_the_instance_is_seen_again_at_once_it_is_removed(world: World) -> None:
    unreadable(world, 1)

    with pytest.raises(HostError):
        world.up(world.plan("one", {"a": "1g.5gb"}), NO)
    world.check_gone()


@pytest.mark.parametrize("times", [2, 3, 5])
def test_where_it_is_not_seen_its_record_stays_and_down_removes_it_later(world: World, times: int) -> None:
    unreadable(world, times)

    with pytest.raises(PartlyApplied) as caught:
        world.up(world.plan("one", {"a": "1g.5gb"}), NO)
    assert "whether 1g.5gb at 0:1 was made for a cannot be seen" in caught.value.message
    assert "migctl down one" in str(caught.value.hint)
    world.settle()
    with world.session().ledger(write=False) as ledger:
        assert [r.intent for r in ledger.records("one")] == [Action.CREATE_GPU_INSTANCE]

    world.down("one")
    world.check_gone()


def test_down_too_keeps_the_record_while_the_gpu_does_not_tell(world: World) -> None:
    unreadable(world, 2)
    with pytest.raises(PartlyApplied):
        world.up(world.plan("one", {"a": "1g.5gb"}), NO)
    world.settle()
    unreadable(world, 9)

    with pytest.raises(MigctlError):
        world.down("one")
    world.settle()
    assert len(world.instances()) == 1
    world.up(world.plan("one", {"a": "1g.5gb"}), NO)
    world.check()
    world.down("one")
    world.check_gone()


@pytest.mark.parametrize("times", [2, 3, 5])
def test_a_compute_instance_that_was_made_unseen_is_known_for_ours_again(world: World, times: int) -> None:
    """Its creation is carried out, and then the driver fails to tell of it: while it is made, and at the looks after that."""
    with SimState.edit(world.sim) as state:
        state.set_fault("nvmlComputeInstanceGetInfo_v2", times=times)

    with pytest.raises(PartlyApplied) as caught:
        world.up(world.plan("one", {"a": "1g.5gb"}), NO)
    assert "whether the compute instance of 1g.5gb at 0:1 was made for a cannot be seen" in caught.value.message
    world.settle()
    world.check()

    world.down("one")
    world.check_gone()
