"""Batch scripts as Slurm would run them: submitted in order, with shares counted on the node and every word as it was."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from migctl.core.plan import Plan
from migctl.errors import PlanError
from migctl.render.slurm import sbatch_scripts
from tests.support import exports

SHOW = """import os, sys
for name, value in os.environ.items():
    print(f"{name}={value}", end="\\0")
print(f"ARGV={sys.argv[1:]!r}", end="\\0")
"""


def program(folder: Path, name: str, text: str) -> None:
    """An executable on the PATH of the scripts."""
    path = folder / name
    path.write_text(text, "utf-8")
    path.chmod(0o755)


def run(folder: Path, script: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a batch script on this machine's lowest CPU; `srun` runs what stands behind its options."""
    program(folder, "srun", '#!/bin/sh\nwhile case ${1-} in --*) true ;; *) false ;; esac; do shift; done\nexec "$@"\n')
    program(folder, "show", f"#!{sys.executable}\n{SHOW}")
    return subprocess.run(
        ["taskset", "-c", str(min(os.sched_getaffinity(0))), "bash", "-c", script],
        cwd=folder,
        env={"PATH": f"{folder}:{os.environ['PATH']}", "SLURM_CPUS_PER_TASK": "1", "SLURM_JOB_ID": "7", **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def shown(done: subprocess.CompletedProcess[str]) -> Mapping[str, str]:
    assert done.returncode == 0, done.stderr
    return dict(part.partition("=")[::2] for part in done.stdout.split("\0")[:-1])


def processes(text: str, folder: Path) -> Plan:
    return exports.plan(f"runtime: process\n{text}", folder)


def options(script: str) -> dict[str, str]:
    """The #SBATCH lines, read as Slurm reads them."""
    words = [word for line in re.findall(r"(?m)^#SBATCH (.*)$", script) for word in shlex.split(line)]
    return {name.lstrip("-"): value for name, _, value in (word.partition("=") for word in words)}


def test_workers_and_threads_are_counted_where_the_job_runs(tmp_path: Path) -> None:
    (script,) = exports.slurm(
        processes("jobs: {a: {profile: 1g.5gb, command: [show, '${MIGCTL_NUM_WORKERS}', '${MIGCTL_CPUS}']}}", tmp_path)
    )

    told = shown(run(tmp_path, script.text, CUDA_VISIBLE_DEVICES="MIG-11111111-1111-5111-8111-111111111111"))

    assert told["ARGV"] == "['1', '1']"
    assert told["MIGCTL_CPUSET"] == str(min(os.sched_getaffinity(0)))
    assert told["OMP_NUM_THREADS"] == told["PYTHON_CPU_COUNT"] == "1"
    assert told["MIGCTL_MIG_UUID"] == "MIG-11111111-1111-5111-8111-111111111111"
    assert (told["MIGCTL_RUN"], told["MIGCTL_JOB"], told["MIGCTL_PROFILE"]) == (tmp_path.name, "a", "1g.5gb")


def test_a_job_that_sets_its_threads_keeps_them(tmp_path: Path) -> None:
    (script,) = exports.slurm(
        processes("jobs: {a: {profile: 1g.5gb, command: show, environment: {OMP_NUM_THREADS: '9', A.B: c}}}", tmp_path)
    )

    told = shown(run(tmp_path, script.text))

    assert (told["OMP_NUM_THREADS"], told["A.B"]) == ("9", "c")


def test_a_matrix_is_an_array_whose_members_get_their_own_words(tmp_path: Path) -> None:
    (script,) = exports.slurm(
        processes(
            "jobs: {a: {profile: 1g.5gb, matrix: {note: ['x y', \"it's $$HOME `id`\", '#']}, command: [show, '${matrix.note}'], "
            "environment: {NOTE: '${matrix.note}'}}}",
            tmp_path,
        )
    )

    assert options(script.text)["array"] == "0-2"
    for index, note in enumerate(["x y", "it's $HOME `id`", "#"]):
        told = shown(run(tmp_path, script.text, SLURM_ARRAY_TASK_ID=str(index)))
        assert told["ARGV"] == repr([note])
        assert told["NOTE"] == note


def test_the_scripts_exit_code_is_the_jobs(tmp_path: Path) -> None:
    (script,) = exports.slurm(processes("jobs: {a: {profile: 1g.5gb, command: [sh, -c, exit 5]}}", tmp_path))

    assert run(tmp_path, script.text).returncode == 5


def test_retries_run_it_again_until_it_succeeds(tmp_path: Path) -> None:
    (script,) = exports.slurm(
        processes(
            "jobs: {a: {profile: 1g.5gb, retries: 3, command: [sh, -c, 'echo x >>log; test -s log2 || ! cp log log2']}}",
            tmp_path,
        )
    )

    assert run(tmp_path, script.text).returncode == 0
    assert (tmp_path / "log").read_text() == "x\nx\n"


@pytest.mark.parametrize(
    ("command", "member", "name", "end"),
    [
        ("exit 3", "", "7", "3 0"),
        ("exit 0", "2", "40_2", "0 0"),
        ("kill -TERM $PPID; sleep 0.2; exit 1", "", "7", "1 1"),
    ],
)
def test_a_job_tells_what_it_got_and_how_it_ended(
    tmp_path: Path, command: str, member: str, name: str, end: str
) -> None:
    there = tmp_path / "a folder"
    there.mkdir()
    (there / f"{name}.end").write_text("of an earlier start\n", "utf-8")
    wanted = processes(f"jobs: {{a: {{profile: 1g.5gb, command: [bash, -c, '{command}']}}}}", tmp_path)
    (script,) = sbatch_scripts(wanted, exports.cluster(wanted), (), told=str(there), attempts={"a": 2})
    array = {"SLURM_ARRAY_JOB_ID": "40", "SLURM_ARRAY_TASK_ID": member} if member else {}

    done = run(tmp_path, script.text, SLURMD_NODENAME="mig1", **array)

    cpu = min(os.sched_getaffinity(0))
    assert str(done.returncode) == end.split()[0], done.stderr
    assert sorted(path.name for path in there.iterdir()) == [f"{name}.begin", f"{name}.end"]
    assert (there / f"{name}.begin").read_text("utf-8").split()[1:] == ["mig1", str(cpu), "1"]
    assert (there / f"{name}.end").read_text("utf-8").startswith(f"{end} ")
    assert "MIGCTL_ATTEMPT=$((MIGCTL_ATTEMPT + 1))" in script.text


def test_a_job_whose_folder_is_gone_tells_its_end_as_well(tmp_path: Path) -> None:
    wanted = processes("jobs: {a: {profile: 1g.5gb, command: echo, working_dir: /nowhere}}", tmp_path)
    (script,) = sbatch_scripts(wanted, exports.cluster(wanted), (), told=str(tmp_path))

    assert run(tmp_path, script.text).returncode == 1
    assert (tmp_path / "7.end").read_text("utf-8").startswith("1 0 ")


SUBMIT = """#!/bin/sh
n=$(($(cat count 2>/dev/null || echo 100) + 1))
echo $n >count
cat >"script-$n"
echo "$@" >"args-$n"
echo "$n;cluster"
"""


def test_they_are_submitted_in_order_with_what_each_waits_for(tmp_path: Path) -> None:
    program(tmp_path, "sbatch", SUBMIT)
    text = exports.slurm_text(
        exports.plan(
            "jobs: {late: {image: i, profile: 1g.5gb, command: x, needs: [sweep-lr1, first]}, first: {image: i, profile: 2g.10gb, "
            "command: x}, sweep: {image: i, profile: 1g.5gb, matrix: {lr: [1, 2]}, command: 'x ${matrix.lr}'}, "
            "last: {image: i, profile: 1g.5gb, command: x, needs: [sweep]}}"
        )
    )

    done = subprocess.run(
        ["sh", "-c", text],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines() == ["first 101", "sweep 102", "late 103", "last 104"]
    assert (tmp_path / "args-101").read_text() == "--parsable\n"
    assert (
        tmp_path / "args-103"
    ).read_text() == "--parsable --dependency=afterok:102_0,afterok:101 --kill-on-invalid-dep=yes\n"
    assert (tmp_path / "args-104").read_text() == "--parsable --dependency=afterok:102 --kill-on-invalid-dep=yes\n"
    assert (tmp_path / "script-102").read_text().startswith("#!/bin/bash\n")


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ("jobs: {a: {image: i, profile: 1g.5gb, command: x, cpus: 3}}", {"cpus-per-task": "3", "gres": "gpu:1g.5gb:1"}),
        ("slurm: {gres: {1g.5gb: a100_1g.5gb}}\njobs: {a: {image: i, profile: 1g.5gb, command: x}}", {"gres": "gpu:a100_1g.5gb:1"}),
        ("jobs: {a: {image: i, profile: 1g.5gb+me, command: x, mem_limit: 8g}}", {"gres": "gpu:1g.5gb+me:1", "mem": "8192M"}),
        ("jobs: {a: {image: i, profile: 1g.5gb, command: x, timeout: 90s, stop_grace_period: 30s}}",
         {"time": "2", "signal": "TERM@30"}),
        ("jobs: {a: {image: i, profile: 1g.5gb, command: x, timeout: 1h, retries: 1}}", {"time": "120"}),
        ("strategy: sequential\njobs: {a: {image: i, command: x, replicas: 5}}", {"array": "0-4%1", "gres": "gpu:1"}),
        ("max_parallel: 2\njobs: {a: {image: i, profile: 1g.5gb, command: x, replicas: 5}}", {"array": "0-4%2"}),
        ("jobs: {a: {image: i, profile: 1g.5gb, command: x, resumable: true}}", {"requeue": ""}),
        ("slurm: {partition: 'a b', constraint: 'x&y', options: [--mail-type=END]}\njobs: {a: {image: i, profile: 1g.5gb}}",
         {"partition": "a b", "constraint": "x&y", "mail-type": "END"}),
        ("jobs: {a: {image: i, profile: 3g.20gb, command: x}}", {"cpus-per-task": "6"}),
        ("jobs: {a: {image: i, memory: 8GiB, command: x}}", {"gres": "gpu:2g.10gb:1", "cpus-per-task": "4"}),
    ],
)  # fmt: skip
def test_a_plans_words_are_slurms_options(plan: str, expected: dict[str, str]) -> None:
    (script,) = exports.slurm(exports.plan(plan))

    found = options(script.text)

    assert {name: found.get(name) for name in expected} == expected


def test_the_less_urgent_are_nicer_to_others() -> None:
    scripts = exports.slurm(
        exports.plan(
            "jobs: {a: {image: i, profile: 1g.5gb, command: x}, b: {image: i, profile: 1g.5gb, command: x, priority: 7}}"
        )
    )

    assert [(script.name, options(script.text).get("nice")) for script in scripts] == [("b", None), ("a", "7")]


def test_a_node_of_which_nothing_is_known_can_only_be_asked_for_what_the_plan_names() -> None:
    unknown = exports.node("a100-40gb").__class__()

    with pytest.raises(PlanError, match="depends on the nodes' GPUs"):
        exports.slurm(exports.plan("jobs: {a: {image: i, command: x, memory: 8g, cpus: 1}}"), unknown)
    with pytest.raises(PlanError, match="how many cores"):
        exports.slurm(exports.plan("jobs: {a: {image: i, command: x, profile: 1g.5gb}}"), unknown)
    (script,) = exports.slurm(exports.plan("jobs: {a: {image: i, command: x, profile: 9g.99gb, cpus: 2}}"), unknown)
    assert options(script.text)["gres"] == "gpu:9g.99gb:1"


def test_stages_wait_for_the_end_of_those_before() -> None:
    text = exports.slurm_text(
        exports.plan(
            "jobs: {b: {image: i, profile: 1g.5gb, command: x, stage: 2}, a: {image: i, profile: 1g.5gb, command: x, stage: 1}}"
        )
    )

    assert "--dependency=afterany:${job1}" in text
    assert text.index("# a: one job") < text.index("# b: one job")
