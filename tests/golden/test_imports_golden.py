"""The plans that files of other tools become, comments included."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from migctl.planfile.importers import imported
from migctl.planfile.source import Source

DATA = Path(__file__).parents[1] / "data" / "imports"


@pytest.mark.parametrize(
    "name",
    [
        "compose-old-uuid-form.yaml", "compose-runtime-env.yaml", "docker-sdk.txt", "helm-values-mig.yaml", "k8s-pod-mixed.yaml",
        "loop-docker-run.sh",
        "migparted-4g-3g.yaml", "nvidia-smi-L.txt", "sbatch-mig.sbatch", "student-slice.env", "task-spooler.sh", "cdi-nvidia.yaml",
    ],
)  # fmt: skip
def test_a_file_becomes_a_plan(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"imports/{name}", imported(Source((DATA / name).read_text("utf-8"), name), None).text())
