"""What `check` warns of in an engine before anything goes wrong: links that systemd needs, a cpuset that is not delegated."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from migctl.runtimes.containers import Containers
from tests.support.engine_stub import StubEngine, serving
from tests.support.fake_devices import device_tree

ROOTLESS = {"SecurityOptions": ["name=rootless"]}
SYSTEMD = {"CgroupDriver": "systemd"}
# what the engine says, whether it has the runtime nvidia, whether /dev/char has the links → warnings
NOTES: list[tuple[str, dict[str, Any], bool, bool, list[str]]] = [
    ("systemd, no links", SYSTEMD, True, False, ["no-dev-char-links"]),
    ("systemd, links", SYSTEMD, True, True, []),
    ("cgroupfs, no links", {"CgroupDriver": "cgroupfs"}, True, False, []),
    ("systemd, by CDI, which the engine knows of", SYSTEMD, False, False, []),
    ("rootless without a cpuset", ROOTLESS, False, True, ["no-cpuset-delegated"]),
]


@pytest.mark.parametrize(("case", "info", "runtime", "links", "expected"), NOTES, ids=[row[0] for row in NOTES])
def test_an_engine_is_warned_of(
    tmp_path: Path, case: str, info: dict[str, Any], runtime: bool, links: bool, expected: list[str]
) -> None:
    engine = StubEngine(
        version="28.2.2",
        runtimes=("runc", "nvidia") if runtime else ("runc",),
        folders=[tmp_path / "cdi"],
        info=info,
    )
    uid = os.getuid()
    delegated = tmp_path / f"driver/sys/fs/cgroup/user.slice/user-{uid}.slice/user@{uid}.service/cgroup.controllers"
    with serving(engine) as url:
        root = device_tree(tmp_path / "driver")
        delegated.parent.mkdir(parents=True)
        delegated.write_text("cpu memory pids\n")
        if links:
            (root / "dev/char").mkdir()
            for node in (p for p in (root / "dev").rglob("nvidia*") if p.is_char_device()):
                number = node.stat().st_rdev
                (root / f"dev/char/{os.major(number)}:{os.minor(number)}").symlink_to(node)
        facts = Containers({"DOCKER_HOST": url, "HOME": str(tmp_path)}, root).facts()

    assert [note.id for note in facts.notes] == expected
    assert all(note.hint and note.hint.startswith("sudo ") for note in facts.notes)
