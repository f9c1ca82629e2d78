"""Ten thousand inputs of strangers, others each time: none makes a traceback, hangs, fills the memory, or changes a thing.

The message of a failure has the line that repeats it. `scripts/soak --fuzz N` tries more; MIGCTL_FUZZ_SEED chooses the seed here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fuzz import run, seeds
from tests.support.fuzz_targets import TARGETS

INPUTS = 10_000


def test_the_targets_share_out_all_inputs() -> None:
    assert sum(target.share for target in TARGETS.values()) == INPUTS


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_that_others_write_upsets_it(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]

    assert run(target, seeds(), range(target.share), tmp_path) == target.share
