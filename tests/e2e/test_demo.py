"""scripts/demo as a visitor runs it, but for the installation."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A virtual environment that counts as installed and leads to the code under test."""
    binaries = tmp_path / "venv/bin"
    binaries.mkdir(parents=True)
    for name, words in (("migctl", "-m migctl"), ("python", ""), ("python3", "")):
        program = binaries / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n', "utf-8")
        program.chmod(0o755)
    stamp = tmp_path / "venv/.migctl-installed"
    stamp.write_text(f"{ROOT} \n", "utf-8")
    later = time.time() + 86400
    os.utime(stamp, (later, later))
    (tmp_path / "tmp").mkdir()
    given = {"MIGCTL_DEMO_VENV": str(tmp_path / "venv"), "TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": str(ROOT)}
    return {**os.environ, **given, "LC_ALL": "C.UTF-8"}


def left_behind(environ: dict[str, str]) -> list[str]:
    """Processes that have the demo's private folder in their environment, and what lies in it."""
    mark = f"MIGCTL_RUN_DIR={environ['TMPDIR']}".encode()
    found = [str(path) for path in Path(environ["TMPDIR"]).iterdir()]
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # it has ended, or is another user's
    return found


@pytest.mark.slow
def test_the_demo_shows_four_jobs_from_plan_to_nothing_left(environ: dict[str, str]) -> None:
    done = subprocess.run(
        [ROOT / "scripts/demo"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        stdin=subprocess.DEVNULL,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    for part in ("7 of 7 in use", "baseline", "steps/s", "4 jobs removed", "0 of 7 in use"):
        assert part in done.stdout
    assert "0 instances. Left of the trainings: 0 processes." in done.stdout
    assert done.stdout.count(": succeeded (exit code 0)\n") == 4
    assert "\x1b" not in done.stdout
    assert "sudo" not in done.stdout
    assert [line for line in done.stdout.splitlines() if len(line) > 88] == []
    assert left_behind(environ) == []


@pytest.mark.slow
def test_the_demo_cleans_up_after_ctrl_c(environ: dict[str, str]) -> None:
    seen = []
    with subprocess.Popen(
        [ROOT / "scripts/demo"],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # A shell cannot trap what was ignored when it began, as it is for whatever a script starts in the background.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            seen.append(line)
            if "4 running" in line:
                # A terminal sends it to everybody in the foreground; the jobs have sessions of their own.
                os.killpg(demo.pid, signal.SIGINT)
                break
        seen += demo.stdout.readlines()

    assert demo.returncode == 130, "".join(seen)
    assert left_behind(environ) == []
