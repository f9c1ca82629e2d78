"""Whose an instance is, through the whole engine on the simulator: what is not surely ours stays, and everything of ours goes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from migctl.core.runs.ownership import Standing, standing
from migctl.core.runs.record import Record
from migctl.engine.status import status
from migctl.errors import MigctlError, PartlyApplied
from migctl.nvml import simrules
from migctl.nvml.codes import Code
from migctl.nvml.models import resolve_board
from migctl.nvml.simmodel import SimInstance, SimProcess
from migctl.nvml.simstate import SimState
from tests.support.crashes import Site, site_at

ONE = {"one": "2g.10gb"}
MOMENT_S = 0.3
"""Nothing in here lets go of an instance after a while."""
CREATE_GPU = "nvmlDeviceCreateGpuInstanceWithPlacement"
CREATE_COMPUTE = "nvmlGpuInstanceCreateComputeInstance"
DESTROY_GPU = "nvmlGpuInstanceDestroy"
DESTROY_COMPUTE = "nvmlComputeInstanceDestroy"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with site_at(tmp_path) as made:
        yield replace(made, moment_s=MOMENT_S)


@contextmanager
def ours(site: Site) -> Iterator[tuple[SimState, SimInstance]]:
    """The instance of job `one`, to lay hands on."""
    owned = record(site).instance
    assert owned is not None
    with SimState.edit(site.sim) as state:
        instance = state.gpus[0].instance(owned.gi_id)
        assert instance is not None
        yield state, instance


def record(site: Site) -> Record:
    with site.session().ledger(write=False) as ledger:
        (found,) = ledger.records(site.run)
    return found


def fault(site: Site, call: str, effect: str, **how: int | bool) -> None:
    with SimState.edit(site.sim) as state:
        state.set_fault(call, effect, **how)  # type: ignore[arg-type]  # a test's shorthand


def assert_left_alone(site: Site, strangers: list[SimInstance]) -> None:
    """`down` ends the job, and what is not surely ours is as it was."""
    site.down()
    site.assert_gone(strangers)


def test_a_stranger_with_our_gi_id_but_another_profile_keeps_his_instance(site: Site) -> None:
    site.up({"one": "1g.10gb"})
    with ours(site) as (state, instance):
        state.gpus[0].instances.remove(instance)
        # On an A100 40GB the GI id is that of the placement: 2g.10gb and 1g.10gb have the same ones.
        taken = state.add_foreign_instance(0, "2g.10gb", instance.start)
        assert taken.gi_id == instance.gi_id
        assert taken.profile_id != instance.profile_id

    assert any("another GPU instance is in the place" in line for line in status(site.session(), None).drift)
    strangers = site.gpu_instances()
    (notice,) = site.down().notices
    assert notice.id == "instance-taken"
    assert f"GPU instance {taken.gi_id}, once of one, is not what migctl made any more" in notice.message
    site.assert_gone(strangers)


def test_a_stranger_with_our_gi_id_at_another_placement_keeps_his_instance(site: Site) -> None:
    site.up(ONE)
    with ours(site) as (state, instance):
        instance.start, instance.serial = 4 if instance.start != 4 else 2, state.next_serial()

    assert_left_alone(site, site.gpu_instances())


def test_a_mig_uuid_that_is_there_again_after_a_reboot_is_not_proof_that_it_is_ours(site: Site) -> None:
    site.up(ONE)
    old = record(site).instance
    assert old is not None
    site.reboot()
    with SimState.edit(site.sim) as state:
        again = state.add_foreign_instance(0, "2g.10gb", old.placement.start)
    assert again.gi_id == old.gi_id
    assert again.compute[0].mig_uuid == old.mig_uuid

    assert_left_alone(site, [again])


def test_up_after_a_reboot_makes_room_beside_the_stranger_who_has_our_old_ids(site: Site) -> None:
    site.up(ONE)
    old = record(site).instance
    assert old is not None
    site.reboot()
    (site.folder / "starts").unlink()
    with SimState.edit(site.sim) as state:
        again = state.add_foreign_instance(0, "2g.10gb", old.placement.start)

    site.up(ONE)

    fresh = record(site).instance
    assert fresh is not None
    assert fresh.placement != old.placement
    assert_left_alone(site, [again])


def test_an_instance_that_somebody_split_is_no_longer_ours(tmp_path: Path) -> None:
    with site_at(tmp_path, foreign=()) as made:
        site = replace(made, moment_s=MOMENT_S)
        site.up(ONE)
        with ours(site) as (state, instance):
            board = resolve_board(state.gpus[0].board)
            profile = board.profile(instance.profile_id)
            assert profile is not None
            part = simrules.compute_profiles(board, profile)[0]
            instance.compute.clear()
            for _ in range(2):
                simrules.add_compute(state.gpus[0], instance, part, state.next_serial(), "MIG-part-{}".format)

        assert_left_alone(site, site.gpu_instances())


def test_an_instance_whose_compute_instance_somebody_destroyed_is_still_removed(site: Site) -> None:
    """It holds no work, and all that is left of its identity is ours: `nvidia-smi mig -dci` leaves such halves (D4)."""
    strangers = site.gpu_instances()
    site.up(ONE)
    with ours(site) as (_, instance):
        instance.compute.clear()

    assert any("no compute instance" in line for line in status(site.session(), None).drift)
    assert_left_alone(site, strangers)


def test_an_instance_that_somebody_destroyed_by_hand_is_no_error_of_down(site: Site) -> None:
    strangers = site.gpu_instances()
    site.up(ONE)
    with ours(site) as (state, instance):
        state.gpus[0].instances.remove(instance)

    assert_left_alone(site, strangers)


def test_a_foreign_process_in_our_instance_is_never_pulled_from_under(site: Site) -> None:
    strangers = site.gpu_instances()
    site.up(ONE)
    with subprocess.Popen(["sleep", "60"]) as stranger:
        with ours(site) as (state, instance):
            state.gpus[0].processes.append(SimProcess(stranger.pid, instance.gi_id, 1))
        with pytest.raises(PartlyApplied, match="it is held by pid"):
            site.down()

        assert stranger.poll() is None
        assert len(site.gpu_instances()) == len(strangers) + 1
        stranger.kill()
    assert_left_alone(site, strangers)


@pytest.mark.parametrize("call", [DESTROY_GPU, DESTROY_COMPUTE])
def test_a_removal_that_was_only_pretended_is_done_again(site: Site, call: str) -> None:
    strangers = site.gpu_instances()
    site.up(ONE)
    fault(site, call, "pretend")

    assert_left_alone(site, strangers)


@pytest.mark.parametrize("call", [DESTROY_GPU, DESTROY_COMPUTE])
def test_a_remnant_that_stays_is_told_and_the_next_down_goes_on_there(site: Site, call: str) -> None:
    strangers = site.gpu_instances()
    site.up(ONE)
    fault(site, call, "pretend", times=0)

    with pytest.raises(PartlyApplied, match="reported success, but it is still there") as told:
        site.down()

    assert told.value.hint == f"migctl down {site.run}"
    with SimState.edit(site.sim) as state:
        state.faults.clear()
    assert_left_alone(site, strangers)


@pytest.mark.parametrize("code", [Code.UNKNOWN, Code.IN_USE, Code.GPU_IS_LOST])
@pytest.mark.parametrize("call", [CREATE_GPU, CREATE_COMPUTE])
def test_a_creation_that_succeeded_and_reported_an_error_leaves_nothing(site: Site, call: str, code: Code) -> None:
    strangers = site.gpu_instances()
    fault(site, call, "error", code=int(code), after=True)

    with pytest.raises(MigctlError) as refused:
        site.up(ONE)

    assert not isinstance(refused.value, PartlyApplied)
    assert site.gpu_instances() == strangers
    site.up(ONE)
    assert_left_alone(site, strangers)


@pytest.mark.parametrize("call", [DESTROY_GPU, DESTROY_COMPUTE])
def test_a_removal_that_succeeded_and_reported_an_error_is_finished_by_the_next_down(site: Site, call: str) -> None:
    strangers = site.gpu_instances()
    site.up(ONE)
    fault(site, call, "error", code=int(Code.UNKNOWN), after=True)
    with pytest.raises(PartlyApplied):
        site.down()

    assert_left_alone(site, strangers)


def test_a_half_made_instance_is_finished_by_up(site: Site) -> None:
    """GI without CI (B19, first case): the look-up lists GPU instances, not MIG devices."""
    strangers = site.gpu_instances()
    fault(site, CREATE_COMPUTE, "error")
    fault(site, DESTROY_GPU, "error", times=0)
    with pytest.raises(PartlyApplied):
        site.up(ONE)
    assert [i.compute == [] for i in site.gpu_instances() if i not in strangers] == [True]
    with SimState.edit(site.sim) as state:
        state.faults.clear()

    site.up(ONE)

    site.assert_up(ONE, strangers)
    assert_left_alone(site, strangers)


def test_a_half_removed_instance_is_finished_by_down(site: Site) -> None:
    """CI destroyed, GI destroy failed, retry (B19, second case)."""
    strangers = site.gpu_instances()
    site.up(ONE)
    fault(site, DESTROY_GPU, "error", times=2)
    with pytest.raises(PartlyApplied):
        site.down()
    assert [i.compute == [] for i in site.gpu_instances() if i not in strangers] == [True]
    with SimState.edit(site.sim) as state:
        state.faults.clear()

    assert_left_alone(site, strangers)


def test_an_instance_that_the_driver_put_elsewhere_is_removed_again(tmp_path: Path) -> None:
    with site_at(tmp_path, foreign=()) as made:
        site = replace(made, moment_s=MOMENT_S)
        site.up({"zero": "1g.5gb"})
        before = site.gpu_instances()
        wanted = {"zero": "1g.5gb", "one": "2g.10gb"}
        fault(site, CREATE_GPU, "misplace")

        with pytest.raises(MigctlError) as refused:
            site.up(wanted)

        assert refused.value.id == "wrong-placement"
        assert site.gpu_instances() == before
        site.down()
        site.assert_gone([])


def test_an_instance_put_elsewhere_whose_removal_failed_at_first_is_removed_by_the_undoing(tmp_path: Path) -> None:
    with site_at(tmp_path, foreign=()) as made:
        site = replace(made, moment_s=MOMENT_S)
        site.up({"zero": "1g.5gb"})
        before = site.gpu_instances()
        fault(site, CREATE_GPU, "misplace")
        fault(site, DESTROY_GPU, "error", code=int(Code.IN_USE))

        with pytest.raises(MigctlError) as refused:
            site.up({"zero": "1g.5gb", "one": "2g.10gb"})

        assert refused.value.id == "wrong-placement"
        assert site.gpu_instances() == before
        site.down()
        site.assert_gone([])


def test_an_instance_put_elsewhere_that_cannot_be_removed_is_recorded_until_down_removes_it(tmp_path: Path) -> None:
    with site_at(tmp_path, foreign=()) as made:
        site = replace(made, moment_s=MOMENT_S)
        site.up({"zero": "1g.5gb"})
        fault(site, CREATE_GPU, "misplace")
        fault(site, DESTROY_GPU, "error", code=int(Code.IN_USE), times=0)
        wanted = {"zero": "1g.5gb", "one": "2g.10gb"}
        with pytest.raises(PartlyApplied):
            site.up(wanted)
        with SimState.edit(site.sim) as state:
            state.faults.clear()

        seen = site.settled()
        assert seen is not None
        owned = seen.records["one"].instance
        assert owned is not None
        assert owned.placement != seen.records["one"].placement
        assert standing(owned, seen.observed) is Standing.HALF
        site.up(wanted)
        site.assert_up(wanted, [])
        site.down()
        site.assert_gone([])


def test_what_changed_hands_between_the_look_and_the_removal_is_left_alone(site: Site) -> None:
    """The last look is the driver's own, at the very instance that it is about to remove."""
    site.up({"one": "1g.10gb"})
    owned = record(site).instance
    assert owned is not None
    with ours(site) as (state, instance):
        state.gpus[0].instances.remove(instance)
        state.add_foreign_instance(0, "2g.10gb", instance.start, compute=False)
    there = site.gpu_instances()

    with site.session().driver() as driver:
        driver.gpus()
        driver.destroy_gpu_instance(owned.gpu_uuid, owned.gi_id, profile_id=owned.profile_id, placement=owned.placement)
        driver.destroy_compute_instance(owned.gpu_uuid, owned.gi_id, 0, mig_uuid="MIG-somebody-else")

    assert site.gpu_instances() == there
