"""Progress while steps run: lines on stderr, and one live line on a terminal; nothing with --quiet or --json."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Self

from migctl.cli.common import Common
from migctl.cli.terminal import style
from migctl.core.runs.events import Event
from migctl.render.progress import Progress as Told

_ERASE = "\r\x1b[2K"


class Progress:
    """Listens to events from any thread and writes what a person who waits wants to know."""

    def __init__(self, common: Common, total: int = 0) -> None:
        self._silent = common.quiet or common.json
        self._style = style(sys.stderr, no_color=common.no_color)
        self._told = Told(total=total, verbose=common.verbose)
        self._lock = threading.Lock()
        self._live = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            if self._live:
                self._write(_ERASE)

    def event(self, event: Event) -> None:
        """Take one event."""
        if self._silent:
            return
        with self._lock:
            self._told = self._told.after(event)
            lines = self._told.kept(self._style)
            live = self._told.live(self._style) if self._style.tty else ""
            if not lines and live == self._live:
                return
            erase = _ERASE if self._live else ""
            self._write(erase + "".join(f"{line}\n" for line in lines) + live)
            self._live = live

    def _write(self, text: str) -> None:
        """Nobody reading progress any more (`2>&1 | head`, a closed terminal) is no reason to leave work half done."""
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):
            self._silent = True
            self._live = ""
