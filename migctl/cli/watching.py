"""`status --watch`: which front end this terminal and this installation can have, and how it ends."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from migctl.cli.common import Common
from migctl.cli.signals import HungUp, Terminated, detaching
from migctl.errors import Interrupted, PlanError

if TYPE_CHECKING:
    from migctl.watch.board import Board

_ENDED = "the watching has ended; the jobs go on"


def watch(common: Common, names: Sequence[str] | None, *, everything: bool) -> None:
    """Show the picture until somebody has seen enough: `q` or Ctrl-C, which is no failure.

    Raises:
        PlanError: --json asks for one object.
        Interrupted: by SIGTERM or a hang-up.
    """
    if common.json:
        raise PlanError("usage", "--watch goes on, --json is one object", hint="migctl status --json")
    from migctl.watch.board import Board

    session = common.session()
    screen = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    keys = screen and sys.stdin.isatty() and sys.stderr.isatty() and find_spec("textual") is not None
    with Board(session, names, ended=everything) as board:
        if keys:
            from migctl.watch.screen import WatchScreen

            _leave(WatchScreen(board, session, common.style()).run(mouse=False))
            return
        try:
            with detaching(None, _ENDED):
                _without_keys(common, board, screen=screen)
        except (Terminated, HungUp):
            raise
        except Interrupted:
            return


def _without_keys(common: Common, board: Board, *, screen: bool) -> None:
    from migctl.watch import plain

    if screen:
        plain.watch_screen(board, common.style, sys.stdout)
    else:
        plain.watch_below(board, common.style(), sys.stdout)


def _leave(number: int | None) -> None:
    """End as the signal that ended the screen wants it; without one, or by Ctrl-C, all is well."""
    if number == signal.SIGTERM:
        raise Terminated("detached", _ENDED)
    if number == signal.SIGHUP:
        raise HungUp("detached", _ENDED)
