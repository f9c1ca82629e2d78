"""`status --watch` with keys, on textual: the same picture, and what is done when somebody asks for it."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import ClassVar, Final, TypeVar

from rich.console import Console
from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from migctl.core.seeing.watchkeys import Desk, Do, Mode, Order, pressed
from migctl.core.seeing.watchrows import rows
from migctl.core.views.watch import WatchView
from migctl.engine.session import Session
from migctl.errors import MigctlError
from migctl.render.console import Style
from migctl.render.watch_pages import help_lines, log_lines
from migctl.render.watch_picture import watch_lines
from migctl.watch.board import EVERY_S, FIRST_S, Board
from migctl.watch.orders import done, log_of

T = TypeVar("T")

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Picture(Widget, can_focus=True):
    """Lines of text with their looks; only those that change are drawn.

    Args:
        draw: called when there is another room to draw in.
    """

    DEFAULT_CSS = "Picture { width: 100%; height: 100%; }"

    def __init__(self, draw: Callable[[], None]) -> None:
        super().__init__()
        self._lines: Sequence[str] = ()
        self._again = draw

    def on_resize(self, _event: events.Resize) -> None:
        """Have it drawn for the size there is now."""
        self._again()

    def show(self, lines: Sequence[str]) -> None:
        """Show these from now on."""
        before, self._lines = self._lines, tuple(lines)
        for y in range(max(len(before), len(self._lines))):
            if y >= len(before) or y >= len(self._lines) or before[y] != self._lines[y]:
                self.refresh(Region(0, y, self.size.width, 1))

    def render_line(self, y: int) -> Strip:
        """One line as textual wants it."""
        return _strip(self._lines[y] if y < len(self._lines) else "", self.size.width)


@lru_cache(maxsize=512)
def _strip(line: str, columns: int) -> Strip:
    text = Text.from_ansi(line, end="", no_wrap=True)
    return Strip(text.render(_console()), text.cell_len).adjust_cell_length(columns)


@lru_cache(maxsize=1)
def _console() -> Console:
    """Only turns the looks of a text into segments; nothing is printed by it."""
    return Console()


class WatchScreen(App[int]):
    """The application; `run` returns the number of the signal that ended it, if one did."""

    CSS = "Screen { background: ansi_default; color: ansi_default; overflow: hidden; }"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar = []

    def __init__(self, board: Board, session: Session, style: Style) -> None:
        super().__init__(ansi_color=True)
        self._board = board
        self._session = session
        self._style = style
        self._desk = Desk()
        self._view: WatchView | None = None
        self._text: list[str] | None = None
        self._picture = Picture(self._draw)
        self._busy: set[str] = set()

    def compose(self) -> ComposeResult:
        """One picture."""
        yield self._picture

    def on_mount(self) -> None:
        """Begin to look."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, partial(self.exit, int(number)))
        self._moment()
        self.set_timer(FIRST_S, self._moment)
        self.set_interval(EVERY_S, self._moment)

    def on_key(self, event: events.Key) -> None:
        """One step of the desk, and what is to be done."""
        event.stop()
        event.prevent_default()
        shown = rows(self._view) if self._view is not None else ()
        letter = event.character if event.character is not None and event.is_printable else ""
        self._desk, order = pressed(self._desk, event.key, letter, shown)
        if order is not None:
            self._follow(order)
        self._draw()

    # -- inside

    def _moment(self) -> None:
        self._board.look()
        if self._desk.mode is Mode.LOG and self._desk.order is not None:
            self._follow(self._desk.order)
        self._draw()

    def _draw(self) -> None:
        columns, lines = self._picture.size
        if not columns or not lines:
            return
        style = replace(self._style, width=columns)
        desk = self._desk
        if desk.mode is Mode.LOG and desk.order is not None:
            self._picture.show(log_lines(desk.order.name, self._text, desk, style, lines))
        elif desk.mode is Mode.HELP:
            self._picture.show(help_lines(desk, style, lines))
        else:
            self._view = self._board.view(desk.wishes)
            self._picture.show(watch_lines(self._view, style, lines))

    def _follow(self, order: Order) -> None:
        if order.do is Do.LEAVE:
            self.exit(0)
        elif order.do is Do.LOOK:
            self._board.ask_again()
        elif order.do is Do.READ_LOG:
            self._in_thread("log", partial(log_of, self._session, order), self._take_log)
        else:
            self._desk = replace(self._desk, answer=f"{order.do.value} {order.name} …")
            self._in_thread(order.name, partial(done, self._session, order), self._take_answer)

    def _in_thread(self, what: str, work: Callable[[], T], take: Callable[[T | MigctlError], None]) -> None:
        """The same thing not twice at a time, and nothing keeps the application from ending."""
        if what in self._busy:
            return
        self._busy.add(what)

        def run() -> None:
            try:
                found: T | MigctlError = work()
            except MigctlError as error:
                found = error
            self._busy.discard(what)
            if self.is_running:
                self.call_from_thread(take, found)

        threading.Thread(target=run, daemon=True, name="migctl-order").start()

    def _take_log(self, found: list[str] | MigctlError) -> None:
        self._text = [_words(found)] if isinstance(found, MigctlError) else found
        self._draw()

    def _take_answer(self, found: str | MigctlError) -> None:
        self._desk = replace(self._desk, answer=_words(found) if isinstance(found, MigctlError) else found)
        self._board.ask_again()
        self._draw()


def _words(error: MigctlError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message
