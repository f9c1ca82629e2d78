"""The texts that a plan is handed over as."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support import exports

WRITERS: dict[str, Callable[..., str]] = {
    "compose": exports.compose,
    "shell": exports.shell,
    "mig-parted": exports.mig_parted,
    "slurm": exports.slurm_text,
    "kubernetes": exports.kubernetes,
}
PROCESSES = """
name: night
runtime: process
strategy: mig
jobs:
  first: {profile: 3g.20gb, command: [python, train.py, --note, "it's $$HOME"], priority: 5, timeout: 1h}
  second: {profile: 7g.40gb, command: python train.py, needs: [first], environment: {A.B: "1", LR: "0.1"}}
"""
ONE = """
name: one
slurm: {container: CONTAINER}
jobs:
  train:
    image: registry.example/train:1
    profile: 1g.5gb
    shm_size: 4g
    volumes: ["/data:/data:ro"]
    working_dir: /data
    command: [python, train.py]
    environment: {LR: 1e-4}
"""


@pytest.mark.parametrize("what", WRITERS)
def test_the_plan_with_most_keys(what: str, golden: Callable[[str, str], None]) -> None:
    golden(f"exports/{what}", WRITERS[what](exports.rich()))


@pytest.mark.parametrize("what", ["shell", "slurm"])
def test_processes_in_two_rounds(what: str, golden: Callable[[str, str], None]) -> None:
    golden(f"exports/{what}-processes", WRITERS[what](exports.plan(PROCESSES)))


@pytest.mark.parametrize("container", ["apptainer", "docker"])
def test_the_other_containers_of_slurm(container: str, golden: Callable[[str, str], None]) -> None:
    wanted = exports.plan(ONE.replace("CONTAINER", container))

    golden(f"exports/slurm-{container}", exports.slurm_text(wanted))


def test_a_claim_for_the_driver_of_dynamic_resources(golden: Callable[[str, str], None]) -> None:
    wanted = exports.plan(
        "name: claims\nkubernetes: {dra: true}\njobs: {train: {image: i, profile: 1g.5gb, command: [python, train.py]}}\n"
    )

    golden("exports/kubernetes-dra", exports.kubernetes(wanted))
