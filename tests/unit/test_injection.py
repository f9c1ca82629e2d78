# ruff: noqa: E501 -- tables of hostile texts
"""Exports made of hostile texts are run as they are: they start the job with exactly these texts, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from migctl.core.plan import Plan
from tests.support import exports

CANARY = "touch canary"
HOSTILE = (
    f"$({CANARY})", f"`{CANARY}`", f"; {CANARY} #", f"\n{CANARY}\n", f"'; {CANARY}; '", f'"; {CANARY}; "', f"|| {CANARY}", f"& {CANARY} &",
    f"a\nEND\n{CANARY}\nEND1\n", f";;\nesac\n{CANARY}\n", f")\n}}\n{CANARY}\n", f"\\\n{CANARY}", f"${{X:-$({CANARY})}}", f"${{X[$({CANARY})]}}",
    f"#SBATCH --wrap='{CANARY}'", f"--help\n--entrypoint {CANARY}", f"{{{{{CANARY}}}}}", f"!{CANARY}", f"%s$({CANARY})", f"*/{CANARY}",
    f"' && {CANARY} && '", f"\\'; {CANARY}; \\'", f"- {CANARY}: &a [*a]",
)  # fmt: skip
SHOW = """\
import json, os, sys
with open(os.environ["SHOWN"], "w") as file:
    json.dump({"argv": sys.argv[1:], "environ": dict(os.environ), "cwd": os.getcwd()}, file)
