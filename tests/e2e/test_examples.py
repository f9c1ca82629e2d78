"""The plans of compose/plans: each fits the machine that it is made for, runs on a simulated one, and leaves nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from migctl.nvml.simstate import SimState
from tests.support.program import ROOT, Program

PLANS = ROOT / "compose/plans"


@dataclass(frozen=True, slots=True)
class Example:
    boards: str
    instances: int
    """GPU instances once `up` has returned."""
    waiting: int = 0


EXAMPLES = {
    "administrators-slice": Example("a100-40gb", 1),
    "anna": Example("a100-40gb", 1),
    "anywhere": Example("a100-40gb", 7, waiting=3),
    "ben": Example("a100-40gb", 1),
    "demo": Example("a100-40gb", 4),
    "mixed-boards": Example("a100-40gb,a30,t4", 3),
    "overnight": Example("a100-40gb", 1, waiting=2),
    "seven": Example("a100-40gb", 7),
    "sweep": Example("a100-40gb", 7, waiting=6),
    "three-and-four": Example("a100-40gb", 2),
    "train": Example("a100-40gb", 3),
    "without-mig": Example("t4", 0),
}
CONTAINERS = {"anywhere", "seven", "train"}
"""Their commands are an image's."""


def test_every_example_is_in_the_table_and_has_a_comment_and_the_schema() -> None:
    texts = {path.stem: path.read_text("utf-8").splitlines() for path in PLANS.glob("*.yaml")}

    assert set(texts) == set(EXAMPLES)
    for lines in texts.values():
        assert lines[0] == "# yaml-language-server: $schema=../plan.schema.json"
        assert lines[1].startswith("# ")
    assert json.loads((PLANS.parent / "plan.schema.json").read_text("utf-8"))["title"] == "migctl plan"


@pytest.fixture
def machine(program: Program, request: pytest.FixtureRequest) -> Program:
    """The machine that an example is made for; where it takes an administrator's instance, with one."""
    name = request.param
    program.environ |= {"MIGCTL_NVML": f"sim:{EXAMPLES[name].boards}", "TMPDIR": str(program.folder)}
    SimState.create(program.simulator, EXAMPLES[name].boards)
    if name == "administrators-slice":
        with SimState.edit(program.simulator) as state:
            program.environ["MY_SLICE"] = state.add_foreign_instance(0, "2g.10gb", 0).compute[0].mig_uuid
    return program


BY_NAME = {"argnames": ("machine", "name"), "argvalues": [(name, name) for name in EXAMPLES], "indirect": ["machine"]}


@pytest.mark.parametrize(**BY_NAME)
def test_an_example_runs_and_leaves_nothing(machine: Program, name: str) -> None:
    example, file = EXAMPLES[name], str(PLANS / f"{name}.yaml")
    before = instances(machine, example)
    words = ["--on", example.boards, "--cores", "16"] if "MY_SLICE" not in machine.environ else []

    planned = machine.json("plan", file, *words)

    assert not planned.get("errors"), planned
    assert len(planned["waiting"]) == example.waiting
    if name in CONTAINERS:
        return
    machine.up(file)
    assert len(instances(machine, example)) == example.instances
    machine.run("down", "--all", "--timeout", "0").ended(0)
    assert instances(machine, example) == before


def instances(program: Program, example: Example) -> list[object]:
    return [one for gpu in range(example.boards.count(",") + 1) for one in program.instances(gpu)]


def test_the_two_users_plans_fit_beside_each_other(program: Program, tmp_path: Path) -> None:
    program.up(str(PLANS / "anna.yaml"))
    other = {"MIGCTL_STATE_DIR": str(tmp_path / "bens")}
    planned = json.loads(program.run("plan", str(PLANS / "ben.yaml"), "--json", **other).ended(0).out)

    assert planned["fits"]
    assert {spot["owner"] for spot in planned["gpus"][0]["layout"]} >= {"anna", ""} or len(
        planned["gpus"][0]["layout"]
    ) >= 2
