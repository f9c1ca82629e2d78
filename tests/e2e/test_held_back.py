"""What holds a training back is told rightly: real programs, slow where they are told to be (more of it: scripts/soak)."""

from __future__ import annotations

import os

import pytest

from tests.support import provoked
from tests.support.program import Program

RUNS = 2
WORDS = {"shm": "/dev/shm too small", "memory": "out of memory"}

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="beside other tests only root's programs have their CPUs alone"
)


@pytest.mark.parametrize("group", provoked.GROUPS)
def test_the_verdict_is_right(group: str, program: Program) -> None:
    wanted = {job: situation.kind for job, situation in provoked.GROUPS[group].items()}

    for _ in range(RUNS):
        said = provoked.provoke(provoked.Stage(program), group)

        assert {job: said[job][0].kind for job in wanted if said.get(job)} == wanted, said


def test_the_reason_of_a_bad_end_is_right(program: Program) -> None:
    for _ in range(RUNS):
        reasons = provoked.end_badly(provoked.Stage(program))

        assert {name: WORDS[name] in reason for name, reason in reasons.items()} == dict.fromkeys(reasons, True), (
            reasons
        )
        assert "shm" in reasons
