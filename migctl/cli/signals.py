"""Ctrl-C and its kin: the first lets the present step finish, the second stops at once; a hang-up only detaches."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from migctl.errors import Interrupted


class Terminated(Interrupted):
    """SIGTERM ended the command."""

    exit_code = 143


class HungUp(Interrupted):
    """SIGHUP ended the command: its terminal is gone."""

    exit_code = 129


class _Came(KeyboardInterrupt):
    """A signal, on its way out of whatever it came into: nobody there may take it for one of the errors that are lived with."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def cancelling(first: str, second: str) -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set; a second signal ends the process at once.

    Args:
        first: said at the first signal: what is being finished.
        second: said at the second: the command that recovers.
    """
    cancel = threading.Event()
    came: list[int] = []

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if came:
            _say(f"stopped at once. {second}")
            os._exit(128 + number)
        came.append(number)
        _say(first)
        cancel.set()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    hup = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield cancel
    except Interrupted as error:
        if came and came[0] == signal.SIGTERM:
            raise Terminated(error.id, error.message, where=error.where, hint=error.hint, data=error.data) from error
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.signal(signal.SIGHUP, hup)


@contextmanager
def detaching(hint: str | None, said: str = "detached; the jobs go on") -> Iterator[threading.Event]:
    """For commands that only look on: a signal ends the looking, never the jobs.

    Args:
        hint: how to end the jobs.
        said: what the signal did.

    Raises:
        Interrupted: after the signal, with how to stop the jobs.
    """
    cancel = threading.Event()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        cancel.set()
        raise _Came(number)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup's wish is kept
        numbers.append(signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        for number in numbers:
            signal.signal(number, on_signal)
        yield cancel
    except _Came as came:
        kind = {signal.SIGTERM: Terminated, signal.SIGHUP: HungUp}.get(signal.Signals(came.number), Interrupted)
        raise kind("detached", said, hint=hint) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(text: str) -> None:
    """Past the stream, which a handler may not use that came while it was being written to (RuntimeError: reentrant call)."""
    with suppress(OSError):
        os.write(2, f"\n{text}\n".encode())
