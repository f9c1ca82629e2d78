"""Whatever a file holds, an import gives a plan that our own reader takes, or says what is wrong with the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from migctl import planfile
from migctl.errors import PlanError, Problems
from migctl.planfile.importers import Format, imported
from migctl.planfile.source import checked

INPUTS = sorted((Path(__file__).parents[1] / "data" / "imports").iterdir())
ODD = st.sampled_from([
    "", "'", '"', "`", "$(", "${X", "\\", "{", "]", ": ", "- ", "#", "null", "[]", "{}", "0", "-1", "1e9", "all", "MIG-", "~", "&a",
    "*a", "--gpus", "-e", "-v :", "--ulimit x", "--mount", "#SBATCH --array=9-1", "#SBATCH -t x", "for x in", "done", "ts -S",
    "ts -g", "é",
])  # fmt: skip


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[str, str]:
    """One of the files, with some of its lines and words changed, doubled or gone."""
    path = draw(st.sampled_from(INPUTS))
    lines = path.read_text("utf-8").splitlines()
    for _ in range(draw(st.integers(0, 3))):
        here = draw(st.integers(0, max(0, len(lines) - 1)))
        match draw(st.sampled_from(["drop", "double", "word", "insert"])):
            case "drop":
                del lines[here : here + 1]
            case "double":
                lines[here:here] = lines[here : here + 1]
            case "insert":
                lines.insert(here, draw(ODD))
            case _:
                words = lines[here].split(" ") if lines else [""]
                words[draw(st.integers(0, len(words) - 1))] = draw(ODD)
                lines[here : here + 1] = [" ".join(words)]
    return path.name, "\n".join(lines) + "\n"


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(spoilt(), st.none() | st.sampled_from(Format))
def test_a_spoilt_file_is_a_plan_or_an_error(file: tuple[str, str], format_: Format | None) -> None:
    name, text = file
    try:
        found = imported(checked(text, name), format_, config="lab" if "per-gpu" in name else None)
    except (PlanError, Problems):
        return

    written = found.text()

    try:
        planfile.loads(written, "plan.yaml", Path("/srv/x"), {}, engine="slurm")
    except (PlanError, Problems) as problems:
        # A wrong value of the source stays what it is, and the reader tells its place; the text itself is a plan.
        ids = {error.id for error in problems.all}
        if ids & {"yaml-syntax", "unknown-key", "duplicate-key", "bad-name", "no-jobs", "bad-job", "quote-it"}:
            pytest.fail(f"{ids}\n{written}")


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200), st.none() | st.sampled_from(Format))
def test_any_text_is_a_plan_or_an_error(text: str, format_: Format | None) -> None:
    try:
        source = checked(text, "file")
        imported(source, format_).text()
    except (PlanError, Problems):
        return
