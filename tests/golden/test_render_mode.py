"""`mode` as text and as JSON: what was done, what a dry run would do, how long the mode lasts."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from migctl.core.gpu.mig import Gpu, MigMode
from migctl.nvml.models import board_gpu, resolve_board
from migctl.render.mode_text import mode_json, mode_steps_text, mode_text
from tests.support.render_values import PLAIN

ON, OFF = MigMode(current=True, pending=True), MigMode(current=False, pending=False)
AMPERE = board_gpu(resolve_board("a100-40gb"), mig_on=False)
HOPPER = board_gpu(resolve_board("h100-sxm5-80gb"), 1, mig_on=False)
DCGM = "nvidia-dcgm.service"

# what it is called, then: GPU, its mode, whether it was changed, whether it was reset, which services were stopped
DONE: list[tuple[str, Gpu, MigMode, bool, bool, tuple[str, ...]]] = [
    ("ampere-on-after-reset", AMPERE, ON, True, True, (DCGM, "nvidia-persistenced.service")),
    ("ampere-off", AMPERE, OFF, True, False, ()),
    ("hopper-on", HOPPER, ON, True, False, ()),
    ("hopper-off", HOPPER, OFF, True, False, ()),
    ("unchanged", HOPPER, ON, False, False, ()),
]


def test_what_mode_did_is_told_as_kept(golden: Callable[[str, str], None]) -> None:
    texts = []
    for name, gpu, mode, changed, reset, services in DONE:
        text = mode_text(gpu, mode, PLAIN, changed=changed, reset=reset, restarted=services, simulated="")
        texts.append(f"# {name}\n{text}")

    golden("render/mode", "\n".join(texts))


def test_the_steps_of_a_dry_run_are_told_as_kept(golden: Callable[[str, str], None]) -> None:
    steps = [f"stop {DCGM}", "enable MIG mode of GPU 0 (NVIDIA A100-SXM4-40GB)", f"start {DCGM}"]

    golden("render/mode-steps", mode_steps_text(steps) + mode_steps_text([]))


@pytest.mark.parametrize("steps", [None, ["enable MIG mode of GPU 0"]])
def test_the_object_is_stable(golden: Callable[[str, str], None], steps: list[str] | None) -> None:
    value = mode_json(AMPERE, ON, wanted=True, changed=True, reset=True, restarted=[DCGM], steps=steps, simulated=True)

    golden(f"render/json-mode{'-dry-run' if steps else ''}", json.dumps(value, indent=2) + "\n")
