"""`status --watch` without keys: the picture drawn over itself on a terminal, and one below the other everywhere else."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from migctl.render.console import Style
from migctl.render.watch_picture import watch_lines
from migctl.watch.board import EVERY_S, FIRST_S, Board

_ENTER: Final = "\x1b[?1049h\x1b[?25l"
"""The other screen, and no cursor: ctlseqs of xterm, which tmux and all usual terminals follow."""
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_CLEAR: Final = "\x1b[2J"
_LONG: Final = 200
"""Lines of a picture that is no screen."""


def watch_screen(
    board: Board, style: Callable[[], Style], out: TextIO, *, over: Callable[[], bool] = lambda: False
) -> None:
    """Until it is over, or a signal's exception comes; a change of the terminal's size is drawn at once.

    Args:
        board: what is shown.
        style: the terminal as it is now.
        out: the terminal.
        over: asked before each picture.
    """
    with _woken_by_signals() as sleep, _other_screen(out):
        drawn: list[str] = []
        size: tuple[int, int] | None = None
        pause_s = FIRST_S
        while not over():
            now = _size(out)
            if now != size:
                drawn, size = [], now
                out.write(_CLEAR)
            board.look()
            lines = watch_lines(board.view(), style(), now[1])
            out.write(_changed(drawn, lines))
            out.flush()
            drawn = lines
            sleep(pause_s)
            pause_s = EVERY_S


def watch_below(board: Board, style: Style, out: TextIO, *, over: Callable[[], bool] = lambda: False) -> None:
    """A picture every few seconds below the one before, for a file, a pipe, or a terminal that cannot do more."""
    with _woken_by_signals() as sleep:
        board.look()  # there are no figures yet
        sleep(FIRST_S)
        while not over():
            board.look()
            lines = watch_lines(board.view(), style, _LONG)
            out.write("\n".join(line.rstrip() for line in lines) + "\n\n")
            out.flush()
            sleep(EVERY_S)


@contextmanager
def _woken_by_signals() -> Iterator[Callable[[float], None]]:
    """A sleep that a signal ends, the change of the terminal's size included."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = signal.signal(signal.SIGWINCH, lambda _number, _frame: None)
    earlier = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def sleep(seconds: float) -> None:
        if select.select([reading], [], [], seconds)[0]:
            os.read(reading, 4096)

    try:
        yield sleep
    finally:
        signal.set_wakeup_fd(earlier)
        signal.signal(signal.SIGWINCH, before)
        os.close(reading)
        os.close(writing)


@contextmanager
def _other_screen(out: TextIO) -> Iterator[None]:
    """The shell's screen is there again afterwards, however this ends."""
    out.write(_ENTER)
    out.flush()
    try:
        yield
    finally:
        out.write(_LEAVE)
        out.flush()


def _size(out: TextIO) -> tuple[int, int]:
    try:
        columns, lines = os.get_terminal_size(out.fileno())
    except OSError:
        return 80, 24
    return columns or 80, lines or 24


def _changed(before: list[str], now: list[str]) -> str:
    """What has to be written so that the screen shows `now`: lines that stay the same cost nothing over ssh."""
    parts = [f"\x1b[{n + 1};1H\x1b[2K{line}" for n, line in enumerate(now) if n >= len(before) or before[n] != line]
    parts += [f"\x1b[{n + 1};1H\x1b[2K" for n in range(len(now), len(before))]
    return "".join(parts)
