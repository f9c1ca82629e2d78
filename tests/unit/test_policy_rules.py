"""What an administrator allows, and what of a plan breaks it: tables before code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from migctl.core.allocate import allocate
from migctl.core.choices import RuntimeName
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.cpu.topology import uniform_topology
from migctl.core.gpu.mig import Gpu, Instance, MemorySlices, Placement
from migctl.core.judgement import (
    allowed_gpus,
    judge_allocation,
    judge_gpus,
    judge_mode,
    judge_plan,
    matches,
    reserved_cpus,
)
from migctl.core.machine import Machine
from migctl.core.others.holdings import Holdings, claimed_slices
from migctl.core.plan import ByProfile, GpuSelector, Job, Plan, Volume
from migctl.core.policy import Policy, Rules
from migctl.errors import HostError, MigctlError
from migctl.nvml.models import board_gpu, resolve_board
from migctl.planfile.policy import parse

FILE = "/etc/migctl/policy.yaml"
GPUS = tuple(board_gpu(resolve_board(key), n) for n, key in enumerate(["a100-40gb", "a100-40gb", "t4"]))


def policy(text: str) -> Policy:
    return parse(text.encode(), FILE, "root")


def rules(text: str) -> tuple[Policy, Rules]:
    made = policy(text)
    return made, made.of("anna", 1000, ["students"])


def machine(gpus: tuple[Gpu, ...] = GPUS[:1], cores: int = 8, held: Holdings | None = None) -> Machine:
    topology = uniform_topology(cores, 2)
    return Machine(
        gpus=gpus,
        topology=topology,
        affinity=topology.online,
        memory_total_mib=64 * 1024,
        holdings=held or Holdings(),
    )


def plan(*profiles: str, **job: object) -> Plan:
    jobs = tuple(
        replace(Job(name=f"j{n}", origin=f"j{n}", request=ByProfile(name)), **job) for n, name in enumerate(profiles)
    )
    return Plan(name="sweep", path="", folder="/", jobs=jobs)


def judged(text: str, wanted: Plan, there: Machine) -> tuple[MigctlError, ...]:
    made, held = rules(text)
    return judge_allocation(made, held, wanted, allocate(wanted, there), there)


SOMEBODY_ELSES = Holdings(slices=3, cpus=CpuSet({0, 8, 1}), memory_mib=20 * 1024)

# policy, plan, what is held elsewhere, id, part of the message
BROKEN = [
    (
        "max_slices: 4",
        plan("2g.10gb", "3g.20gb"),
        None,
        "policy-max-slices",
        "sweep takes 5 slices; one user may hold 4",
    ),
    (
        "max_slices: 4",
        plan("2g.10gb"),
        SOMEBODY_ELSES,
        "policy-max-slices",
        "takes 2 slices beside 3 of your other runs",
    ),
    ("max_slices: 0", plan("1g.5gb"), None, "policy-max-slices", "takes 1 slice; one user may hold 0"),
    (
        "max_cores: 7",
        plan("3g.20gb", "3g.20gb", cpus=4),
        None,
        "policy-max-cores",
        "takes 8 cores; one user may hold 7",
    ),
    (
        "max_cores: 5",
        plan("3g.20gb", cpus=4),
        SOMEBODY_ELSES,
        "policy-max-cores",
        "4 cores beside 2 of your other runs",
    ),
    ("reserve_memory: 8g", plan("1g.5gb"), None, "policy-reserve-memory", "j0 has no memory limit"),
    (
        "reserve_memory: 8g",
        plan("1g.5gb", "1g.5gb", mem_limit_bytes=30 << 30),
        None,
        "policy-reserve-memory",
        "may take 60 GiB of memory; 56 GiB are for jobs, 8 GiB stay free",
    ),
    (
        "reserve_memory: 8g",
        plan("1g.5gb", mem_limit_bytes=40 << 30),
        SOMEBODY_ELSES,
        "policy-reserve-memory",
        "beside 20 GiB of other runs",
    ),
]


@pytest.mark.parametrize(("text", "wanted", "held", "id_", "message"), BROKEN)
def test_a_broken_rule_is_named_with_its_line_its_owner_and_whom_to_ask(
    text: str, wanted: Plan, held: Holdings | None, id_: str, message: str
) -> None:
    (error,) = judged(f"contact: gpu@example.org\n{text}\n", wanted, machine(held=held))

    rule = text.partition(":")[0]
    assert isinstance(error, HostError)
    assert error.exit_code == 4
    assert error.id == id_
    assert message in error.message
    assert f"(rule {rule} of root, {FILE}:2)" in error.message
    assert str(error.where) == f"{FILE}:2:1"
    assert "ask gpu@example.org (the policy is root's)" in (error.hint or "")
    assert (error.data["rule"], error.data["line"], error.data["owner"]) == (rule, 2, "root")


KEPT = [
    ("max_slices: 5", plan("2g.10gb", "3g.20gb"), None),
    ("max_slices: 5", plan("2g.10gb"), SOMEBODY_ELSES),
    ("max_cores: 8", plan("3g.20gb", "3g.20gb", cpus=4), None),
    ("reserve_memory: 8g", plan("1g.5gb", "1g.5gb", mem_limit_bytes=28 << 30), None),
    ("reserve_memory: 8g", replace(plan("1g.5gb"), runtime=RuntimeName.PROCESS), None),
    ("", plan("7g.40gb"), SOMEBODY_ELSES),
]


@pytest.mark.parametrize(("text", "wanted", "held"), KEPT)
def test_what_keeps_the_rules_is_not_told_of(text: str, wanted: Plan, held: Holdings | None) -> None:
    assert judged(text, wanted, machine(held=held)) == ()


# a user's own entry, else the first group of the file that he is in, else everybody's
OVERRIDES = """\
max_slices: 1
groups:
  staff: {max_slices: 5}
  students: {max_slices: 2, max_cores: 4}
