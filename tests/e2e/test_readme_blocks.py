"""Every block of the README and of the pages for users, executed in its order as one session a page on a simulated A100.

MIGCTL_UPDATE_GOLDEN=1 rewrites the outputs that it shows.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kubernetes_cluster import KubernetesCluster, node
from tests.support.readme_blocks import Block, agrees, blocks, commands
from tests.support.slurm import SYSTEM, Cluster, missing

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/guide.md", "docs/tune.md", "docs/users.md")
"""Of the Korean pages a unit test says that they show the same blocks."""
UPDATE = os.environ.get("MIGCTL_UPDATE_GOLDEN") == "1"
FULL = os.environ.get("MIGCTL_TEST_FULL") == "1"


class Session:
    """A shell user's folder and environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        binaries = folder / "bin"
        binaries.mkdir()
        program = binaries / "migctl"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m migctl "$@"\n', "utf-8")
        program.chmod(0o755)
        (folder / "compose").symlink_to(ROOT / "compose")
        self.environ = {
            **os.environ,
            "PATH": f"{binaries}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "MIGCTL_NVML": "sim:a100-40gb",
            "MIGCTL_STATE_DIR": str(folder / "state"),
            "MIGCTL_RUN_DIR": str(folder / "run"),
            "MIGCTL_RECORDING": "off",
            "TMPDIR": str(folder),
            "NO_COLOR": "1",
            "COLUMNS": "100",
            "LC_ALL": "C.UTF-8",
        }

    def run(self, words: str) -> subprocess.CompletedProcess[str]:
        """One command line; `export` stays in force for those that follow."""
        if words.startswith("export "):
            name, _, value = words.removeprefix("export ").partition("=")
            self.environ[name] = value
            words = "true"
        return subprocess.run(
            ["sh", "-c", words],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    here = Session(tmp_path)
    yield here
    here.run("migctl down --all --timeout 0")


def has_engine() -> bool:
    """Whether an engine answers and has the image: nothing is pulled for a test."""
    found = shutil.which("docker") is not None
    asked = ["docker", "image", "inspect", "busybox"]
    return found and subprocess.run(asked, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("page", PAGES)
def test_every_block_does_what_it_shows(session: Session, page: str) -> None:
    docker = FULL or has_engine()
    slurm = FULL or not missing()
    left_out = []
    for block in blocks(ROOT / page):
        if name := block.about("file"):
            (session.folder / name).write_text(block.text, "utf-8")
        elif block.about("needs") == "docker" and not docker:
            left_out.append(block.line)
        elif block.about("needs") == "slurm":
            if slurm:
                play_on_slurm(session, block)
            else:
                left_out.append(block.line)
        elif block.about("needs") == "kubernetes":
            play_on_kubernetes(session, block)
        elif not block.about("not run"):
            play(session, block, ROOT / page)

    assert session.run("migctl status --json | grep -c gi_id").stdout == "0\n", "the session ends as it began"
    if left_out:
        pytest.skip(
            f"no Slurm, or no Docker engine with busybox, for the blocks in lines {left_out}; all others passed"
        )


def play_on_slurm(session: Session, block: Block) -> None:
    """The session's user is on a login node for once."""
    cluster = Cluster({"mig1": {"1g.5gb": 4, "2g.10gb": 1, "3g.20gb": 1}})
    cluster.start()
    before = session.environ
    session.environ = {**before, **{name: cluster.environ[name] for name in ("SLURM_CONF", "PATH")}}
    session.environ["PATH"] = f"{before['PATH']}:{SYSTEM}"
    try:
        play(session, block)
    finally:
        session.run("migctl down --all --timeout 0")
        session.environ = before
        cluster.stop()


def play_on_kubernetes(session: Session, block: Block) -> None:
    """There is a cluster behind a stand-in for kubectl for once."""
    devices = {f"nvidia.com/mig-{profile}": 2 for profile in ("1g.5gb", "2g.10gb", "3g.20gb")}
    cluster = KubernetesCluster(session.folder / "cluster", node("n1", devices))
    before = session.environ
    session.environ = {**before, **cluster.environ(before["PATH"])}
    try:
        play(session, block)
    finally:
        session.run("migctl down --all --timeout 0")
        session.environ = before
    assert cluster.objects("Job") == []


def play(session: Session, block: Block, page: Path = ROOT / "README.md") -> None:
    """Run the commands of a console block and compare what they print."""
    updated = ""
    for command in commands(block):
        done = session.run(command.words)
        place = f"{page.name}, block in line {block.line}: $ {command.words}\n{done.stdout}{done.stderr}"
        assert done.returncode == 0, place
        shown = shown_anew(command.shown, done.stdout) if UPDATE else command.shown
        assert agrees(shown, done.stdout), place
        updated += f"$ {command.words}\n{shown}"
    if UPDATE:
        page.write_text(page.read_text("utf-8").replace(block.text, updated), "utf-8")


def shown_anew(shown: str, printed: str) -> str:
    """What the block should show now: all of it where it shows something, as many lines where it ends with `...`."""
    lines = [f"{line.rstrip()}\n" for line in printed.splitlines()]
    before = shown.splitlines(keepends=True)
    if "..." in shown.removesuffix("...\n"):
        return shown
    if before[-1:] == ["...\n"]:
        return "".join(lines[: len(before) - 1]) + "...\n"
    return "".join(lines) if before else ""


def test_the_shipped_schema_is_what_the_models_say(session: Session) -> None:
    done = session.run("migctl schema")

    assert done.returncode == 0
    assert (ROOT / "compose/plan.schema.json").read_text("utf-8") == done.stdout, "run scripts/schema"
