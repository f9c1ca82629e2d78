"""An error about a plan or a file of variables shows the line that it is about, without the secret in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from migctl import planfile
from migctl.errors import Problems
from migctl.render.console import Style
from migctl.render.errors_text import error_text
from migctl.render.json_errors import errors_json

NAMED = "hf_Marked4Name"
FROM_FILE = "Marked4File"
WRONG = (
    f"jobs: {{a: {{profile: 1g.5gb, command: 'true', environment: {{HF_TOKEN: {NAMED}, CUDA_VISIBLE_DEVICES: 0}}}}}}",
    f"jobs: {{a: {{profile: nonsense, environment: {{HF_TOKEN: {NAMED}}}, command: 'true'}}}}",
    f"jobs:\n  a:\n    environment:\n      HF_TOKEN: [{NAMED}]\n",
    f"jobs:\n  a:\n    environment:\n    - HF_TOKEN={NAMED}\n    - HF_TOKEN={NAMED}\n    - NVIDIA_VISIBLE_DEVICES=all\n",
    f"jobs:\n  a:\n    environment: {{HF_TOKEN: '{NAMED}', HF_TOKEN: '{NAMED}'}}\n",
    f"jobs:\n  a:\n    environment: {{HF_TOKEN: '{NAMED}\n",
    f"jobs:\n  a:\n    environment: {{HF_TOKEN: '{NAMED} ${{MIGCTL_NOTHING}}'}}\n",
    f"jobs:\n  a:\n    environment: {{HF_TOKEN: '${{MISSING:?}} {NAMED}'}}\n",
    "jobs: {a: {env_file: wrong.env, command: 'true'}}",
    "jobs: {a: {env_file: key.env, command: 'true'}}",
)


@pytest.mark.parametrize("plan", WRONG)
def test_an_error_shows_the_line_without_its_secret(tmp_path: Path, plan: str) -> None:
    (tmp_path / "wrong.env").write_text(f"CUDA_VISIBLE_DEVICES={FROM_FILE}\nA='{FROM_FILE}\n")
    (tmp_path / "key.env").write_text(f"KEY=-----BEGIN\n{FROM_FILE} x y\n{FROM_FILE}/+=\n")
    with pytest.raises(Problems) as told:
        planfile.loads(plan, "plan.yaml", tmp_path, {}, runtime="process")

    shown = error_text(told.value, Style(width=200)) + json.dumps(errors_json(told.value))
    assert NAMED not in shown
    assert FROM_FILE not in shown
