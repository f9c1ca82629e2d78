"""`status --watch` on real terminals: with textual, without it, and where there is no terminal."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from tests.support.program import Program
from tests.support.terminal import Terminal, terminal

PLAN = """\
name: night
runtime: process
max_parallel: 1
jobs:
  first: {profile: 1g.5gb, command: [sh, -c, 'echo loss 0.5; exec sleep 600']}
  second: {profile: 1g.5gb, command: [sleep, '600']}
"""
NO_TEXTUAL = "import sys; sys.modules['textual'] = None; from migctl.__main__ import main; main()"
ENTERED, LEFT = "\x1b[?1049h", "\x1b[?1049l"


@pytest.fixture
def watched(program: Program) -> Program:
    """One job that runs, and one that waits."""
    program.plan(PLAN)
    program.up()
    return program


def ended(on: Terminal, code: int) -> None:
    assert on.left() == code, on.written
    assert on.written.rstrip().endswith(LEFT) or LEFT in on.written
    assert on.as_it_was, "the terminal is as it was"
    assert "Traceback" not in on.written


def test_with_textual_keys_select_read_hold_and_stop(watched: Program) -> None:
    words = [sys.executable, "-m", "migctl", "status", "--watch"]
    with terminal(words, folder=watched.folder, environ=watched.environ) as on:
        assert on.shows("WHAT HOLDS"), on.written
        assert ENTERED in on.written
        on.press("down", "l")
        assert on.shows("loss 0.5"), on.written
        on.press("l", "h")
        assert on.shows("held: 1 waiting job"), on.written
        assert watched.jobs()["second"]["reason"].startswith("held")
        on.press("x")
        assert on.shows("stop night/first?"), on.written
        on.press("n")
        assert on.shows("left as it is"), on.written
        on.press("x", "y")
        assert on.shows("stopped: first", 30), on.written
        on.press("q")
        ended(on, 0)
    assert watched.jobs()["first"]["state"] == "stopped"


def test_with_textual_a_signal_leaves_the_terminal_as_it_was(watched: Program) -> None:
    words = [sys.executable, "-m", "migctl", "status", "--watch"]
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 0)):
        with terminal(words, folder=watched.folder, environ=watched.environ) as on:
            assert on.shows("WHAT HOLDS"), on.written
            on.process.send_signal(number)
            ended(on, code)
    assert watched.jobs()["first"]["state"] == "running"


def test_without_textual_the_same_picture_lives_and_follows_the_size(watched: Program) -> None:
    words = [sys.executable, "-c", NO_TEXTUAL, "status", "night", "--watch", "--no-color"]
    with terminal(words, folder=watched.folder, environ=watched.environ) as on:
        assert on.until(lambda: any("at work" in line for line in on.screen)), on.written
        assert max(len(line) for line in on.screen) <= 80
        assert len(on.screen) <= 24
        assert any(line.startswith("CORES") for line in on.screen)
        assert any(" first " in line for line in on.screen)
        on.resize(200, 60)
        assert on.until(lambda: any("SAMPLES/S" in line for line in on.screen), 5), on.written
        on.press("ctrl+c")
        ended(on, 0)


def test_what_is_no_terminal_gets_one_picture_below_the_other(watched: Program) -> None:
    with watched.start("status", "--watch") as process:
        assert process.stdout is not None
        begun = time.monotonic()
        lines = []
        while sum(line.startswith("CORES") for line in lines) < 2:
            lines.append(process.stdout.readline())
            assert time.monotonic() < begun + 30, lines
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)

    assert process.returncode == 0, err
    assert "\x1b" not in "".join(lines) + out
    assert any("at work" in line for line in lines)


def test_what_goes_on_is_no_single_answer(program: Program) -> None:
    assert "--json is one object" in str(program.json("status", "--watch")["errors"])
    assert "--check answers once" in program.run("status", "--watch", "--check").ended(2).told


def test_a_reader_that_leaves_ends_it(program: Program) -> None:
    line = f"{sys.executable} -m migctl status --watch | head -1"
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=program.folder,
        env=program.environ,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "no runs" in done.stdout
