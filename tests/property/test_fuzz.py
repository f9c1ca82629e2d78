"""Ten thousand inputs of strangers: none makes a traceback, hangs, fills the memory, or changes a thing.

They are the same each time, so that a change answers for itself alone; `scripts/soak --fuzz N` tries others, and MIGCTL_FUZZ_SEED
chooses them here. The message of a failure has the line that repeats it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.fuzz import run
from tests.support.fuzz_targets import TARGETS

INPUTS = 10_000
SEED = int(os.environ.get("MIGCTL_FUZZ_SEED", "8"))


def test_the_targets_share_out_all_inputs() -> None:
    assert sum(target.share for target in TARGETS.values()) == INPUTS


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_that_others_write_upsets_it(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]

    assert run(target, SEED, range(target.share), tmp_path) == target.share
