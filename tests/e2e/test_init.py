"""`migctl init`: from an empty folder to a plan that runs, at a terminal and without one."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from migctl.cli.app import run
from tests.support.program import Program

SCRIPT = """import argparse, os, torch
from torch.utils.data import DataLoader
parser = argparse.ArgumentParser()
parser.add_argument("--num-workers", type=int)
"""


def test_the_proposal_is_written_planned_run_and_taken_away(program: Program) -> None:
    told = program.run("init", "--yes", "--runs", "2").ended(0)

    assert (
        told.out == "plan.yaml: 2 jobs, mig on GPU 0 (NVIDIA A100-SXM4-40GB), without containers\nNext: migctl plan\n"
    )
    assert "no training was found in this folder" in told.told
    assert program.run("plan").ended(0)
    assert program.up()
    assert len(program.instances()) == 2
    program.run("down", "--timeout", "0").ended(0)
    assert program.instances() == []


def test_a_file_that_is_there_is_never_overwritten_without_force(program: Program) -> None:
    mine = program.plan("jobs: {a: {command: sleep 1}}\nruntime: process\n", "migctl.yaml")
    before = mine.read_text("utf-8")

    refused = program.run("init", "--yes").ended(4)

    assert "migctl.yaml is there already" in refused.told
    assert mine.read_text("utf-8") == before
    assert sorted(path.name for path in program.folder.iterdir() if path.suffix == ".yaml") == ["migctl.yaml"]
    program.run("init", "--yes", "--force").ended(0)
    assert "Written by `migctl init`" in mine.read_text("utf-8")
    link = program.folder / "link.yaml"
    link.symlink_to("nowhere.yaml")
    assert "link.yaml is there already" in program.run("init", "--yes", "-o", "link.yaml").ended(4).told


def test_without_a_terminal_the_options_that_answer_are_named_and_nothing_is_written(program: Program) -> None:
    refused = program.run("init", "--runs", "2").ended(2)

    assert "there is no terminal to ask at" in refused.told
    assert "migctl init --yes" in refused.told
    assert "--command, --strategy" in refused.told
    assert not (program.folder / "plan.yaml").exists()
    program.run("init", "-c", "sleep 1", "--runs", "2", "--strategy", "sequential", "--runtime", "process").ended(0)
    assert "strategy: sequential" in (program.folder / "plan.yaml").read_text("utf-8")


REFUSED = [
    (("--image", "i"), 4, "--runtime process"),
    (("--image", "i", "--runtime", "process"), 2, "processes have no image"),
    (("-c", "python 'train.py"), 2, "a quote is not closed"),
    (("--on", "z80"), 2, "no GPU board is called"),
    (("--strategy", "shared"), 4, "is in MIG mode"),
    (("--strategy", "mig", "--on", "t4"), 4, "has no MIG"),
    (("--strategy", "mig", "--nvml", "sim:t4"), 4, "has no MIG"),
    (("-o", "nowhere/plan.yaml"), 4, "cannot be written"),
]


@pytest.mark.parametrize(("words", "code", "told"), REFUSED, ids=[" ".join(words) for words, _, _ in REFUSED])
def test_what_was_wished_for_and_cannot_be_had_is_refused_before_anything_is_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    code: int,
    told: str,
) -> None:
    program = Program(tmp_path, DOCKER_HOST=f"unix://{tmp_path}/no-engine.sock")
    for name, value in program.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)

    ended = run(["init", "--yes", *words])

    assert (ended, told in " ".join(capsys.readouterr().err.split())) == (code, True)
    assert list(tmp_path.glob("**/*.yaml")) == []


def test_for_programs_it_is_one_object(program: Program) -> None:
    (program.folder / "train.py").write_text(SCRIPT, "utf-8")

    answer = program.json("init", "--yes", "--on", "h100-sxm5-80gb", "-o", "h100.yaml")

    assert answer["plan"] == "h100.yaml"
    assert answer["jobs"] == ["train"]
    assert answer["next"] == "migctl plan h100.yaml --on h100-sxm5-80gb"
    assert answer["text"] == (program.folder / "h100.yaml").read_text("utf-8")
    assert program.run(*answer["next"].split()[1:]).ended(0)
    assert "jobs:" in program.run("init", "--yes", "-o", "-").ended(0).out


def test_at_a_terminal_it_asks_and_takes_return_for_the_proposal(program: Program) -> None:
    (program.folder / "train.py").write_text(SCRIPT, "utf-8")
    ours, theirs = pty.openpty()
    asked = subprocess.Popen(
        [sys.executable, "-m", "migctl", "init"],
        cwd=program.folder,
        env=program.environ,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.write(ours, b"\nnone\n4\nsequential\n")

    out, err = asked.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)

    assert asked.returncode == 0, err
    assert out.startswith("plan.yaml: 4 jobs, sequential on GPU 0")
    assert err.count("[") == 4  # three questions, since no engine answers, and one of them again
    assert "Here are 1 train.py" in err
    assert "a number from 1 to 1000" in err
    text = (program.folder / "plan.yaml").read_text("utf-8")
    assert "command: python" in text
    assert "train.py --num-workers ${MIGCTL_NUM_WORKERS}" in text


def test_the_end_of_the_input_is_ctrl_c(program: Program) -> None:
    ours, theirs = pty.openpty()
    asked = subprocess.Popen(
        [sys.executable, "-m", "migctl", "init"],
        cwd=program.folder,
        env=program.environ,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.write(ours, b"\x04")

    _, err = asked.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)

    assert asked.returncode == 130, err
    assert not (program.folder / "plan.yaml").exists()
