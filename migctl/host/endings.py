"""Waiting for other processes to end, told by the kernel instead of asked again and again."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final, Protocol

from migctl.host.procfs import process_start_ticks

_TICK_S: Final = 0.2
"""How soon a signal to this process is noticed."""


class Ending(Protocol):
    """What ends a wait early: a `threading.Event`, or several in one."""

    def is_set(self) -> bool: ...
    def wait(self, timeout_s: float, /) -> bool: ...


def wait_for_an_end(processes: Mapping[int, int | None], timeout_s: float, cancel: Ending) -> bool:
    """Wait until one of the processes has ended; whether one has.

    Args:
        processes: pid → start time in clock ticks since boot, so that a pid that is used again is not mistaken for the old process.
        cancel: ends the waiting.
    """
    deadline = time.monotonic() + timeout_s
    with ExitStack() as stack:
        poll = select.poll()
        watched = 0
        for pid, started in processes.items():
            try:
                descriptor = os.pidfd_open(pid)
            except ProcessLookupError:
                return True
            except OSError:
                continue  # too many of them: the timeout looks again
            stack.callback(os.close, descriptor)
            # Asked after opening: from here on the descriptor cannot come to mean another process.
            if started is not None and process_start_ticks(pid) != started:
                return True
            poll.register(descriptor, select.POLLIN)
            watched += 1
        while not cancel.is_set() and (left_s := deadline - time.monotonic()) > 0:
            if not watched:
                cancel.wait(min(left_s, _TICK_S))
            elif poll.poll(min(left_s, _TICK_S) * 1000):
                return True
    return False
