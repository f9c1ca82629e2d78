"""One table says how each key is expressed everywhere; nothing is lost without a word."""

from __future__ import annotations

import pytest

from migctl.core.keytable import JOB_KEYS, PLAN_KEYS, Partly, Target, Told, Unsupported, lost
from migctl.planfile import models
from tests.support import exports

NOTHING_OF_JOBS = (
    "image, command, shm_size are left out: a mig-parted configuration holds GPU instances, "
    "and nothing of the jobs on them"
)


def test_every_key_of_the_plan_has_its_row() -> None:
    assert set(PLAN_KEYS) == set(models.PLAN_KEYS)
    assert set(JOB_KEYS) == set(models.JOB_KEYS)


@pytest.mark.parametrize("target", Target)
def test_every_row_says_something_of_every_target(target: Target) -> None:
    for key, row in {**PLAN_KEYS, **JOB_KEYS}.items():
        match row[target]:
            case Told(how):
                assert how, key
            case Partly(how, missing):
                assert how, key
                assert missing, key
            case Unsupported(why):
                assert why, key


@pytest.mark.parametrize("target", [Target.DOCKER, Target.PROCESS])
def test_on_this_machine_only_container_keys_of_processes_are_lost(target: Target) -> None:
    left = {key for key, row in {**PLAN_KEYS, **JOB_KEYS}.items() if not isinstance(row[target], Told)}

    assert left <= {
        "image", "pull_policy", "volumes", "ports", "network_mode", "shm_size", "tmpfs", "group_add", "ulimits", "labels",
        "extra_hosts", "cap_add", "security_opt", "ipc", "mem_limit", "user",
    }  # fmt: skip
    assert bool(left) == (target is Target.PROCESS)


@pytest.mark.parametrize(
    ("keys", "target", "told"),
    [
        ("ports: ['80']", Target.SLURM, ["ports of a is left out: the job shares the node's network"]),
        ("ports: ['80']", Target.COMPOSE, []),
        ("timeout: 1h, retries: 1", Target.COMPOSE,
         ["retries, timeout are left out: nothing watches the jobs after they were started"]),
        ("volumes: ['/data:/data']", Target.SLURM, []),
        ("volumes: ['data:/data']", Target.SLURM,
         ["volumes of a: bind mounts of the container; named and anonymous volumes have no place there"]),
        ("volumes: ['data:/data']", Target.KUBERNETES, []),
        ("user: '1000:1000'", Target.KUBERNETES, []),
        ("user: ada", Target.KUBERNETES, ["user of a: runAsUser, runAsGroup; only numbers can be given"]),
        ("cpuset: 0-3", Target.KUBERNETES,
         ["cpuset of a: requests.cpu; the node decides which cores; the number is asked for"]),
        ("shm_size: 4g, command: [x]", Target.MIG_PARTED,
         [NOTHING_OF_JOBS]),
    ],
)  # fmt: skip
def test_what_a_target_cannot_say_is_told_with_its_reason(keys: str, target: Target, told: list[str]) -> None:
    wanted = exports.plan(f"jobs: {{a: {{image: i, profile: 1g.5gb, {keys}}}}}")

    assert [one.sentence for one in lost(wanted, target)] == told


def test_keys_from_defaults_count_and_keys_that_are_not_given_do_not() -> None:
    wanted = exports.plan(
        "max_parallel: 1\ndefaults: {image: i, labels: {a: b}}\njobs: {x: {profile: 1g.5gb}, y: {profile: 1g.5gb}}"
    )

    assert [(one.keys, one.jobs) for one in lost(wanted, Target.SLURM)] == [
        (("max_parallel",), ()),
        (("labels",), ("x", "y")),
    ]


def test_without_a_container_slurm_leaves_the_images_keys_out() -> None:
    wanted = exports.plan(
        "slurm: {container: none}\njobs: {a: {image: i, profile: 1g.5gb, volumes: [/d:/d], command: x, timeout: 1h}}"
    )

    assert [one.sentence for one in lost(wanted, Target.SLURM)] == [
        "image, volumes are left out: slurm: {container: none} runs the command on the node as it is"
    ]
