"""An exported Compose file, read by a real Compose: Debian's docker-compose, which knows the Compose specification of its time."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import exports
from tests.support.engines import missing

HOSTILE = 'it\'s $HOME "${HOME}" `id` #!é'


def parsed(text: str, folder: Path, **environ: str) -> Any:
    """The configuration as Compose understands it, every variable replaced."""
    program = shutil.which("docker-compose")
    if program is None:
        missing("docker-compose is not installed")
    whole = yaml.safe_load(text)
    # Two keys came with Compose 2.
    del whole["name"]
    for volume in (v for service in whole["services"].values() for v in service.get("volumes", ())):
        volume.pop("bind", None)
    (folder / "compose.yaml").write_text(yaml.safe_dump(whole, allow_unicode=True), "utf-8")
    done = subprocess.run(
        [program, "-f", "compose.yaml", "config"],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(done.stdout)


def test_compose_reads_every_key_of_the_plan_with_most_keys(tmp_path: Path) -> None:
    names = ("PREPARE", "SWEEP_LR0_1_SEED1", "SWEEP_LR0_1_SEED2", "SWEEP_LR1E_2_SEED1", "SWEEP_LR1E_2_SEED2")
    devices = {f"MIG_{name}": f"MIG-{number}" for number, name in enumerate(names)}

    services = parsed(exports.compose(exports.rich()), tmp_path, **devices)["services"]

    assert set(services) == {job.name for job in exports.rich().jobs}
    first = services["prepare"]
    (reserved,) = first["deploy"]["resources"]["reservations"]["devices"]
    assert reserved["device_ids"] == ["MIG-0"]
    assert "count" not in reserved, "Compose refuses both"
    assert first["environment"]["MIGCTL_MIG_UUID"] == "MIG-0"
    assert first["cpuset"] == "0-2"
    assert first["restart"] == "no"
    assert services["baseline"]["profiles"] == ["round-2"]
    assert services["baseline"]["ulimits"] == {"memlock": {"soft": -1, "hard": -1}}


def test_compose_says_which_device_is_missing(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"MIG_A|3g\.20gb at memory slice"):
        parsed(exports.compose(exports.plan("jobs: {a: {image: i, profile: 3g.20gb}}")), tmp_path)


def test_hostile_words_arrive_as_they_are(tmp_path: Path) -> None:
    word = HOSTILE.replace("$", "$$")
    wanted = exports.plan(
        "jobs:\n  a:\n    image: i\n    profile: 1g.5gb\n    command:\n      - x\n      - |-\n        " + word + "\n"
        "    environment:\n      NOTE: |-\n        " + word + "\n"
    )

    service = parsed(exports.compose(wanted), tmp_path, MIG_A="MIG-1")["services"]["a"]

    assert wanted.jobs[0].command == ("x", HOSTILE)
    # `config` prints a file that could be read again: its dollars are doubled.
    assert [word.replace("$$", "$") for word in service["command"]] == ["x", HOSTILE]
    assert service["environment"]["NOTE"].replace("$$", "$") == HOSTILE
