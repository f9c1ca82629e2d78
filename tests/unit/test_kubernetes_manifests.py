"""Manifests that an API server takes: by the schemas of two versions, by the rules beyond them, and by running their scripts."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from migctl.core.cluster.clusters import MigStrategy
from migctl.errors import PlanError
from tests.support import exports
from tests.support.kubernetes_rules import expanded, guaranteed, refusals

VERSIONS = ("1.30", "1.36")
LONG = "a-very-long-name-of-a-training-that-nobody-would-type-twice-12"
PLANS = {
    "rich": exports.RICH.read_text("utf-8"),
    "names": f"name: Night_Sweep.\njobs: {{Train_A: {{image: i, profile: 1g.5gb+me, command: x}}, {LONG}: {{image: i, "
    "profile: 2g.10gb, replicas: 3, command: x}, train-a: {image: i, profile: 1g.5gb, command: x}}",
    "whole": "name: w\nstrategy: shared\njobs: {a: {image: i, command: x, memory: 8g}}",
    "image's own": "name: own\njobs: {a: {image: i, profile: 1g.5gb, replicas: 2}, b: {image: i, profile: 2g.10gb}}",
    "volumes": "name: v\njobs: {a: {image: i, profile: 1g.5gb, command: x, tmpfs: ['/t:size=64m', /u], volumes: [/a:/a, "
    "'Data_1:/b', /c, {type: tmpfs, target: /d}]}, b: {image: i, profile: 2g.10gb, command: x}}",
    "labels": "name: l\nkubernetes: {mig_strategy: single}\njobs: {a: {image: i, profile: 1g.5gb, command: x, labels: "
    "{a.b/c: 'all 1g', 'odd key!': y}, user: ada, cap_add: [CAP_SYS_NICE], group_add: ['20', video]}}",
    "thousand": "name: t\nkubernetes: {mig_strategy: mixed}\njobs: {a: {image: i, profile: 1g.5gb, replicas: 1000, "
    f"command: [python, train.py, --note, {'x' * 200}]}}}}",
    "claims": "name: c\nkubernetes: {dra: true}\njobs: {a: {image: i, profile: 1g.5gb+me, command: x}, "
    "b: {image: i, profile: 1g.5gb, command: x}}",
}


def objects(text: str) -> list[Any]:
    return list(yaml.safe_load_all(exports.kubernetes(exports.plan(text))))


@pytest.mark.parametrize("which", PLANS)
def test_the_server_has_nothing_to_refuse(which: str) -> None:
    made = objects(PLANS[which])

    assert made
    assert [refusals(one) for one in made] == [[]] * len(made)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("which", PLANS)
def test_the_schemas_of_two_versions_know_every_field(which: str, version: str) -> None:
    validate = pytest.importorskip("kubernetes_validate")

    if which == "claims" and version == "1.30":
        pytest.skip("resource.k8s.io/v1 came with 1.34")

    for one in objects(PLANS[which]):
        validate.validate(one, version, strict=True)


@pytest.mark.parametrize("which", PLANS)
def test_every_pod_can_be_pinned_by_the_static_cpu_manager(which: str) -> None:
    assert all(guaranteed(one) for one in objects(PLANS[which]) if one["kind"] == "Job")


def _spoilt(change: Callable[[Any, Any], None]) -> Any:
    one = copy.deepcopy(next(o for o in objects(PLANS["rich"]) if o["kind"] == "Job"))
    change(one, one["spec"]["template"]["spec"]["containers"][0]["resources"])
    return one


MIG = "nvidia.com/mig-1g.5gb.me"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda one, _: one["spec"]["template"]["spec"].update(restartPolicy="Always"), "OnFailure"),
        (lambda _, r: r["limits"].update({MIG: "500m"}), "must be an integer"),
        (lambda _, r: r["limits"].update({"nvidia.com/mig-1g.10gb+me": 1}), "extended resource name standard"),
        (lambda _, r: r["requests"].update({MIG: 2}), "equal to the limit"),
        (lambda _, r: r["limits"].pop(MIG), "Limit must be set"),
        (lambda _, r: r["limits"].update({"mig-1g.10gb": 1}), "fully qualified"),
        (lambda one, _: one["metadata"].update(name="Train_A"), "name"),
        (lambda one, _: one["metadata"]["labels"].update(x="all 1g"), "label"),
        (lambda _, r: r["requests"].update(cpu="99"), "cpu request"),
    ],
)
def test_each_rule_would_notice(change: Callable[[Any, Any], None], told: str) -> None:
    assert any(told in refusal for refusal in refusals(_spoilt(change)))


def test_one_profile_can_be_named_in_two_ways_so_it_is_asked_for() -> None:
    text = "jobs: {a: {image: i, profile: 1g.5gb, command: x}}"

    with pytest.raises(PlanError) as asked:
        objects(text)

    assert asked.value.id == "mig-strategy-unknown"
    assert "--mig-strategy mixed or single" in str(asked.value.hint)
    assert "nvidia.com/mig-1g.5gb" in asked.value.message


@pytest.mark.parametrize(("strategy", "resource"), [("mixed", "nvidia.com/mig-1g.5gb"), ("single", "nvidia.com/gpu")])
def test_the_strategy_decides_the_resource(strategy: str, resource: str) -> None:
    (one,) = objects(
        f"kubernetes: {{mig_strategy: {strategy}}}\njobs: {{a: {{image: i, profile: 1g.5gb, command: x}}}}"
    )
    pod = one["spec"]["template"]["spec"]

    assert pod["containers"][0]["resources"]["limits"][resource] == 1
    expected = (
        {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"} if strategy == MigStrategy.SINGLE else None
    )
    assert pod.get("nodeSelector") == expected


def test_several_profiles_cannot_be_single() -> None:
    with pytest.raises(PlanError, match=r"2g\.10gb, 1g\.5gb"):
        objects(
            "kubernetes: {mig_strategy: single}\n"
            "jobs: {a: {image: i, profile: 2g.10gb, command: x}, b: {image: i, profile: 1g.5gb, command: x}}"
        )


def test_a_job_without_an_image_and_one_on_a_certain_device_are_refused() -> None:
    with pytest.raises(PlanError, match="no image"):
        objects("runtime: process\njobs: {a: {profile: 1g.5gb, command: x}, b: {profile: 2g.10gb, command: x}}")
    with pytest.raises(PlanError, match="names the MIG device"):
        objects("jobs: {a: {image: i, instance: MIG-11111111-1111-5111-8111-111111111111}}")


def test_one_after_another_is_an_indexed_job_of_parallelism_1() -> None:
    (one,) = objects("strategy: sequential\njobs: {a: {image: i, command: x, replicas: 4}}")

    assert one["spec"]["completionMode"] == "Indexed"
    assert one["spec"]["parallelism"] == 1
    assert one["spec"]["completions"] == 4


def run(one: Any, index: int, tmp_path: Path, cpus: str, limit: int) -> dict[str, str]:
    """Run the container's script as the kubelet would, with a program that shows what it got."""
    container = one["spec"]["template"]["spec"]["containers"][0]
    environ = {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
    environ["MIGCTL_CPU_LIMIT"] = str(limit)
    words = [expanded(word, environ) for word in container.get("command", container.get("args"))]
    # No shell: it would drop variables whose names are none of its own.
    show = "import os, sys\nfor n, v in os.environ.items(): print(f'{n}={v}', end='\\0')\n"
    show += "for word in sys.argv[1:]: print(f'ARGV={word}', end='\\0')\n"
    (tmp_path / "python").write_text(f"#!{sys.executable}\n{show}")
    (tmp_path / "python").chmod(0o755)
    environ |= {"PATH": f"{tmp_path}:{os.environ['PATH']}", "JOB_COMPLETION_INDEX": str(index)}
    environ["NVIDIA_VISIBLE_DEVICES"] = "MIG-11111111-1111-5111-8111-111111111111"
    done = subprocess.run(["taskset", "-c", cpus, *words], env=environ, capture_output=True, text=True, check=True)
    found: dict[str, str] = {}
    for part in done.stdout.split("\0")[:-1]:
        name, _, value = part.partition("=")
        found[name] = f"{found[name]}|{value}" if name == "ARGV" and name in found else value
    return found


def test_the_script_counts_workers_and_hands_on_every_word(tmp_path: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    (one,) = objects(
        "kubernetes: {mig_strategy: mixed}\njobs: {a: {image: i, profile: 1g.5gb, cpus: 2, matrix: {note: ['a $(HOME) $$$$ b', "
        "\"it's `x`\"]}, command: [python, --note, '${matrix.note}', '${MIGCTL_NUM_WORKERS}'], "
        "environment: {NOTE: '${matrix.note}', DEVICE: '${MIGCTL_MIG_UUID}', A.B: c}}}"
    )

    first, second = (run(one, index, tmp_path, str(cpu), 2) for index in (0, 1))

    assert first["ARGV"] == "--note|a $(HOME) $$ b|1"
    assert first["NOTE"] == "a $(HOME) $$ b"
    assert second["ARGV"] == "--note|it's `x`|1"
    assert first["DEVICE"] == first["MIGCTL_MIG_UUID"] == "MIG-11111111-1111-5111-8111-111111111111"
    assert first["MIGCTL_CPUSET"] == str(cpu)
    assert (first["MIGCTL_CPUS"], first["OMP_NUM_THREADS"], first["PYTHON_CPU_COUNT"]) == ("1", "1", "1")
    assert first["MIGCTL_JOB"] != second["MIGCTL_JOB"]
    assert first["A.B"] == "c"


def test_where_the_node_does_not_pin_the_limit_counts(tmp_path: Path) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    (one,) = objects(
        "kubernetes: {mig_strategy: mixed}\njobs: {a: {image: i, profile: 1g.5gb, cpus: 1, command: [python]}}"
    )

    told = run(one, 0, tmp_path, ",".join(map(str, cpus)), 1)

    assert (told["MIGCTL_CPUS"], told["MIGCTL_NUM_WORKERS"]) == ("1", "1")


def test_what_a_job_waits_for_is_said_above_its_manifest() -> None:
    text = exports.kubernetes(
        exports.plan(
            "jobs: {a: {image: i, profile: 1g.5gb, command: x}, b: {image: i, profile: 2g.10gb, command: x, needs: [a]}, "
            "c: {image: i, profile: 1g.5gb, command: x, stage: 1}, d: {image: i, profile: 1g.5gb, command: x, stage: 2}}"
        )
    )

    assert (
        "# Apply it when job/sweep-a has succeeded: kubectl wait --timeout=-1s --for=condition=complete job/sweep-a\n"
        in text
    )
    assert "# Apply it when job/sweep-c has ended: kubectl get job/sweep-c\n" in text


def test_the_ten_jobs_of_the_example_are_taken_as_they_stand() -> None:
    text = (Path(__file__).parents[2] / "compose/plans/anywhere.yaml").read_text("utf-8")

    made = objects(f"kubernetes: {{mig_strategy: mixed}}\n{text}")

    assert sum(one["spec"].get("completions", 1) for one in made) == 10
    assert [refusals(one) for one in made] == [[], []]
    assert all(guaranteed(one) for one in made)