users:
  anna: {max_slices: 7}
  "1001": {max_slices: 3}
"""
WHO: list[tuple[str, int, list[str], str, int]] = [
    ("anna", 1000, ["students"], "users.anna.max_slices", 7),
    ("bert", 1001, [], "users.1001.max_slices", 3),
    ("carl", 1002, ["students", "staff"], "groups.staff.max_slices", 5),
    ("dora", 1003, ["students"], "groups.students.max_slices", 2),
    ("emil", 1004, ["others"], "max_slices", 1),
]


@pytest.mark.parametrize(("user", "uid", "groups", "name", "value"), WHO)
def test_whose_rule_holds(user: str, uid: int, groups: list[str], name: str, value: int) -> None:
    rule = policy(OVERRIDES).of(user, uid, groups).max_slices

    assert rule is not None
    assert (rule.name, rule.value) == (name, value)


def test_an_override_leaves_the_other_rules_as_they_are() -> None:
    found = policy(OVERRIDES + "reserve_cores: 2\n").of("anna", 1000, ["students"])

    assert [rule.name for rule in found.given] == [
        "reserve_cores",
        "users.anna.max_slices",
        "groups.students.max_cores",
    ]


# image, pattern, whether
IMAGES = [
    ("pytorch/pytorch:2.8.0", "pytorch/*", True),
    ("pytorch/pytorch:2.8.0", "pytorch/pytorch", True),
    ("pytorch/pytorch@sha256:abc", "pytorch/pytorch", True),
    ("pytorch/pytorch:2.8.0", "pytorch/pytorch:2.8.0", True),
    ("pytorch/pytorch:2.7.0", "pytorch/pytorch:2.8.0", False),
    ("pytorch/pytorch", "pytorch/pytorch:2.8.0", False),
    ("evil/pytorch/pytorch:1", "pytorch/*", False),
    ("registry:5000/team/train", "registry:5000/team/*", True),
    ("registry:5000/other/train", "registry:5000/team/*", False),
    ("busybox", "*", True),
    ("BusyBox", "busybox", False),
]


@pytest.mark.parametrize(("image", "pattern", "expected"), IMAGES)
def test_which_images_a_pattern_means(image: str, pattern: str, expected: bool) -> None:
    assert matches(image, pattern) is expected


LINKS: Mapping[str, str] = {"/data/out": "/etc", "/home/anna/data": "/data/anna"}
# source, read-only, mounts allowed, what is said (nothing: allowed)
MOUNTS = [
    ("/data/imagenet", True, "[/data]", ""),
    ("/data/imagenet", False, "[/data]", ""),
    ("/data", False, "[/data]", ""),
    ("/database", True, "[/data]", "/database (j0) is below none of the folders that may be mounted: /data"),
    ("/data/imagenet", True, '["/data:ro"]', ""),
    ("/data/imagenet", False, '["/data:ro"]', "may be mounted read-only at most"),
    ("/data/anna", False, '["/data:ro", /data/anna]', ""),
    ("/data/out", True, "[/data]", "/data/out, which is /etc (j0) is below none"),
    ("/home/anna/data", True, "[/data]", ""),
    ("/home/anna", True, "[]", "may be mounted: none"),
    ("/anything", False, "[/]", ""),
]


@pytest.mark.parametrize(("source", "read_only", "allowed", "message"), MOUNTS)
def test_what_may_be_mounted(source: str, read_only: bool, allowed: str, message: str) -> None:
    made, held = rules(f"mounts: {allowed}")
    wanted = plan("1g.5gb", volumes=(Volume("/x", source, read_only=read_only), Volume("/y", "cache", "volume")))
    found = judge_plan(made, held, wanted, lambda path: LINKS.get(path, path))

    assert (message in found[0].message) if message else found == ()
    assert [error.id for error in found] == ["policy-mounts"] * bool(message)


def test_an_image_that_is_not_allowed_is_told_for_each_job_as_it_stands_in_the_plan() -> None:
    made, held = rules("images: [pytorch/*]")
    wanted = plan("1g.5gb", "1g.5gb", image="busybox")

    assert [e.data["job"] for e in judge_plan(made, held, wanted, str)] == ["j0", "j1"]
    assert judge_plan(made, held, plan("1g.5gb", image="pytorch/pytorch:2.8.0"), str) == ()
    # A process has neither image nor mounts.
    assert judge_plan(made, held, replace(wanted, runtime=RuntimeName.PROCESS), str) == ()


# allowed, the plan's gpu, what is chosen, or the id of the refusal
CHOICES: list[tuple[str, list[GpuSelector], list[int] | str]] = [
    ("[1]", [], [1]),
    ("[1]", [GpuSelector(all=True)], [1]),
    ("[0, 1]", [GpuSelector(model="A100")], [0, 1]),
    ("[1]", [GpuSelector(model="A100")], [1]),
    ("[1]", [GpuSelector(index=0)], "policy-gpu"),
    ("{model: T4}", [GpuSelector(model="A100")], "policy-gpu"),
    ("{model: H100}", [], "policy-gpu"),
    ("all", [GpuSelector(index=1)], [0, 1, 2]),
]


@pytest.mark.parametrize(("allowed", "asked", "expected"), CHOICES)
def test_which_gpus_are_left_to_a_user(allowed: str, asked: list[GpuSelector], expected: list[int] | str) -> None:
    made, held = rules(f"gpu: {allowed}")
    wanted = replace(plan("1g.5gb"), gpus=tuple(asked))
    broken = judge_gpus(made, held, wanted, GPUS)
    if isinstance(expected, str):
        assert {error.id for error in broken} == {expected}
        return

    assert broken == ()
    there = replace(machine(GPUS), allowed=allowed_gpus(held, GPUS))
    assert [gpu.index for gpu in there.usable] == expected
    uuid = allocate(wanted, there).assignments[0].gpu_uuid
    assert next(gpu.index for gpu in GPUS if gpu.uuid == uuid) in expected


def test_a_job_may_not_name_a_gpu_that_its_plan_may_not() -> None:
    made, held = rules("gpu: 0")
    (error,) = judge_gpus(made, held, plan("1g.5gb", gpus=(GpuSelector(index=1),)), GPUS)

    assert "GPU 1 (NVIDIA A100-SXM4-40GB) is not one that you may use (j0)" in error.message
    assert (error.hint or "").startswith("gpu: 0; or ask root")


@pytest.mark.parametrize(
    ("text", "ids"), [("enable_mig: false", ["policy-enable-mig"]), ("enable_mig: true", []), ("", [])]
)
def test_whether_the_mig_mode_may_be_changed(text: str, ids: list[str]) -> None:
    assert [error.id for error in judge_mode(*rules(text), GPUS[:1])] == ids


def test_reserved_cores_are_the_lowest_with_all_their_threads_and_no_job_gets_them() -> None:
    _, held = rules("reserve_cores: 2")
    there = machine(cores=4)
    kept = reserved_cpus(held, there.topology)
    found = allocate(plan("7g.40gb", cpus=2), replace(there, reserved=kept, reserved_by="reserve_cores"))

    assert kept == CpuSet.parse("0-1,4-5")
    assert found.assignments[0].cpu.cpus == CpuSet.parse("2-3,6-7")
    with pytest.raises(HostError, match=r"CPUs 0,4 of cpuset 0,4 are kept for the system \(rule reserve_cores of root"):
        allocate(
            plan("7g.40gb", cpuset=CpuSet.parse("0,4")),
            replace(there, reserved=kept, reserved_by="reserve_cores of root"),
        )


def test_slices_of_a_claim_are_those_of_the_instance_that_lies_there() -> None:
    gpu = GPUS[0]
    three, four = gpu.profile_named("3g.20gb"), gpu.profile_named("4g.20gb")
    assert three is not None
    assert four is not None
    place = Placement(0, MemorySlices(4))
    there = Instance(gpu_uuid=gpu.uuid, gi_id=1, profile_id=three.id, profile=three.name, placement=place)

    assert claimed_slices({gpu.uuid: [place]}, [replace(gpu, instances=(there,))]) == 3
    assert claimed_slices({gpu.uuid: [place]}, [gpu]) == 4  # about to be made: the most that could lie there
    assert claimed_slices({gpu.uuid: []}, GPUS) == 7  # a whole GPU
    assert claimed_slices({GPUS[2].uuid: []}, GPUS) == 0  # without MIG it has no slices
    assert claimed_slices({"GPU-elsewhere": [place]}, GPUS) == 0
