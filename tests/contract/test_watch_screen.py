"""The screen of `status --watch`, driven by textual's own pilot over real processes on a simulated GPU."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from textual.pilot import Pilot

from migctl.engine.session import Session
from migctl.render.console import Style
from migctl.render.text import width
from migctl.watch.board import Board
from migctl.watch.screen import Picture, WatchScreen
from tests.support.program import BOARD, Program

PLAN = """\
name: night
runtime: process
jobs:
  one: {{profile: 1g.5gb, command: ['{python}', -c, 'print("ready", flush=True); import time; time.sleep(600)']}}
  two: {{profile: 1g.5gb, command: ['{python}', -c, 'while True: pass']}}
"""
STYLE = Style(tty=True, color=True, unicode=True, width=80)
Driver = Callable[[Pilot[int]], Awaitable[None]]


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    here = Program(tmp_path, DOCKER_HOST=f"unix://{tmp_path}/no-engine.sock")
    here.plan(PLAN.format(python=sys.executable))
    here.up()
    yield here
    here.clean()


def drive(program: Program, driver: Driver, size: tuple[int, int] = (80, 24)) -> WatchScreen:
    session = Session(environ=program.environ, nvml=BOARD)
    with Board(session, None) as board:
        screen = WatchScreen(board, session, STYLE)

        async def run() -> None:
            async with screen.run_test(size=size) as pilot:
                await driver(pilot)

        asyncio.run(run())
    return screen


def lines(pilot: Pilot[int]) -> list[str]:
    picture = pilot.app.query_one(Picture)
    return ["".join(segment.text for segment in picture.render_line(y)) for y in range(picture.size.height)]


async def until(pilot: Pilot[int], text: str, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not any(text in line for line in lines(pilot)):
        assert time.monotonic() < end, "\n".join(lines(pilot))
        await pilot.pause(0.1)


def test_the_picture_fills_the_screen_and_no_more_whatever_its_size(program: Program) -> None:
    async def look(pilot: Pilot[int]) -> None:
        await until(pilot, "at work")
        for columns, rows in ((80, 24), (200, 60), (20, 5), (81, 24)):
            await pilot.resize_terminal(columns, rows)
            begun = time.monotonic()
            while {width(line) for line in lines(pilot)} != {columns} or not lines(pilot)[-1].startswith("q quit"):
                assert time.monotonic() < begun + 5, "\n".join(lines(pilot))
                await pilot.pause(0.02)
            shown = lines(pilot)

            assert {width(line) for line in shown} == {columns}
            assert len(shown) == rows
        await until(pilot, "CORES")

    drive(program, look)


def test_keys_do_what_the_last_line_says(program: Program) -> None:
    async def press(pilot: Pilot[int]) -> None:
        await until(pilot, "at work")
        await pilot.press("down")
        assert any(line.startswith(">") and " one " in line for line in lines(pilot))
        await pilot.press("l")
        await until(pilot, "ready")
        await pilot.press("escape", "slash", "t", "w", "o", "enter")
        await until(pilot, "1 of 2 with “two”")
        assert not any(" one " in line for line in lines(pilot))
        await pilot.press("question_mark")
        await until(pilot, "quit; jobs go on")
        await pilot.press("q")

    assert drive(program, press).return_value == 0


def test_a_stop_is_confirmed_done_and_seen_and_what_fails_is_told(program: Program) -> None:
    async def stop(pilot: Pilot[int]) -> None:
        await until(pilot, "at work")
        await pilot.press("down", "x")
        await until(pilot, "stop night/one?")
        await pilot.press("y")
        await until(pilot, "stopped: one")
        await until(pilot, "one: stopped (143)")
        states = {name: job["state"] for name, job in program.jobs().items()}
        assert states == {"one": "stopped", "two": "running"}

        await pilot.press("home", "x")
        program.run("down", "--timeout", "0").ended(0)
        await pilot.press("y")
        await until(pilot, "no run is called night")

    drive(program, stop)
