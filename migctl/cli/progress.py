"""Progress while steps run: lines on stderr, or one live line on a terminal; nothing with --quiet or --json."""

from __future__ import annotations

import os
import sys
import threading
from types import TracebackType

from migctl.cli.common import Common
from migctl.core.events import Event, Moment, NoteEvent, PullEvent, StepEvent
from migctl.core.record import Action

_DONE = {
    Action.ENABLE_MIG: "MIG mode on",
    Action.CREATE_GPU_INSTANCE: "GPU instance made",
    Action.CREATE_COMPUTE_INSTANCE: "compute instance made",
    Action.CREATE_CONTAINER: "created",
    Action.START: "started",
    Action.STOP: "stopped",
    Action.REMOVE_CONTAINER: "removed",
    Action.DESTROY_COMPUTE_INSTANCE: "compute instance destroyed",
    Action.DESTROY_GPU_INSTANCE: "GPU instance destroyed",
}
_SAID_BRIEFLY = frozenset({Action.ENABLE_MIG, Action.START, Action.STOP, Action.DESTROY_GPU_INSTANCE})


class Progress:
    """Listens to events from any thread and says what a person waiting wants to know."""

    def __init__(self, common: Common) -> None:
        self._silent = common.quiet or common.json
        self._verbose = common.verbose
        self._live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not common.verbose
        self._lock = threading.Lock()
        self._shown = ""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._clear()

    def event(self, event: Event) -> None:
        """Take one event."""
        if self._silent:
            return
        match event:
            case StepEvent(job, action, moment):
                if moment is Moment.RECORDED and (self._verbose or action in _SAID_BRIEFLY):
                    self._say(f"{job}: {_DONE[action]}")
            case PullEvent(image, done, total):
                part = f" {100 * done // total} %" if total else ""
                self._say(f"pulling {image}{part}", keep=False)
            case NoteEvent(text):
                self._say(text)

    def _say(self, text: str, *, keep: bool = True) -> None:
        with self._lock:
            if not self._live:
                if keep or text != self._shown:
                    sys.stderr.write(f"{text}\n")
                self._shown = text
                return
            self._write(text)

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[2K{text[:100]}")
        sys.stderr.flush()
        self._shown = text

    def _clear(self) -> None:
        with self._lock:
            if self._live and self._shown:
                sys.stderr.write("\r\x1b[2K")
                sys.stderr.flush()
