"""Values of secrets and of env_file are in no output, label, lock, claim or export; the state has them in private files only."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.program import Done, Program

NAMED = "hf_Marked4Name"
FROM_FILE = "Marked4File"
ON_THE_LINE = "Marked4Line"
MARKS = (NAMED, FROM_FILE, ON_THE_LINE)
PLAN = f"""\
name: night
runtime: process
oversubscribe: true
notify: [{{command: [sh, -c, "cat >>told; echo >>told"], on: [job, run]}}]
defaults: {{env_file: hidden.env, environment: {{HF_TOKEN: {NAMED}, DB_PASSWORD: '{NAMED} two', LR: 0.1}}}}
jobs:
  a: {{profile: 1g.5gb, command: [sh, -c, 'test "$$HF_TOKEN" = "$$KNOWN" && test -n "$$PLAIN_NAME" && sleep 600']}}
  b: {{profile: 1g.5gb, command: [sh, -c, exit 3], retries: 1}}
  c: {{profile: 1g.5gb, command: ['true'], needs: b}}
"""
LOOKING: Sequence[Sequence[str]] = (
    ("plan",), ("plan", "--json"), ("check",), ("check", "--json"), ("status",), ("status", "--json", "--all"), ("status", "-v"),
    ("history",), ("history", "night"), ("history", "night", "--json"), ("logs",), ("up", "--dry-run"), ("up", "-v"),
    ("wait", "night", "--timeout", "0.1"), ("adopt", "--dry-run"), ("hold",), ("release",), ("stop", "c"), ("restart", "a"),
)  # fmt: skip
EXPORTS = ("compose", "shell", "slurm", "kubernetes", "mig-parted")


@pytest.fixture
def night(program: Program) -> Program:
    (program.folder / "hidden.env").write_text(f"PLAIN_NAME={FROM_FILE}\nOTHER='{FROM_FILE} too'\n")
    program.environ["KNOWN"] = NAMED
    program.plan(PLAN)
    return program


def marked(text: str) -> bool:
    return any(mark in text for mark in MARKS)


def silent(done: Done) -> Done:
    assert not marked(done.out + done.err), done
    return done


def everything_below(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def test_no_command_and_nothing_that_others_read_tells_a_secret(night: Program) -> None:
    silent(night.run("up", "-v")).ended(0)
    silent(night.run("run", "--name", "one", "--", "sh", "-c", f"sleep 600 # {ON_THE_LINE}")).ended(0)
    for words in LOOKING:
        silent(night.run(*words))

    # The job itself has them.
    assert night.jobs()["a"]["state"] == "running"
    for path in everything_below(night.claims):
        assert not marked(path.read_text("utf-8", "replace")), path
    told = night.folder / "told"
    assert told.exists()
    assert not marked(told.read_text())
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (words := _supervisors_words(entry, night.state)):
            assert not marked(words)
    keeping = {
        path.name for path in everything_below(night.state) if marked(path.read_bytes().decode("utf-8", "replace"))
    }
    assert keeping <= {"@plan.json", "launch.json", "owner.json", "store.db", "store.db-wal", "record.json"}, keeping
    for path in (night.state, *night.state.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        assert mode & 0o077 == 0, f"{path} has mode {mode:04o}"
    # Of the environment only what starts the jobs keeps the values; what is only told of them has names.
    values = {
        p.name
        for p in everything_below(night.state)
        if NAMED in (text := p.read_bytes().decode("utf-8", "replace")) or FROM_FILE in text
    }
    assert values <= {"@plan.json", "launch.json"}, values
    silent(night.run("down", "--all", "--timeout", "0")).ended(0)


def _supervisors_words(entry: Path, state: Path) -> str:
    try:
        if f"MIGCTL_STATE_DIR={state}".encode() in (entry / "environ").read_bytes():
            words = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
            return words if "migctl" in words else ""
    except OSError:
        pass
    return ""


@pytest.mark.parametrize("what", EXPORTS)
def test_an_export_names_secrets_and_does_not_hold_them(night: Program, what: str) -> None:
    if what in ("compose", "kubernetes"):  # they run nothing but containers
        night.plan(PLAN.replace("runtime: process\n", "").replace("profile: 1g.5gb,", "image: i, profile: 1g.5gb,"))

    done = silent(night.run("export", what, "--on", "a100-40gb", "--cores", "16", "--mig-strategy", "mixed")).ended(0)

    if what != "mig-parted":
        assert "HF_TOKEN" in done.out
        assert "PLAIN_NAME" in done.out
        assert "Secrets are not written here" in done.out


WRONG = (
    f"jobs: {{a: {{profile: 1g.5gb, command: 'true', environment: {{HF_TOKEN: {NAMED}, CUDA_VISIBLE_DEVICES: 0}}}}}}",
    f"jobs: {{a: {{profile: nonsense, environment: {{HF_TOKEN: {NAMED}}}, command: 'true'}}}}",
    f"jobs:\n  a:\n    environment:\n      HF_TOKEN: [{NAMED}]\n",
    f"jobs:\n  a:\n    environment:\n    - HF_TOKEN={NAMED}\n    - HF_TOKEN={NAMED}\n    - NVIDIA_VISIBLE_DEVICES=all\n",
    f"jobs:\n  a:\n    environment: {{HF_TOKEN: '{NAMED}', HF_TOKEN: '{NAMED}'}}\n",
    f"jobs:\n  a:\n    environment: {{HF_TOKEN: '{NAMED}\n",
    f"jobs:\n  a:\n    environment: {{HF_TOKEN: '{NAMED} ${{MIGCTL_NOTHING}}'}}\n",
    f"jobs:\n  a:\n    environment: {{HF_TOKEN: '${{MISSING:?}} {NAMED}'}}\n",
    "jobs: {a: {env_file: wrong.env, command: 'true'}}",
    "jobs: {a: {env_file: key.env, command: 'true'}}",
)


@pytest.mark.parametrize("plan", WRONG)
def test_an_error_shows_the_line_without_its_secret(program: Program, plan: str) -> None:
    (program.folder / "wrong.env").write_text(f"CUDA_VISIBLE_DEVICES={FROM_FILE}\nA='{FROM_FILE}\n")
    (program.folder / "key.env").write_text(f"KEY=-----BEGIN\n{FROM_FILE} x y\n{FROM_FILE}/+=\n")
    program.plan(plan)

    for words in (("plan", "--on", "a100-40gb"), ("up",), ("up", "--json")):
        done = silent(program.run(*words, "--runtime", "process")).ended(2)
        if "--json" in words:
            assert json.loads(done.out)["errors"]


def test_a_state_directory_is_private_whatever_the_umask_is(program: Program) -> None:
    program.plan("name: night\nruntime: process\njobs: {a: {profile: 1g.5gb, command: 'true'}}\n")
    program.prefix = ("sh", "-c", 'umask 0; exec "$@"', "sh")
    program.up("--wait")

    for path in (program.state, *program.state.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        assert mode & 0o077 == 0, f"{path} has mode {mode:04o}"
    assert stat.S_IMODE(program.state.stat().st_mode) == 0o700


def test_an_exported_script_takes_its_secrets_from_the_environment_or_ends_before_anything_is_made(
    night: Program,
) -> None:
    night.plan(
        "name: night\nruntime: process\njobs:\n"
        f"  a: {{profile: 1g.5gb, command: [sh, -c, 'echo \"$$HF_TOKEN\" >a.txt'], environment: {{HF_TOKEN: {NAMED}}}}}\n"
        f"  b: {{profile: 1g.5gb, command: [sh, -c, 'echo \"$$HF_TOKEN\" >b.txt'], environment: {{HF_TOKEN: {NAMED}2}}}}\n"
    )
    silent(night.run("export", "shell", "-q", "-o", "run.sh")).ended(0)
    assert not marked((night.folder / "run.sh").read_text())
    tools = night.folder / "bin"
    tools.mkdir()
    smi = tools / "nvidia-smi"
    smi.write_text(
        f'#!/bin/sh\nexec {night.python} {Path(__file__).parents[1]}/support/stand_in_smi.py {night.simulator} a100-40gb "$@"\n'
    )
    smi.chmod(0o755)
    environ = {**night.environ, "PATH": f"{tools}:{os.environ['PATH']}"}

    def run(**given: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "run.sh"],
            cwd=night.folder,
            env={**environ, **given},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    without = run(HF_TOKEN="x")
    done = run(HF_TOKEN="one", HF_TOKEN_2="two words")

    assert without.returncode != 0
    assert "HF_TOKEN_2" in without.stderr
    assert done.returncode == 0, done
    assert (night.folder / "a.txt").read_text() == "one\n"
    assert (night.folder / "b.txt").read_text() == "two words\n"
    assert night.instances() == []
