"""`export` and `import` as commands: where the text goes, what is told beside it, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.program import Program

PLAN = """
name: sweep
jobs:
  a: {image: i, profile: 3g.20gb, command: x, timeout: 1h}
  b: {image: i, profile: 1g.5gb, command: x, replicas: 2}
"""
NODE = ("--on", "a100-40gb", "--cores", "16")
INPUTS = Path(__file__).parents[1] / "data" / "imports"


def test_the_text_is_alone_on_stdout_and_what_is_lost_on_stderr(program: Program) -> None:
    program.plan(PLAN)

    done = program.run("export", "compose", *NODE).ended(0)

    assert done.out.startswith("# plan sweep for Docker Compose v2, planned for a100-40gb, 16 cores.")
    assert "timeout of a is left out" in done.told
    assert program.run("export", "compose", *NODE, "-q").ended(0).err == ""


def test_one_json_object_has_every_file(program: Program) -> None:
    program.plan(PLAN)

    answer = json.loads(
        program.run("export", "slurm", *NODE, "--gres-type", "1g.5gb=a100_1g.5gb", "--json").ended(0).out
    )

    assert (answer["version"], answer["format"]) == (1, "slurm")
    assert {file["name"] for file in answer["files"]} == {"", "submit.sh", "a.sbatch", "b.sbatch"}
    assert "--gres=gpu:a100_1g.5gb:1" in answer["files"][0]["text"]
    assert answer["warnings"] == []


def test_slurm_goes_into_a_folder_and_the_administrators_lines_are_there(program: Program) -> None:
    program.plan(PLAN)

    program.run("export", "slurm", *NODE, "-q", "-o", "jobs").ended(0)

    text = (program.folder / "jobs/submit.sh").read_text("utf-8")
    assert sorted(path.name for path in (program.folder / "jobs").iterdir()) == ["a.sbatch", "b.sbatch", "submit.sh"]
    assert "NodeName=NODE Gres=gpu:3g.20gb:1,gpu:1g.5gb:2" in text
    assert "AutoDetect=nvml" in text
    assert "MultipleFiles=/dev/nvidiaN,/dev/nvidia-caps/nvidia-capGI,/dev/nvidia-caps/nvidia-capCI" in text


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("export", "kubernetes", "one.yaml", *NODE), 2, "--mig-strategy mixed or single"),
        (("export", "slurm", "plan.yaml", *NODE, "--gres-type", "odd"), 2, "--gres-type is PROFILE=TYPE"),
        (("export", "nomad"), 2, "compose, shell, slurm, kubernetes or mig-parted"),
        (("export", "compose", "plan.yaml", *NODE, "-o", "/nowhere/x.yaml"), 4, "cannot be written"),
        (("export", "compose", "none.yaml"), 2, "does not exist"),
        (("import", "plan.yaml"), 2, "is a plan already"),
        (("import", "none.yaml"), 2, "does not exist"),
        (("import", "compose"), 2, "import takes a file"),
        (("import", "fits-nowhere.yaml"), 3, "11 memory slices of 8"),
        (("import", "compose.yaml", "-o", "plan.yaml"), 4, "overwrites nothing"),
    ],
)
def test_what_cannot_be_done_says_why(program: Program, words: tuple[str, ...], code: int, told: str) -> None:
    program.plan(PLAN)
    program.plan("jobs: {a: {image: i, profile: 1g.5gb, command: x}}", "one.yaml")
    program.plan((INPUTS / "migparted-impossible.yaml").read_text("utf-8"), "fits-nowhere.yaml")
    program.plan("services: {a: {image: i}}", "compose.yaml")

    assert told in program.run(*words).ended(code).told


def test_a_plan_for_a_cluster_is_exported_where_there_is_none_and_brought_up_only_there(program: Program) -> None:
    program.plan("engine: slurm\njobs: {a: {image: i, profile: 1g.5gb, cpus: 2, volumes: ['/only/on/nodes:/data']}}")

    done = program.run("export", "slurm", "-q").ended(0)

    assert "/only/on/nodes:/data" in done.out
    assert "scontrol cannot be run" in program.run("up", PATH="/nowhere").ended(4).told
    assert "the plan's jobs run on slurm" in program.run("plan").ended(2).told


def test_several_files_become_one_plan_and_what_is_left_is_told(program: Program) -> None:
    program.plan("services: {web: {image: i, restart: always}}", "compose.yaml")
    program.plan("#!/bin/bash\n#SBATCH -J train\n#SBATCH -c 2\nsrun python x.py\n", "train.sbatch")

    done = program.run("import", "compose.yaml", "train.sbatch", "-o", "plan.yaml").ended(0)

    text = (program.folder / "plan.yaml").read_text("utf-8")
    assert "restart: always" in done.told
    assert "# not taken over: restart: always" in text
    assert "web:" in text
    assert "train:" in text
    assert "web" in json.loads(program.run("import", "compose.yaml", "--json").ended(0).out)["jobs"]


def test_todays_uuid_stands_for_the_form_before_driver_470(program: Program) -> None:
    program.plan("runtime: process\nname: made\njobs: {a: {profile: 1g.5gb, command: [sleep, '60']}}")
    program.up()
    (gpu,) = program.json("status")["gpus"]
    (instance,) = gpu["instances"]
    old = f"MIG-{gpu['uuid']}/{instance['gi_id']}/0"
    program.plan(f"services: {{a: {{image: i, gpus: [{{device_ids: ['{old}']}}]}}}}", "compose.yaml")

    done = program.run("import", "compose.yaml").ended(0)

    assert f"instance: {instance['mig_uuids'][0]}" in done.out
    assert f"{old} is {instance['mig_uuids'][0]} today" in done.told


def test_the_device_files_of_the_instances_that_are_here_stand_in_gres_conf(program: Program) -> None:
    program.plan("runtime: process\nname: made\njobs: {a: {profile: 1g.5gb, cpus: 1, command: [sleep, '60']}}")
    program.up()
    (gpu,) = program.json("status")["gpus"]
    gi = gpu["instances"][0]["gi_id"]
    tree = program.folder / "root"
    (tree / "proc/driver/nvidia-caps").mkdir(parents=True)
    (tree / "proc/driver/nvidia-caps/mig-minors").write_text(f"gpu0/gi{gi}/access 66\ngpu0/gi{gi}/ci0/access 67\n")

    done = program.run("export", "slurm", "-q", MIGCTL_ROOT=str(tree)).ended(0)

    files = "/dev/nvidia0,/dev/nvidia-caps/nvidia-cap66,/dev/nvidia-caps/nvidia-cap67"
    assert f"Name=gpu Type=1g.5gb MultipleFiles={files}\n" in done.out
