"""Calls side by side that a signal abandons: what an engine or a registry does not answer keeps no command from ending."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from migctl.errors import Interrupted

K = TypeVar("K")
R = TypeVar("R")

_MOST_THREADS: Final = 8
_TICK_S: Final = 0.1
"""How soon a signal is noticed."""


def ask_all(keys: Iterable[K], ask: Callable[[K], R], cancel: threading.Event | None, doing: str) -> dict[K, R]:
    """Key → answer, asked in threads that end with the process.

    Args:
        ask: raises only what is a bug.
        cancel: set by a signal: nobody waits for the answers any more.
        doing: what is interrupted then.

    Raises:
        Interrupted: a signal came before all answers.
    """
    left: queue.SimpleQueue[K] = queue.SimpleQueue()
    answers: queue.SimpleQueue[tuple[K, R | Exception]] = queue.SimpleQueue()
    count = 0
    for key in keys:
        left.put(key)
        count += 1

    def work() -> None:
        while cancel is None or not cancel.is_set():
            try:
                key = left.get_nowait()
            except queue.Empty:
                return
            try:
                answers.put((key, ask(key)))
            except Exception as bug:  # noqa: BLE001 -- raised below, where somebody hears it
                answers.put((key, bug))

    for _ in range(min(_MOST_THREADS, count)):
        threading.Thread(target=work, daemon=True).start()
    found: dict[K, R] = {}
    while len(found) < count:
        if cancel is not None and cancel.is_set():
            raise Interrupted("interrupted", f"interrupted while {doing}")
        try:
            key, answer = answers.get(timeout=_TICK_S)
        except queue.Empty:
            continue
        if isinstance(answer, Exception):
            raise answer
        found[key] = answer
    return found
