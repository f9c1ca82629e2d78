"""Jobs that share a GPU instance: who sits with whom, what each gets, and which seats a queue finds free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from migctl.core.choices import Strategy
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.topology import uniform_topology
from migctl.core.gpu.company import Company, company, company_of, seat_memory_mib
from migctl.core.gpu.layout import lay_out
from migctl.core.gpu.mig import ComputeInstance, Gpu, Instance
from migctl.core.gpu.mps import served, uses_mps, with_company
from migctl.core.gpu.parties import crowd, parties
from migctl.core.machine import Machine
from migctl.core.plan import ByMemory, ByProfile, Job, MpsShare, Plan
from migctl.core.queueing.entries import requeued
from migctl.core.queueing.handing import handings, sole_owners
from migctl.core.queueing.progress import Progress
from migctl.core.queueing.run_layout import Layout, lay_out_run
from migctl.core.queueing.wave import Wave, next_wave
from migctl.core.runs.observed import Observed
from migctl.core.runs.reconcile import steps_down
from migctl.core.runs.record import Action, JobState, Ownership, Record
from migctl.core.runs.sameness import spec
from migctl.nvml.models import board_gpu, resolve_board

A100 = board_gpu(resolve_board("a100-40gb"))
A30 = board_gpu(resolve_board("a30"))
NOW = 1_800_000_000.0
BOOT = "boot"


def job(name: str, profile: str | None = "2g.10gb", seats: int = 2, **keys: object) -> Job:
    made = Job(name=name, origin=name, command=("x",), per_instance=seats)
    if profile is not None:
        made = replace(made, request=ByProfile(profile))
    return replace(made, **keys)


def jobs(names: str, profile: str | None = "2g.10gb", seats: int = 2, **keys: object) -> list[Job]:
    return [job(name, profile, seats, **keys) for name in names.split()]


def plan(*wanted: Job, **keys: object) -> Plan:
    return replace(Plan(name="sweep", path="", folder="/", jobs=wanted), **keys)


def machine(*gpus: Gpu, cores: int = 16, **fields: object) -> Machine:
    topology = uniform_topology(cores, 2)
    return replace(Machine(gpus=gpus or (A100,), topology=topology, affinity=topology.online), **fields)


def answer(wanted: Plan, there: Machine | None = None) -> Layout:
    return lay_out_run(wanted, there or machine(), Progress(queue=requeued(None, wanted, NOW)), now=NOW)


def places(layout: Layout) -> dict[str, str]:
    return {a.job.name: f"{a.profile.name}@{a.placement}" for a in layout.allocation.assignments if a.profile}


def together(layout: Layout) -> list[list[str]]:
    found: dict[object, list[str]] = {}
    for a in layout.allocation.assignments:
        found.setdefault((a.gpu_uuid, a.placement), []).append(a.job.name)
    return list(found.values())


def made(gpu: Gpu, profile: str, start: int, gi_id: int) -> Instance:
    found = gpu.profile_named(profile)
    assert found is not None
    place = next(p for p in found.placements if p.start == start)
    return Instance(
        gpu_uuid=gpu.uuid,
        gi_id=gi_id,
        profile_id=found.id,
        profile=found.name,
        placement=place,
        compute_instances=(ComputeInstance(ci_id=0, mig_uuid=f"MIG-{gi_id}"),),
    )


def record(of: Job, instance: Instance, state: JobState, *, cpus: str = "", created_at: float = 0.0) -> Record:
    return Record(
        run="sweep",
        job=of.name,
        token=f"token-{of.name}",
        runtime="process",
        strategy="mig",
        digest="",
        spec=spec(of),
        state=state,
        cpus=CpuSet.parse(cpus),
        cores=len(CpuSet.parse(cpus)) // 2,
        gpu_uuid=instance.gpu_uuid,
        profile=instance.profile,
        profile_id=instance.profile_id,
        placement=instance.placement,
        created_at=created_at,
        started_at=NOW - 100,
        container_id=f"container-{of.name}",
        finished_at=NOW - 10 if state.ended else None,
        instance=Ownership(
            gpu_uuid=instance.gpu_uuid,
            gi_id=instance.gi_id,
            profile_id=instance.profile_id,
            placement=instance.placement,
            boot_id=BOOT,
            ci_id=0,
            mig_uuid=f"MIG-{instance.gi_id}",
        ),
    )


def wave(wanted: Plan, gpu: Gpu, *records: Record) -> Wave:
    known = {r.job: r for r in records}
    progress = Progress(records=known, queue=requeued(None, wanted, NOW))
    own = {(r.instance.gpu_uuid, r.instance.gi_id): f"sweep/{r.job}" for r in records if r.instance is not None}
    held = {name: r for name, r in known.items() if not r.state.ended}
    return next_wave(wanted, machine(gpu, held=held, owners=own), progress, now=NOW)


def with_instances(*instances: Instance, gpu: Gpu = A100) -> Gpu:
    return replace(gpu, instances=instances)


# Who sits with whom


def test_jobs_that_ask_for_the_same_sit_together_in_the_plans_order() -> None:
    wanted = plan(*jobs("a b", "1g.5gb"), job("alone", "1g.5gb", 1), *jobs("c d e", "1g.5gb"))

    assert together(answer(wanted)) == [["a", "b"], ["alone"], ["c", "d"], ["e"]]
    assert [[one.name for one in party] for party in parties(wanted.jobs)] == [["a", "b"], ["alone"], ["c", "d"], ["e"]]


@pytest.mark.parametrize(
    "other",
    [
        job("b", "3g.20gb"),
        job("b", seats=3),
        job("b", mps=MpsShare()),
        job("b", seats=1),
        job("b", None),
    ],
    ids=["profile", "seats", "mps", "alone", "auto"],
)
def test_jobs_that_differ_in_what_is_shared_do_not_sit_together(other: Job) -> None:
    assert len(parties([job("a"), other])) == 2


def test_what_does_not_concern_the_instance_may_differ() -> None:
    assert len(parties([job("a", command=("x",)), job("b", command=("y",), cpus=2)])) == 1


def test_clients_of_one_server_have_one_user() -> None:
    one, other = job("a", mps=MpsShare(), user="1000"), job("b", mps=MpsShare(), user="1001")

    assert len(parties([one, other])) == 2
    assert len(parties([one, replace(other, user="1000", mps=MpsShare(active_threads_percent=30))])) == 1
    assert company(replace(one, mps=None)) == company(replace(other, mps=None)) == Company(2)


def test_a_record_tells_its_company_by_the_jobs_own_keys() -> None:
    one = job("a", mps=MpsShare(), user="1000")

    assert (
        company_of(record(one, made(A100, "2g.10gb", 0, 1), JobState.RUNNING))
        == company(one)
        == Company(2, True, "1000")
    )
    assert company_of(replace(record(one, made(A100, "2g.10gb", 0, 1), JobState.RUNNING), spec="")) is None
    assert company_of(record(job("a", seats=1), made(A100, "2g.10gb", 0, 1), JobState.RUNNING)) is None


def test_more_jobs_than_instances_run_at_once_each_with_its_own_cores() -> None:
    found = answer(plan(*jobs("a b c d e f g h i j k l m n", "1g.5gb")), machine(cores=28))

    assert found.wave is None
    assert [len(party) for party in together(found)] == [2] * 7
    cpus = [cpu for a in found.allocation.assignments for cpu in a.cpu.cpus]
    assert len(cpus) == len(set(cpus)) == 56
    assert {a.cpu.num_workers for a in found.allocation.assignments} == {2}
    assert {a.memory_mib for a in found.allocation.assignments} == {4864 // 2}


def test_cores_go_by_each_jobs_part_of_the_compute_slices() -> None:
    found = answer(plan(job("large", "4g.20gb", 1), *jobs("a b c", "3g.20gb", 3)), machine(cores=14))

    assert {a.job.name: a.cpu.cores for a in found.allocation.assignments} == {"large": 8, "a": 2, "b": 2, "c": 2}
    assert found.allocation.weights == (4, 1, 1, 1)


@pytest.mark.parametrize(
    ("share", "expected"),
    [(None, 4928), (MpsShare(), 4928), (MpsShare(memory_mib=3072), 3072), (MpsShare(memory_mib=99999), 9856)],
)
def test_a_job_may_use_its_limit_or_an_equal_part_of_the_memory(share: MpsShare | None, expected: int) -> None:
    profile = A100.profile_named("2g.10gb")
    assert profile is not None
    assert profile.memory_mib == 9856

    assert seat_memory_mib(profile, job("a", mps=share)) == expected


def test_the_instance_holds_the_memory_that_all_of_its_jobs_declare() -> None:
    found = answer(plan(*(replace(one, request=ByMemory(4096)) for one in jobs("a b", None, 4))))

    assert set(places(found).values()) == {"4g.20gb@0:4"}


def test_auto_takes_the_largest_size_with_which_all_groups_run_at_once() -> None:
    found = answer(plan(*jobs("a b c d", None)))

    assert set(places(found).values()) == {"3g.20gb@0:4", "3g.20gb@4:4"}


# What does not fit


def test_the_smallest_set_in_conflict_counts_jobs_and_not_instances() -> None:
    wanted = plan(*jobs("a b c d e f", "4g.20gb"))

    found = answer(wanted)

    assert found.allocation.conflict == ("a", "b", "c")
    assert found.wave is not None
    assert [s.job for s in found.wave.starts] == ["a", "b"]
    assert set(found.wave.waits) == {"c", "d", "e", "f"}
    assert "needs a seat on 4g.20gb" in found.wave.waits["c"].words


def test_all_jobs_of_a_group_wait_where_their_instance_has_no_place() -> None:
    shares, left = lay_out(plan(*jobs("a b c d", "4g.20gb")), machine(), (A100,))

    assert set(shares) == {"a", "b"}
    assert left.waiting == ("c", "d")
    assert crowd(["a", "c"], parties(jobs("a b c d"))) == ("a", "b", "c")


# Seats in a queue


@pytest.mark.parametrize(("state", "expected"), [(JobState.SUCCEEDED, ["c"]), (JobState.RUNNING, [])])
def test_a_seat_is_free_when_its_job_has_ended(state: JobState, expected: list[str]) -> None:
    there = made(A30, "4g.24gb", 0, 1)
    a, b, c = jobs("a b c", "4g.24gb")

    found = wave(
        plan(a, b, c),
        with_instances(there, gpu=A30),
        record(a, there, state, cpus="0-1"),
        record(b, there, JobState.RUNNING, cpus="2-3"),
    )

    assert [s.job for s in found.starts] == expected
    for start in found.starts:
        assert (start.placement, start.takes_over, start.destroys) == (there.placement, None, ())


def test_an_instance_whose_jobs_have_all_ended_is_passed_on_to_a_whole_group() -> None:
    there = made(A30, "4g.24gb", 0, 1)
    a, b, c, d = jobs("a b c d", "4g.24gb")
    ended = [record(one, there, JobState.SUCCEEDED) for one in (a, b)]

    found = wave(plan(a, b, c, d), with_instances(there, gpu=A30), *ended)
    handing = handings(found.starts, {r.job: r for r in ended})

    assert [s.job for s in found.starts] == ["c", "d"]
    assert set(handing.taken) == {"c", "d"}
    assert {name: r.instance for name, r in handing.given.items()} == {"a": None, "b": None}


def test_an_instance_whose_jobs_have_all_ended_makes_room_for_another_size() -> None:
    there = made(A30, "4g.24gb", 0, 1)
    a, b = jobs("a b", "4g.24gb")
    other = job("c", "2g.12gb", 1)
    ended = [record(one, there, JobState.SUCCEEDED) for one in (a, b)]

    found = wave(plan(a, b, other), with_instances(there, gpu=A30), *ended)
    handing = handings(found.starts, {r.job: r for r in ended})

    assert [s.job for s in found.starts] == ["c"]
    assert set(handing.cleared) == {"a", "b"}


def test_nobody_else_gets_a_seat_beside_jobs_of_another_company() -> None:
    there = made(A30, "4g.24gb", 0, 1)
    a, clients = job("a", "4g.24gb"), job("b", "4g.24gb", mps=MpsShare())

    found = wave(
        plan(a, clients, job("c", "4g.24gb", 1)), with_instances(there, gpu=A30), record(a, there, JobState.RUNNING)
    )

    assert found.starts == ()


def test_a_job_of_an_edited_plan_takes_the_free_seat_of_a_running_one() -> None:
    there = made(A100, "2g.10gb", 2, 1)
    a, b = jobs("a b")
    running = record(a, there, JobState.RUNNING, cpus="0-1")
    gpu = with_instances(there)
    own = {(there.gpu_uuid, there.gi_id): "sweep/a"}

    found = answer(plan(a, b), machine(gpu, held={"a": running}, owners=own))

    assert set(places(found).values()) == {"2g.10gb@2:2"}
    assert found.allocation.idle.compute_slices == 5


# Records


def test_all_jobs_of_a_company_keep_their_instance_and_an_ended_one_its_seat_until_it_is_taken() -> None:
    there = made(A100, "2g.10gb", 0, 1)
    a, b, c = jobs("a b c")
    two = {
        "a": record(a, there, JobState.SUCCEEDED, created_at=1),
        "b": record(b, there, JobState.RUNNING, created_at=2),
    }
    three = two | {"c": record(c, there, JobState.RUNNING, created_at=3)}

    assert sole_owners(two) == two
    assert having(sole_owners(three)) == ["b", "c"]


@pytest.mark.parametrize("alone", [True, False])
def test_an_instance_that_went_from_jobs_to_others_belongs_to_the_living(alone: bool) -> None:
    there = made(A100, "2g.10gb", 0, 1)
    old = {n: record(job(n, seats=2 if alone else 1), there, JobState.SUCCEEDED, created_at=9) for n in ("a", "b")}
    new = {
        n: record(job(n, seats=1 if alone else 2), there, JobState.RUNNING) for n in (("c",) if alone else ("c", "d"))
    }

    assert having(sole_owners(old | new)) == sorted(new)


def having(records: Mapping[str, Record]) -> list[str]:
    return sorted(name for name, r in records.items() if r.instance is not None)


def test_whoever_goes_leaves_the_instance_to_the_others_and_the_last_one_takes_it_along() -> None:
    there = made(A100, "2g.10gb", 0, 1)
    one, two = (record(of, there, JobState.SUCCEEDED) for of in jobs("a b"))
    seen = Observed(boot_id=BOOT, gpus=(with_instances(there),), units=())

    assert [s.action for s in steps_down(one, seen, [two]).steps] == [Action.LEAVE_INSTANCE]
    assert [s.action for s in steps_down(two, seen, [replace(one, instance=None)]).steps] == [
        Action.DESTROY_COMPUTE_INSTANCE,
        Action.DESTROY_GPU_INSTANCE,
    ]


def test_what_another_boot_made_is_nobodys_seat() -> None:
    there = made(A100, "2g.10gb", 0, 1)
    one, two = (record(of, there, JobState.SUCCEEDED) for of in jobs("a b"))
    assert two.instance is not None
    earlier = replace(two, instance=replace(two.instance, boot_id="before"))
    seen = Observed(boot_id=BOOT, gpus=(with_instances(there),), units=())

    assert Action.DESTROY_GPU_INSTANCE in [s.action for s in steps_down(one, seen, [earlier]).steps]


# MPS


def test_clients_on_an_instance_are_served_by_the_daemon_of_their_mig_device() -> None:
    there = made(A100, "2g.10gb", 0, 7)
    one = job("a", mps=MpsShare())

    assert uses_mps(one, Strategy.MIG)
    assert not uses_mps(replace(one, per_instance=1), Strategy.MIG)
    assert served(record(one, there, JobState.RUNNING)) == "MIG-7"
    assert served(replace(record(one, there, JobState.RUNNING), instance=None)) is None


def test_a_fault_of_one_client_is_told_of_all_on_its_instance_and_of_no_others() -> None:
    here, there = made(A100, "2g.10gb", 0, 1), made(A100, "2g.10gb", 2, 2)
    failed = [
        replace(record(of, place, JobState.FAILED), reason="CUDA error: unspecified launch failure")
        for of, place in zip(jobs("a b c", mps=MpsShare()), (here, here, there), strict=True)
    ]

    told = with_company({r.job: r for r in failed})

    assert "at the same time as b: a fault of one client" in (told["a"].reason or "")
    assert "at the same time as a: a fault of one client" in (told["b"].reason or "")
    assert told["c"] == failed[2]
