"""Where a plan may come from beside a plain file: standard input and pipes; and what is said of names that lead nowhere."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path

import pytest

from migctl import planfile
from migctl.errors import Problems

PLAN = "runtime: process\njobs: {a: {command: 'true'}}\n"


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    pipe = tmp_path / "plan"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(PLAN + "# more\n" * 20_000,))
    writer.start()

    plan = planfile.load(pipe, {})

    writer.join()
    assert [job.name for job in plan.jobs] == ["a"]


def test_a_pipe_that_nobody_writes_to_is_an_error_soon(tmp_path: Path) -> None:
    pipe = tmp_path / "plan"
    os.mkfifo(pipe)

    with pytest.raises(Problems, match="is a pipe that nobody writes to"):
        planfile.load(pipe, {})


def test_standard_input_is_a_plan_of_this_folder(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    (folder / "src").mkdir(parents=True)
    text = PLAN.replace("command:", "working_dir: src, command:")

    plan = planfile.load_stream(io.BytesIO(text.encode()), folder, {})

    assert (plan.name, plan.path, plan.folder) == ("sweep", "", str(folder))
    assert plan.jobs[0].working_dir == str(folder / "src")


def test_a_mistake_in_standard_input_has_its_place(tmp_path: Path) -> None:
    with pytest.raises(Problems) as raised:
        planfile.load_stream(io.BytesIO(b"jobs:\n  a: {imag: i}\n"), tmp_path, {})

    assert str(raised.value.errors[-1].where) == "standard input:2:7"


# Name; words of the hint.
MISSING = (
    ("plan.yml", "did you mean {folder}/plan.yaml?"),
    ("nothing", "in that folder there is plan.yaml"),
    ("away/plan.yaml", "there is no folder {folder}/away either"),
)


@pytest.mark.parametrize(("name", "hint"), MISSING)
def test_a_file_that_does_not_exist_has_a_next_step(tmp_path: Path, name: str, hint: str) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)

    with pytest.raises(Problems) as raised:
        planfile.load(tmp_path / name, {})

    assert hint.format(folder=tmp_path) in str(raised.value.hint)
