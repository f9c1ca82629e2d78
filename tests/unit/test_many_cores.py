"""Planning stays quick on the largest machines there are."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from migctl.cli.app import run
from migctl.core.cpu.nearness import by_domain, without
from migctl.core.cpu.topology import flat


@pytest.mark.parametrize("cores", [1000, 8192])
def test_taking_half_of_the_cores_takes_no_longer_than_looking_at_each(cores: int) -> None:
    machine = flat(cores)
    free = by_domain(machine.cores)
    begun = time.process_time()

    left = without(free, machine.cores[: cores // 2])

    assert [core.id for rest in left.values() for core in rest] == list(range(cores // 2, cores))
    # Comparing each with each took 2 s for the smaller of the two machines.
    assert time.process_time() - begun < 0.5


def test_a_plan_for_a_thousand_cores_takes_well_under_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(Path(__file__).parents[2] / "compose/plans/demo.yaml")
    assert run(["plan", plan, "--on", "a100-40gb", "--cores", "16"]) == 0  # loads what is loaded once
    begun = time.process_time()

    assert run(["plan", plan, "--on", "a100-40gb", "--cores", "1000"]) == 0

    assert time.process_time() - begun < 0.8
    assert "1000 cores" in capsys.readouterr().out
