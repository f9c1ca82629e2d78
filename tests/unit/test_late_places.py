"""What only the machine can refuse is told where the value stands, not where the job begins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from migctl.cli.app import run

BOARD = ("--on", "a100-40gb", "--cores", "4")

# A plan's text; exit code; kind; line:column of the value.
PLANS = (
    ("jobs: {a: {command: x,\n  profile: 9g.90gb}}", 2, "no-such-profile", "3:12"),
    ("jobs: {a: {command: x,\n  slices: 5}}", 2, "no-such-slices", "3:11"),
    ("jobs: {a: {command: x,\n  memory: 100g}}", 3, "never-fits", "3:11"),
    ("jobs: {a: {command: x,\n  cpus: 99}}", 2, "cpus-beyond-machine", "3:9"),
    ("jobs: {a: {command: x,\n  cpuset: 70-80}}", 2, "cpuset-beyond-machine", "3:11"),
    ("jobs: {a: {command: x,\n  gpu: 7}}", 2, "no-such-gpu", "3:8"),
    ("jobs: {a: {command: x}}\ngpu: 7", 2, "no-such-gpu", "3:6"),
    ("defaults:\n  cpus: 99\njobs: {a: {command: x}}", 2, "cpus-beyond-machine", "3:9"),
    (
        "jobs: {a: {command: x, profile: 1g.5gb,\n  batch_size_memory: 40g,\n  batch_size: 2}}",
        2,
        "batch-does-not-fit",
        "4:15",
    ),
)


@pytest.mark.parametrize(("text", "code", "kind", "at"), PLANS, ids=[text.replace("\n", " ") for text, *_ in PLANS])
def test_an_error_after_planning_points_at_the_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, code: int, kind: str, at: str
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(f"runtime: process\n{text}\n")

    assert run(["plan", str(plan), *BOARD, "--json"]) == code

    (error,) = json.loads(capsys.readouterr().out)["errors"]
    assert kind in error["id"]
    assert error["where"] == f"{plan}:{at}"
