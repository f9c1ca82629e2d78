"""`instance: MIG-…`: jobs on an administrator's MIG device, which is used without root and never made or destroyed by migctl."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from migctl.core.plan import ByInstance, ByProfile, GpuSelector, Plan
from migctl.core.runs.ownership import ADMINISTRATORS
from migctl.core.runs.record import JobState
from migctl.engine.converge import UpResult, converge, preview
from migctl.engine.planning import Elsewhere, view
from migctl.engine.status import status
from migctl.engine.upoptions import UpOptions
from migctl.errors import Busy, MigctlError, PlanError
from migctl.nvml.simmodel import SimProcess
from migctl.nvml.simstate import SimState
from tests.support.crashes import Site, end_jobs, site_at

SMALL, LARGE = ("1g.5gb", 6), ("2g.10gb", 0)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with site_at(tmp_path, foreign=(SMALL, LARGE)) as made:
        yield made


def uuids(site: Site, gpu: int = 0) -> list[str]:
    """MIG UUIDs of the administrator's instances, by GI id: the large one, then the small one."""
    there = SimState.load(site.sim).gpus[gpu]
    return [i.compute[0].mig_uuid for i in there.instances]


def plan(site: Site, *wanted: str, gpus: Sequence[GpuSelector] = ()) -> Plan:
    """Jobs `a`, `b` … each on the device of this UUID, or on an instance of their own of this profile."""
    whole = site.plan(dict.fromkeys("abcdefg"[: len(wanted)], ""))
    jobs = [
        replace(job, request=ByInstance(word) if word.startswith("MIG-") else ByProfile(word))
        for job, word in zip(whole.jobs, wanted, strict=True)
    ]
    return replace(whole, jobs=tuple(jobs), gpus=tuple(gpus))


def up(site: Site, wanted: Plan) -> UpResult:
    import threading

    return converge(site.session(), wanted, UpOptions(), lambda _: None, threading.Event())


def refused(site: Site, wanted: Plan) -> MigctlError:
    before = site.gpu_instances()
    with pytest.raises(MigctlError) as caught:
        up(site, wanted)
    assert site.gpu_instances() == before
    assert not site.living()
    return caught.value


def test_a_job_runs_on_the_administrators_instance_and_down_leaves_it_as_it_was(site: Site) -> None:
    strangers = site.gpu_instances()
    large, _ = uuids(site)

    result = up(site, plan(site, large))

    record = result.records["a"]
    assert (record.state, record.profile, record.memory_mib) == (JobState.RUNNING, "2g.10gb", 9856)
    assert record.instance is not None
    assert (record.instance.mig_uuid, record.instance.foreign) == (large, True)
    assert record.cpus
    assert site.gpu_instances() == strangers
    environment = Path(f"/proc/{record.pid}/environ").read_bytes().split(b"\0")
    assert f"MIGCTL_MIG_UUID={large}".encode() in environment
    assert f"CUDA_VISIBLE_DEVICES={large}".encode() in environment
    assert up(site, plan(site, large)).started == ()
    site.down()
    site.assert_gone(strangers)


def test_it_works_beside_jobs_with_instances_of_their_own(site: Site) -> None:
    strangers = site.gpu_instances()
    large, small = uuids(site)

    result = up(site, plan(site, small, "2g.10gb", large))

    assert {r.state for r in result.records.values()} == {JobState.RUNNING}
    assert len(site.gpu_instances()) == len(strangers) + 1
    site.down()
    site.assert_gone(strangers)


def test_it_needs_no_right_to_change_the_gpu(site: Site) -> None:
    with SimState.edit(site.sim) as state:
        state.no_permission = True
    large, _ = uuids(site)

    result = up(site, plan(site, large))

    assert (result.records["a"].state, result.records["a"].profile) == (JobState.RUNNING, "2g.10gb")
    site.down()
    assert not site.living()


def test_plan_and_status_call_it_the_administrators(site: Site) -> None:
    large, small = uuids(site)
    wanted = plan(site, large)

    planned = view(site.session(), wanted, Elsewhere())
    up(site, wanted)
    shown = status(site.session(), None)

    (picture,) = planned.gpus
    assert [(s.job, s.owner) for s in picture.seats] == [("a", ADMINISTRATORS), (None, "not ours")]
    assert planned.steps == tuple(s for s in planned.steps if "instance" not in s)
    assert [(i.mig_uuids, i.owner, i.foreign) for i in shown.gpus[0].instances or ()] == [
        ((large,), ADMINISTRATORS, True),
        ((small,), "not ours", True),
    ]
    assert shown.drift == ()


def test_an_unknown_uuid_is_answered_with_what_there_is(site: Site) -> None:
    error = refused(site, plan(site, "MIG-11111111-1111-5111-8111-111111111111"))

    assert (type(error), error.id) == (PlanError, "no-such-instance")
    assert all(uuid in error.message for uuid in uuids(site))
    assert "2g.10gb, GPU 0" in error.message


