"""What ends a command's work before its time: a signal from outside, or a failure inside; both end every wait."""

from __future__ import annotations

import threading
import time
from typing import Final

_TICK_S: Final = 0.05
"""How soon a waiting thread notices the signal; a failure inside wakes it at once."""


class Halt:
    """Two causes that stay two: a signal is the user's word and ends the whole command, a failure ends only what runs beside it.

    Args:
        signal: set by a signal; only looked at.
    """

    def __init__(self, signal: threading.Event) -> None:
        self._signal = signal
        self._failed = threading.Event()

    def fail(self) -> None:
        """Something failed: nothing else is begun, and nobody is waited for."""
        self._failed.set()

    @property
    def interrupted(self) -> bool:
        """Whether a signal came."""
        return self._signal.is_set()

    def is_set(self) -> bool:
        """Whether work ends now, whatever the cause."""
        return self._failed.is_set() or self._signal.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Sleep for so many seconds, or until work ends; whether it ends."""
        deadline = time.monotonic() + timeout_s
        while not self.is_set() and (left_s := deadline - time.monotonic()) > 0:
            self._failed.wait(min(left_s, _TICK_S))
        return self.is_set()
