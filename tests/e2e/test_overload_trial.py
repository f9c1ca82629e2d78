"""The proof runs: one small situation with real PyTorch, naive, by hand, and by the real `migctl up`."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.engines import missing

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def _libraries() -> None:
    if lacking := [name for name in ("torch", "PIL", "numpy", "cv2") if importlib.util.find_spec(name) is None]:
        missing(f"not installed: {', '.join(lacking)} (pip install --group bench)")


def test_a_quick_round_measures_all_three_arrangements_and_leaves_nothing(tmp_path: Path) -> None:
    saved = tmp_path / "saved.json"
    words = [
        sys.executable,
        "scripts/bench/overload.py",
        "--quick",
        "--scale",
        "0.2",
        "--only",
        "numeric",
        "--save",
        saved,
    ]
    done = subprocess.run(
        words, cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=False
    )

    assert done.returncode in {0, 1}, done.stdout + done.stderr  # 1: a target is missed, as it may be on a busy machine
    assert "Traceback" not in done.stderr, done.stderr
    found = {one["arrangement"]: one["outcomes"] for one in json.loads(saved.read_text("utf-8"))["measured"]}
    assert {name: len(outcomes) for name, outcomes in found.items()} == {"naive-8": 1, "careful": 1, "migctl": 1}
    counts = {name: outcomes[0]["processes"] for name, outcomes in found.items()}
    assert counts["naive-8"] == 2 * (1 + 8)
    assert counts["migctl"] == counts["careful"] + 2  # a shim for each job
    for outcomes in found.values():
        assert outcomes[0]["total_per_s"] > 0
        assert 0 < outcomes[0]["watched_per_s"] <= outcomes[0]["total_per_s"]
        assert outcomes[0]["p95_ms"] > 20  # the GPU step alone
        assert outcomes[0]["memory_mib"] is None or outcomes[0]["memory_mib"] > 100
        assert outcomes[0]["switches_per_s"] > 0
        assert 0 <= outcomes[0]["others"] <= 1
    assert found["naive-8"][0]["up_s"] is None
    assert found["migctl"][0]["up_s"] > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["saved.json"]