def test_the_form_before_driver_470_is_answered_with_the_uuid_that_it_means(site: Site) -> None:
    gpu = SimState.load(site.sim).gpus[0]
    large = gpu.instances[0]

    error = refused(site, plan(site, f"MIG-{gpu.uuid}/{large.gi_id}/0"))
    other = refused(site, plan(site, f"MIG-{gpu.uuid}/{large.gi_id}/7"))

    assert (type(error), error.id) == (PlanError, "old-mig-uuid")
    assert error.hint == f"write {large.compute[0].mig_uuid}"
    assert "nvidia-smi -L" in (other.hint or "")


def test_a_uuid_with_a_slip_is_answered_with_the_one_that_was_meant(site: Site) -> None:
    large, _ = uuids(site)
    slip = large[:-1] + ("0" if large[-1] != "0" else "1")

    assert refused(site, plan(site, slip)).hint == f"did you mean {large}?"


def test_two_jobs_cannot_name_the_same_instance(site: Site) -> None:
    large, _ = uuids(site)

    error = refused(site, plan(site, large, large))

    assert (type(error), error.id) == (PlanError, "instance-twice")
    assert "a and b both name" in error.message


def test_a_second_run_cannot_name_the_instance_that_the_first_one_uses(site: Site) -> None:
    large, _ = uuids(site)
    up(site, plan(site, large))

    with pytest.raises(MigctlError) as caught:
        preview(site.session(), replace(plan(site, large), name="other"), UpOptions())

    assert caught.value.id == "instance-of-a-run"
    assert "/crash" in caught.value.message


def test_the_instance_of_a_run_of_ones_own_is_no_administrators(site: Site) -> None:
    site.up({"mine": "1g.5gb"})
    seen = site.settled()
    assert seen is not None
    owned = seen.records["mine"].instance
    assert owned is not None
    assert owned.mig_uuid is not None

    with pytest.raises(PlanError, match="crash/mine, a run of migctl's"):
        preview(site.session(), replace(plan(site, owned.mig_uuid), name="other"), UpOptions())


def test_a_foreign_process_on_it_is_named_and_refused(site: Site) -> None:
    large, _ = uuids(site)
    with subprocess.Popen(["sleep", "60"]) as stranger:
        with SimState.edit(site.sim) as state:
            gi_id = state.gpus[0].instances[0].gi_id
            state.gpus[0].processes.append(SimProcess(stranger.pid, gi_id, 100))
        error = refused(site, plan(site, large))
        stranger.kill()

    assert (type(error), error.id) == (Busy, "instance-in-use")
    assert re.search(rf"in use by pid {stranger.pid} \(sleep, of \w+\)", error.message)


def test_an_instance_on_a_gpu_that_the_plan_does_not_select_is_refused(tmp_path: Path) -> None:
    with site_at(tmp_path, foreign=(LARGE,), boards="a100-40gbx2") as site:
        (large,) = uuids(site)

        error = refused(site, plan(site, large, gpus=[GpuSelector(index=1)]))

        assert (error.id, error.hint) == (
            "instance-elsewhere",
            "gpu: 0, or leave gpu: away where every job names its instance",
        )


def test_with_several_gpus_the_uuid_alone_says_which(tmp_path: Path) -> None:
    with site_at(tmp_path, foreign=(LARGE,), boards="a100-40gbx2") as site:
        strangers = site.gpu_instances()

        result = up(site, plan(site, *uuids(site)))

        assert result.records["a"].state is JobState.RUNNING
        site.down()
        site.assert_gone(strangers)


def test_a_job_whose_instance_the_administrator_removes_is_lost(site: Site) -> None:
    large, _ = uuids(site)
    up(site, plan(site, large))
    with SimState.edit(site.sim) as state:
        del state.gpus[0].instances[0]

    seen = site.settled()

    assert seen is not None
    assert seen.records["a"].state is JobState.LOST
    assert seen.records["a"].reason == f"its instance {large} is gone: an administrator has removed it"
    assert any("lost (its instance" in line for line in status(site.session(), None).drift)
    site.down()
    assert not site.living()
    assert len(site.gpu_instances()) == 1


def test_its_share_of_the_cores_is_that_of_its_slices(tmp_path: Path) -> None:
    """The administrator's other instances belong to others, and so does their part of the cores."""
    cores = len(os.sched_getaffinity(0))
    with site_at(tmp_path, foreign=[("1g.5gb", start) for start in range(7)]) as site:
        result = up(site, replace(plan(site, uuids(site)[0]), oversubscribe=False))

        assert 1 <= len(result.records["a"].cpus) <= max(1, cores)
        end_jobs(tmp_path)
