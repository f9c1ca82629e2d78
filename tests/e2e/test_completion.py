"""Completion at the press of a key: in a real bash, in zsh and fish where they are installed, and by the words they exchange."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.program import Program

PLAN = """runtime: process
name: night
jobs:
  sweep: {profile: 1g.5gb, command: [sleep, '600'], replicas: 2}
  late: {profile: 7g.40gb, command: [sleep, '1']}
"""
OVER = "runtime: process\nname: yesterday\njobs: {old: {profile: 1g.5gb, command: ['true']}}\n"

FULL = os.environ.get("MIGCTL_TEST_FULL") == "1"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A run with two jobs, and `migctl` on the PATH."""
    folder = tmp_path_factory.mktemp("completion")
    here = Program(folder, DOCKER_HOST=f"unix://{folder}/no-engine.sock")
    (folder / "bin").mkdir()
    script = folder / "bin/migctl"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m migctl "$@"\n', "utf-8")
    script.chmod(0o755)
    here.environ["PATH"] = f"{folder}/bin:{os.environ['PATH']}"
    here.environ["HOME"] = str(folder)
    here.plan(OVER, "yesterday.yaml")
    here.run("up", "yesterday.yaml", "--wait").ended(0)
    here.run("down", "yesterday").ended(0)
    here.plan(PLAN)
    here.up()
    yield here
    here.clean()


def bash(program: Program, line: str) -> set[str]:
    """What bash would offer behind this line."""
    words = line.split(" ")
    asked = f"""
eval "$(_MIGCTL_COMPLETE=source_bash migctl)"
COMP_WORDS=({" ".join(words[:-1])} "{words[-1]}") COMP_CWORD={len(words) - 1}
_migctl_completion migctl
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["bash", "--norc", "-c", asked],
        cwd=program.folder,
        env=program.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return set(done.stdout.split())


OFFERED = [
    ("migctl sta", {"status"}, set()),
    ("migctl status ", {"night"}, {"sweep-1", "yesterday"}),
    ("migctl logs ", {"night", "sweep-1", "sweep-2", "yesterday"}, {"status"}),
    ("migctl stop night/", {"night/sweep-1", "night/sweep-2", "night/late"}, {"night"}),
    ("migctl stop ", {"night", "late"}, {"yesterday"}),
    ("migctl report ", {"night", "yesterday"}, set()),
    ("migctl history ", {"night", "yesterday"}, set()),
    ("migctl rm ", {"yesterday"}, {"night"}),
    ("migctl plan --on h100", {"h100-sxm5-80gb"}, {"a100-40gb"}),
    ("migctl run --profile 3", {"3g.20gb"}, {"3g.40gb", "1g.5gb"}),
    ("migctl export ", {"compose", "slurm", "kubernetes", "shell", "mig-parted"}, {"night"}),
    ("migctl up --r", {"--replace", "--retry", "--runtime"}, {"--wait"}),
    ("migctl run --runtime ", {"docker", "process"}, set()),
]


@pytest.mark.parametrize(("line", "offered", "others"), OFFERED, ids=[line for line, _, _ in OFFERED])
def test_bash_completes(running: Program, line: str, offered: set[str], others: set[str]) -> None:
    found = bash(running, line)

    assert offered <= found
    assert not others & found


def protocol(program: Program, shell: str, line: str, **more: str) -> str:
    """What migctl answers the shell's script."""
    asked = {"_MIGCTL_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line, **more}
    return program.run(**asked).ended(0).out


def test_zsh_and_fish_are_answered_in_their_own_words(running: Program) -> None:
    assert '"night"' in protocol(running, "zsh", "migctl status ")
    assert protocol(running, "zsh", "migctl plan ").strip() == "_files"
    assert protocol(running, "fish", "migctl status n", _TYPER_COMPLETE_FISH_ACTION="get-args") == "night\n"


@pytest.mark.skipif(not FULL and shutil.which("zsh") is None, reason="zsh is not installed (scripts/packages)")
def test_zsh_reads_the_script_and_completes(running: Program) -> None:
    script = """
autoload -Uz compinit && compinit -u -d "$HOME/zcompdump"
_arguments() { print -r -- "$@" }
words=(migctl status n) CURRENT=3
eval "$(_MIGCTL_COMPLETE=source_zsh migctl)"
_migctl_completion
"""
    done = subprocess.run(
        ["zsh", "-f", "-c", script], cwd=running.folder, env=running.environ, capture_output=True, text=True, check=True
    )
    assert '"night"' in done.stdout, done.stderr


@pytest.mark.skipif(not FULL and shutil.which("fish") is None, reason="fish is not installed (scripts/packages)")
def test_fish_reads_the_script_and_completes(running: Program) -> None:
    script = '_MIGCTL_COMPLETE=source_fish migctl | source; complete --do-complete "migctl status n"'
    done = subprocess.run(
        ["fish", "--no-config", "-c", script],
        cwd=running.folder, env=running.environ, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "night" in done.stdout, done.stderr


def test_a_key_press_loads_no_heavy_library_and_breaks_no_line(running: Program, tmp_path: Path) -> None:
    told = """
import json, sys
from migctl.cli.app import run
code = run([])
sys.stderr.write(json.dumps({"code": code, "loaded": sorted(sys.modules)}))
"""
    environ = {
        **running.environ,
        "_MIGCTL_COMPLETE": "complete_bash",
        "COMP_WORDS": "migctl\nlogs\n",
        "COMP_CWORD": "2",
    }
    done = subprocess.run(
        [sys.executable, "-c", told], cwd=running.folder, env=environ, capture_output=True, text=True, check=True
    )
    seen = json.loads(done.stderr)
    assert seen["code"] == 0
    assert not {"docker", "pynvml", "yaml", "rich", "requests", "migctl.engine.converge"} & set(seen["loaded"])
    blocked = tmp_path / "file"
    blocked.write_text("no folder", "utf-8")
    environ["MIGCTL_STATE_DIR"] = str(blocked)
    done = subprocess.run(
        [sys.executable, "-c", "from migctl.cli.app import run; run([])"],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")


@pytest.mark.parametrize(("typo", "meant"), [("stauts", "status"), ("dwon", "down"), ("plna", "plan")])
def test_a_mistyped_command_is_told_what_was_meant(program: Program, typo: str, meant: str) -> None:
    assert f"'{meant}'" in program.run(typo).ended(2).told
