"""Plans for scripts that watch nothing: who runs with whom, and in which order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migctl.errors import MigctlError
from migctl.render.compose import compose_file
from migctl.render.mig_parted import mig_parted_config
from migctl.render.shell import shell_script
from tests.support import exports


def rounds(text: str, boards: str = "a100-40gb", cores: int = 16) -> list[list[str]]:
    found = exports.local(exports.plan(text), exports.machine(boards, cores))
    return [[a.job.name for a in round_] for round_ in found.rounds]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("jobs: {a: {image: i, profile: 3g.20gb}, b: {image: i, profile: 3g.20gb}}", [["a", "b"]]),
        ("jobs: {a: {image: i, profile: 7g.40gb}, b: {image: i, profile: 1g.5gb}}", [["a"], ["b"]]),
        ("jobs: {a: {image: i, profile: 1g.5gb, needs: [b]}, b: {image: i, profile: 1g.5gb}}", [["b"], ["a"]]),
        ("jobs: {a: {image: i, memory: 4g, stage: 2}, b: {image: i, memory: 4g, stage: 1}, c: {image: i, memory: 4g}}",
         [["b", "c"], ["a"]]),
        ("jobs: {a: {image: i, profile: 7g.40gb}, b: {image: i, profile: 7g.40gb, priority: 1}}", [["b"], ["a"]]),
        ("max_parallel: 1\njobs: {a: {image: i, profile: 1g.5gb, replicas: 3}}", [["a-1"], ["a-2"], ["a-3"]]),
        ("jobs: {a: {image: i, replicas: 9}}", [[f"a-{n}" for n in range(1, 8)], ["a-8", "a-9"]]),
    ],
)  # fmt: skip
def test_every_job_runs_in_the_first_round_that_it_can(text: str, expected: list[list[str]]) -> None:
    assert rounds(text) == expected


def test_auto_jobs_of_a_late_round_keep_the_profile_of_the_first() -> None:
    found = exports.local(exports.plan("jobs: {a: {image: i, replicas: 9}}"))

    assert {a.profile.name for a in found.assignments if a.profile} == {"1g.5gb"}


def test_hundreds_of_jobs_are_all_in_some_round_and_none_twice() -> None:
    names = [name for round_ in rounds("jobs: {a: {image: i, profile: 1g.5gb, replicas: 300}}") for name in round_]

    assert sorted(names) == sorted(f"a-{n}" for n in range(1, 301))


def test_a_job_that_never_fits_is_refused() -> None:
    with pytest.raises(MigctlError):
        rounds("jobs: {a: {image: i, memory: 100g}}")


def test_jobs_that_share_an_instance_have_it_made_once() -> None:
    found = exports.local(exports.plan("jobs: {a: {image: i, profile: 1g.5gb}, b: {image: i, profile: 1g.5gb}}"))
    first, second = found.assignments
    shared = replace(found, rounds=((first, replace(second, placement=first.placement)),))

    compose = compose_file(shared, (), exports.EXPORTER)
    shell = shell_script(shared, (), exports.EXPORTER)
    layout = mig_parted_config(shared, (), exports.EXPORTER)

    assert "-cgi 19:0 -C" in compose
    assert compose.count('device_ids: ["${MIG_A:?1g.5gb at memory slice 0}"]') == 2
    assert shell.count("make_instance 0 19:0") == 2, "the second call finds what the first one made"
    assert '"1g.5gb": 1' in layout
