"""A program that cannot be run: why exactly, and where its command stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from migctl.core.plan import Job
from migctl.errors import PlanError, Where
from migctl.runtimes.program import find_program

# Name; words of the message; words of the hint.
CASES = (
    ("./script.py", "./script.py is not executable", "name the program that reads it, as in [python3, script.py]"),
    ("./data", "./data is a folder, not a program", "name a program in it"),
    ("./nothing", "./nothing does not exist", "whole path"),
    ("./away/nothing", "does not exist: there is no folder {folder}/away", "whole path"),
    ("nosuchprogram", "nosuchprogram is no program in any of the 2 folders of PATH", "activate its environment"),
)


@pytest.mark.parametrize(("name", "message", "hint"), CASES)
def test_why_it_cannot_be_run_is_said_without_the_whole_path(
    tmp_path: Path, name: str, message: str, hint: str
) -> None:
    (tmp_path / "script.py").write_text("print()")
    (tmp_path / "data").mkdir()

    with pytest.raises(PlanError) as raised:
        find_program(name, "/usr/bin:/nowhere", str(tmp_path), where="job a")

    assert message.format(folder=tmp_path) in raised.value.message
    assert hint.format(folder=tmp_path) in str(raised.value.hint)
    assert "/usr/bin:" not in raised.value.message


def test_a_job_points_at_the_first_key_that_is_given() -> None:
    key, start = Where("plan.yaml", 4, 9), Where("plan.yaml", 2, 3)
    job = Job(name="a", origin="a", where=start, places=(("command", key),))

    assert job.place("entrypoint", "command") == key
    assert job.place("image") == start
    assert Job(name="a", origin="a").place("image") == "job a"
