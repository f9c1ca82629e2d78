"""From a plan, a machine and what became of its jobs to the next wave: who starts where, with which cores, and who waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from migctl.core.choices import Strategy
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.topology import uniform_topology
from migctl.core.gpu.mig import ComputeInstance, Gpu, Instance, Placement
from migctl.core.machine import Machine
from migctl.core.plan import ByProfile, Job, Plan
from migctl.core.queueing.entries import Queue, requeued
from migctl.core.queueing.progress import Progress
from migctl.core.queueing.run_layout import lay_out_run
from migctl.core.queueing.turn import Why
from migctl.core.queueing.wave import Wave, next_wave
from migctl.core.runs.record import JobState, Ownership, Record
from migctl.errors import HostError
from migctl.nvml.models import board_gpu, resolve_board

A100 = board_gpu(resolve_board("a100-40gb"))
OFF = board_gpu(resolve_board("a100-40gb"), mig_on=False)
T4 = board_gpu(resolve_board("t4"))
NOW = 1_800_000_000.0
BOOT = "boot"


def job(name: str, profile: str | None = "1g.5gb", **keys: object) -> Job:
    made = Job(name=name, origin=name, command=("x",))
    if profile is not None:
        made = replace(made, request=ByProfile(profile))
    return replace(made, **keys)


def plan(*jobs: Job, **keys: object) -> Plan:
    return replace(Plan(name="sweep", path="", folder="/", jobs=jobs), **keys)


def machine(*gpus: Gpu, cores: int = 16, **fields: object) -> Machine:
    topology = uniform_topology(cores, 2)
    return replace(Machine(gpus=gpus, topology=topology, affinity=topology.online), **fields)


def at(gpu: Gpu, profile: str, start: int, gi_id: int) -> Instance:
    found = gpu.profile_named(profile)
    assert found is not None
    place = next(p for p in found.placements if p.start == start)
    compute = ComputeInstance(ci_id=0, mig_uuid=f"MIG-{gi_id}")
    return Instance(
        gpu_uuid=gpu.uuid, gi_id=gi_id, profile_id=found.id, profile=found.name, placement=place,
        compute_instances=(compute,),
    )  # fmt: skip


def record(name: str, instance: Instance | None, state: JobState, cpus: str = "", **fields: object) -> Record:
    owned = (
        Ownership(
            gpu_uuid=instance.gpu_uuid,
            gi_id=instance.gi_id,
            profile_id=instance.profile_id,
            placement=instance.placement,
            boot_id=BOOT,
            ci_id=0,
            mig_uuid=f"MIG-{instance.gi_id}",
        )
        if instance is not None
        else None
    )
    made = Record(
        run="sweep",
        job=name,
        token=f"token-{name}",
        runtime="process",
        strategy="mig",
        digest="",
        spec="",
        state=state,
        cpus=CpuSet.parse(cpus),
        cores=len(CpuSet.parse(cpus)) // 2,
        instance=owned,
        gpu_uuid=instance.gpu_uuid if instance else A100.uuid,
        profile=instance.profile if instance else None,
        profile_id=instance.profile_id if instance else None,
        placement=instance.placement if instance else None,
        started_at=NOW - 100,
        finished_at=NOW - 10 if state.ended else None,
    )
    return replace(made, **fields)


def wave(
    wanted: Plan,
    there: Machine,
    records: Mapping[str, Record] | None = None,
    *,
    queue: Queue | None = None,
    again: Mapping[str, float] | None = None,
) -> Wave:
    progress = Progress(records=records or {}, queue=queue or requeued(None, wanted, NOW), again=again or {})
    own = {
        (r.instance.gpu_uuid, r.instance.gi_id): f"sweep/{r.job}"
        for r in progress.records.values()
        if r.instance is not None
    }
    held = {name: r for name, r in progress.records.items() if not r.state.ended}
    return next_wave(wanted, replace(there, held=held, owners=own), progress, now=NOW)


def started(found: Wave) -> list[str]:
    return [start.job for start in found.starts]


def why(found: Wave) -> dict[str, Why]:
    return {name: reason.why for name, reason in found.waits.items()}


TEN = plan(*(job(f"j{n}") for n in range(10)))


def test_the_first_wave_fills_the_gpu_and_shares_the_cores_out_for_the_whole_life_of_the_run() -> None:
    first = wave(TEN, machine(A100))

    assert started(first) == [f"j{n}" for n in range(7)]
    assert why(first) == {"j7": Why.NO_ROOM, "j8": Why.NO_ROOM, "j9": Why.NO_ROOM}
    assert first.weights == (1,) * 7
    assert {a.job.name: a.cpu.cores for a in first.allocation.assignments} == {f"j{n}": 2 for n in range(7)}
    assert not first.beside_others


def test_the_next_job_of_the_same_profile_takes_the_instance_and_as_many_cores_as_the_first_wave_gave() -> None:
    old = at(A100, "1g.5gb", 0, 7)
    gpu = replace(A100, instances=(old,))
    records = {"j0": record("j0", old, JobState.SUCCEEDED)}

    found = wave(replace(TEN, jobs=TEN.jobs[:2]), machine(gpu), records, queue=Queue(wave=(1,) * 7))

    (start,) = found.starts
    assert (start.job, start.destroys) == ("j1", ())
    assert start.takes_over is not None
    assert (start.takes_over.gi_id, start.takes_over.owner) == (7, "sweep/j0")
    assert [a.cpu.cores for a in found.allocation.assignments] == [2]


def test_another_profile_has_the_room_cut_anew_and_what_runs_is_left_alone() -> None:
    runs, old = at(A100, "2g.10gb", 4, 3), at(A100, "3g.20gb", 0, 7)
    gpu = replace(A100, instances=(runs, old))
    records = {"a": record("a", runs, JobState.RUNNING, "0-3,16-19"), "b": record("b", old, JobState.FAILED)}

    found = wave(plan(job("a", "2g.10gb"), job("b", "3g.20gb"), job("c", "4g.20gb")), machine(gpu), records)

    (start,) = found.starts
    assert (start.job, start.placement.start if start.placement else None) == ("c", 0)
    assert [spare.owner for spare in start.destroys] == ["sweep/b"]
    given = {a.job.name: a.cpu.cpus for a in found.allocation.assignments}
    assert given["a"] == CpuSet.parse("0-3,16-19")
    assert not given["c"] & given["a"]


def test_an_instance_that_could_not_be_destroyed_is_worked_around() -> None:
    old = at(A100, "3g.20gb", 0, 7)
    records = {"a": record("a", old, JobState.FAILED)}
    wanted = plan(job("a", "3g.20gb"), job("b", "4g.20gb"), job("c", "3g.20gb"))
    there = machine(replace(A100, instances=(old,)))
    progress = Progress(records=records, queue=requeued(None, wanted, NOW), blocked=frozenset({(A100.uuid, 7)}))

    found = next_wave(wanted, there, progress, now=NOW)

    assert [(s.job, s.placement.start if s.placement else None, s.takes_over) for s in found.starts] == [("c", 4, None)]
    assert why(found) == {"b": Why.NO_ROOM}


def test_room_of_others_is_not_touched_and_looked_at_again() -> None:
    strangers = at(A100, "4g.20gb", 0, 1)

    found = wave(plan(job("a", "4g.20gb"), job("b", "3g.20gb")), machine(replace(A100, instances=(strangers,))))

    assert started(found) == ["b"]
    assert found.beside_others


STATES = (
    # what became of a; is it to be run again; taken out; state as turns go
    (None, None, False, JobState.QUEUED),
    (None, None, True, JobState.STOPPED),
    (JobState.RUNNING, None, False, JobState.RUNNING),
    (JobState.RUNNING, None, True, JobState.RUNNING),
    (JobState.FAILED, None, False, JobState.FAILED),
    (JobState.FAILED, NOW + 5, False, JobState.QUEUED),
    (JobState.FAILED, NOW + 5, True, JobState.STOPPED),
)


@pytest.mark.parametrize(("state", "again", "out", "expected"), STATES)
def test_the_state_of_a_job_as_turns_go(
    state: JobState | None, again: float | None, out: bool, expected: JobState
) -> None:
    progress = Progress(
        records={"a": record("a", None, state)} if state is not None else {},
        queue=Queue(stopped=("a",) if out else ()),
        again={"a": again} if again is not None else {},
    )

    assert progress.state("a") is expected


def test_a_job_that_failed_waits_for_the_end_of_its_pause_and_keeps_others_from_nothing() -> None:
    records = {"a": record("a", None, JobState.FAILED)}

    found = wave(plan(job("a"), job("b")), machine(A100), records, again={"a": NOW + 20})

    assert started(found) == ["b"]
    assert (found.waits["a"].why, found.waits["a"].until, found.wake_at) == (Why.LATER, NOW + 20, NOW + 20)


def test_one_after_another_each_has_the_largest_instance_or_the_gpu_itself() -> None:
    wanted = plan(job("a", None), job("b", None), strategy=Strategy.SEQUENTIAL)

    mig, whole = wave(wanted, machine(A100)), wave(wanted, machine(T4))

    assert [(s.job, s.profile.name if s.profile else None) for s in mig.starts] == [("a", "7g.40gb")]
    assert [(s.job, s.profile) for s in whole.starts] == [("a", None)]
    assert why(mig) == why(whole) == {"b": Why.NO_ROOM}
    assert [a.cpu.cores for a in whole.allocation.assignments] == [15], "all cores but the system's"


def test_a_gpu_whose_mode_would_have_to_change_is_no_place_to_start() -> None:
    with pytest.raises(HostError) as refused:
        wave(plan(job("a"), job("b")), machine(OFF))

    assert "mig" in refused.value.id


def test_between_two_starts_lies_a_pause() -> None:
    wanted = plan(*(job(name) for name in "abc"), stagger_s=60.0)

    first = wave(wanted, machine(A100))
    running = record("a", at(A100, "1g.5gb", 0, 7), JobState.RUNNING, "0,16", started_at=NOW - 10)
    gpu = replace(A100, instances=(at(A100, "1g.5gb", 0, 7),))
    early = wave(wanted, machine(gpu), {"a": running})
    due = wave(wanted, machine(gpu), {"a": replace(running, started_at=NOW - 60)})

    assert (started(first), first.wake_at, why(first)) == (["a"], NOW + 60, {"b": Why.LATER, "c": Why.LATER})
    assert (started(early), early.wake_at) == ([], NOW + 50)
    assert (started(due), due.wake_at) == (["b"], NOW + 60)


def test_jobs_without_a_free_core_wait() -> None:
    busy = at(A100, "1g.5gb", 0, 7)
    records = {"a": record("a", busy, JobState.RUNNING, "0-1,2-3")}

    found = wave(plan(job("a"), job("b")), machine(replace(A100, instances=(busy,)), cores=2), records)

    assert why(found) == {"b": Why.NO_CORE}


def test_a_place_whose_instance_is_about_to_be_made_is_taken() -> None:
    place = Placement(0, A100.profile_named("4g.20gb").placements[0].size)  # type: ignore[union-attr]  # an A100 has it
    profile = A100.profile_named("4g.20gb")
    assert profile is not None
    half = record("a", None, JobState.STARTING, "0,16", profile=profile.name, profile_id=profile.id, placement=place)

    found = wave(plan(job("a", "4g.20gb"), job("b", "4g.20gb"), job("c", "3g.20gb")), machine(A100), {"a": half})

    assert started(found) == ["c"]
    assert why(found) == {"b": Why.NO_ROOM}


@pytest.mark.parametrize("count", [8, 500])
def test_the_smallest_set_in_conflict_is_named_however_many_wait(count: int) -> None:
    wanted = plan(*(job(f"j{n}") for n in range(count)))

    layout = lay_out_run(wanted, machine(A100), Progress(queue=requeued(None, wanted, NOW)), now=NOW)

    assert layout.allocation.conflict == tuple(f"j{n}" for n in range(8))
    assert layout.allocation.blocked is not None
    assert layout.allocation.blocked.id == "does-not-fit"
    assert len(layout.allocation.waiting) == count - 7