"""
FOLDER = f'it\'s "a" $({CANARY}) `{CANARY}` ;{CANARY}'
NAMES = ("NOTE", "A.B", "HF_TOKEN", "LR")


def doubled(text: str) -> str:
    """A dollar in a plan is written twice."""
    return text.replace("$", "$$")


def hostile(folder: Path, **keys: Any) -> Plan:
    """A plan whose every text is hostile; JSON is YAML."""
    (folder / FOLDER).mkdir(exist_ok=True)
    job = {
        "image": "i:1",
        "profile": "1g.5gb",
        "entrypoint": ["show", doubled(HOSTILE[0])],
        "command": [doubled(text) for text in HOSTILE],
        "environment": {name: doubled(HOSTILE[number]) for number, name in enumerate(NAMES)}
        | {"HF_TOKEN": doubled(HOSTILE[4])},
        "working_dir": doubled(str(folder / FOLDER)),
        "labels": {"note": doubled(HOSTILE[6])},
        "tmpfs": [doubled("/scratch:size=1g")],
        **keys.pop("job", {}),
    }
    settings = {
        "partition": doubled(HOSTILE[2]),
        "options": [doubled(f"--comment='{HOSTILE[0]}'")],
    }
    whole = {
        "name": "night",
        "slurm": settings,
        "kubernetes": {"mig_strategy": "mixed"},
        "jobs": {"a": job, "b": {**job, "needs": "a"}},
    }
    return exports.plan(json.dumps({**whole, **keys}), folder)


def tools(folder: Path, **programs: str) -> dict[str, str]:
    """An environment whose PATH begins with these programs and with one that writes down what it got."""
    place = folder / "tools"
    place.mkdir(exist_ok=True)
    for name, text in {"show": f"#!{sys.executable}\n{SHOW}", **programs}.items():
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    return {"PATH": f"{place}:{os.environ['PATH']}", "SHOWN": str(folder / "shown.json"), "HF_TOKEN": HOSTILE[4]}


def run(words: list[str], folder: Path, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False)


def check_harmless(folder: Path) -> None:
    assert not list(folder.rglob("canary*"))


def check_shown(folder: Path, variables: tuple[str, ...] = NAMES) -> None:
    told = json.loads((folder / "shown.json").read_text())
    assert told["argv"] == [HOSTILE[0], *HOSTILE]
    expected = {name: HOSTILE[number] for number, name in enumerate(NAMES)} | {"HF_TOKEN": HOSTILE[4]}
    assert {name: told["environ"].get(name) for name in variables} == {name: expected[name] for name in variables}
    check_harmless(folder)


def shells(folder: Path, plan: Plan) -> str:
    """The script for a GPU without MIG, which has nothing to make first."""
    del folder
    return exports.shell(plan, exports.machine("t4"))


def test_what_an_export_makes_of_hostile_texts_runs_nothing_but_the_job(tmp_path: Path) -> None:
    plan = hostile(tmp_path, runtime="process", strategy="shared", job={"profile": None})
    (tmp_path / "run.sh").write_text(shells(tmp_path, plan))

    done = run(["sh", "run.sh"], tmp_path, tools(tmp_path))

    assert done.returncode == 0, done
    check_shown(tmp_path)
    assert json.loads((tmp_path / "shown.json").read_text())["cwd"] == str(tmp_path / FOLDER)


RECORD = '#!/bin/sh\nif [ "$1" = run ]; then shift; exec show "$@"; fi\n[ "$1" != wait ] || echo 0\n'


def test_a_script_of_containers_hands_on_every_text(tmp_path: Path) -> None:
    plan = hostile(
        tmp_path, strategy="shared", job={"profile": None, "volumes": [doubled(f"{tmp_path / FOLDER}:/data")]}
    )
    (tmp_path / "run.sh").write_text(shells(tmp_path, plan))

    done = run(["sh", "run.sh"], tmp_path, tools(tmp_path, docker=RECORD))

    assert done.returncode == 0, done
    told = json.loads((tmp_path / "shown.json").read_text())
    assert told["argv"][-len(HOSTILE) :] == list(HOSTILE)
    assert f"NOTE={HOSTILE[0]}" in told["argv"]
    assert told["argv"][told["argv"].index("--workdir") + 1] == str(tmp_path / FOLDER)
    assert told["environ"]["HF_TOKEN"] == HOSTILE[4]
    assert not [word for word in told["argv"] if word == f"HF_TOKEN={HOSTILE[4]}"], (
        "on a command line everybody could read it"
    )
    check_harmless(tmp_path)


SRUN = '#!/bin/sh\nwhile case ${1-} in --*) true ;; *) false ;; esac; do shift; done\nexec "$@"\n'


@pytest.mark.parametrize("container", ["none", "pyxis", "apptainer", "docker"])
def test_a_batch_script_hands_on_every_text(tmp_path: Path, container: str) -> None:
    plan = hostile(
        tmp_path,
        slurm={"container": container, "partition": doubled(HOSTILE[2]), "options": [doubled(f"--x={HOSTILE[1]}")]},
    )
    first = exports.slurm(plan)[0]
    environ = tools(
        tmp_path, srun=SRUN, apptainer=RECORD.replace('"run"', '"exec"').replace("= run", "= exec"), docker=RECORD
    )
    environ |= {"SLURM_CPUS_PER_TASK": "1", "SLURM_JOB_ID": "7", "CUDA_VISIBLE_DEVICES": "MIG-1"}

    done = run(["taskset", "-c", str(min(os.sched_getaffinity(0))), "bash", "-c", first.text], tmp_path, environ)

    assert done.returncode == 0, done
    told = json.loads((tmp_path / "shown.json").read_text())
    assert told["argv"][-len(HOSTILE) :] == list(HOSTILE)
    assert told["environ"]["HF_TOKEN"] == HOSTILE[4]
    check_harmless(tmp_path)
    # What stands in the options is Slurm's to read: each on its line, none of them a line of its own.
    assert all(line.startswith("#") for line in first.text.split("\nset -u")[0].splitlines())


SBATCH = '#!/bin/sh\ncat >>"$SHOWN"\necho 7\n'


def test_the_script_that_submits_hands_the_batch_scripts_on_as_they_are(tmp_path: Path) -> None:
    plan = hostile(tmp_path)
    (tmp_path / "submit.sh").write_text(exports.slurm_text(plan))

    done = run(["sh", "submit.sh"], tmp_path, tools(tmp_path, sbatch=SBATCH))

    assert done.returncode == 0, done
    assert (tmp_path / "shown.json").read_text() == "".join(script.text for script in exports.slurm(plan))
    check_harmless(tmp_path)


def test_without_its_secrets_nothing_is_submitted(tmp_path: Path) -> None:
    (tmp_path / "submit.sh").write_text(exports.slurm_text(hostile(tmp_path)))
    environ = {name: value for name, value in tools(tmp_path, sbatch=SBATCH).items() if name != "HF_TOKEN"}

    done = run(["sh", "submit.sh"], tmp_path, environ)

    assert done.returncode != 0
    assert "HF_TOKEN" in done.stderr
    assert not (tmp_path / "shown.json").exists()


def test_a_pod_gets_every_text_and_its_secrets_from_the_plans_secret(tmp_path: Path) -> None:
    first = next(yaml.safe_load_all(exports.kubernetes(hostile(tmp_path))))
    container = first["spec"]["template"]["spec"]["containers"][0]
    given = {one["name"]: one for one in container["env"]}
    assert given["HF_TOKEN"]["valueFrom"]["secretKeyRef"] == {"name": "night-secrets", "key": "HF_TOKEN"}
    # Kubernetes writes `$` for `$$`, and nothing of ours names a variable in its way.
    words = [word.replace("$$", "$") for word in container["command"]]
    environ = {name: one["value"].replace("$$", "$") for name, one in given.items() if "value" in one}
    environ |= {**tools(tmp_path), "MIGCTL_CPU_LIMIT": "1"}

    done = run(["taskset", "-c", str(min(os.sched_getaffinity(0))), *words], tmp_path, environ)

    assert done.returncode == 0, done
    check_shown(tmp_path)


OUT = ("..", "../x", "/etc/x", "a/b", "a\\b", "", ".", "-x", "a\nb", "a b", "x" * 64, "a;b", "$(id)", "é", "\u202ea")


@pytest.mark.parametrize("name", OUT)
@pytest.mark.parametrize("kind", ["name", "job"])
def test_no_name_of_a_run_or_job_leads_anywhere(name: str, kind: str) -> None:
    from migctl.core.names import problem
    from migctl.errors import Problems

    jobs = {name if kind == "job" else "a": {"image": "i", "profile": "1g.5gb", "command": ["x"]}}
    try:
        made = exports.plan(json.dumps({**({"name": name} if kind == "name" else {}), "jobs": jobs}))
    except Problems:
        return
    assert problem(made.name) is None
    assert all(problem(job.name) is None for job in made.jobs)
