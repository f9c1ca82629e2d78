"""A job's log on a cluster's file system, followed until the job has ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from migctl.runtimes.logfile import read_log

_PAUSE_S: Final = 0.2
_BLOCK: Final = 1 << 16


def followed(
    path: Path, tail: int | None, is_over: Callable[[], bool], cancel: threading.Event, *, look_s: float
) -> Iterator[bytes]:
    """What is there, then what is added, to the end; nothing while the job has not begun.

    Args:
        path: of the log.
        tail: of what is there only the last so many lines.
        is_over: whether the job has ended, asked at most every `look_s` seconds.
        cancel: ends the following.
    """
    looked = time.monotonic()

    def over() -> bool:
        nonlocal looked
        if time.monotonic() - looked < look_s:
            return False
        looked = time.monotonic()
        return is_over()

    while not path.exists():
        if cancel.wait(_PAUSE_S) or (over() and not path.exists()):
            return
    yield from read_log(str(path), tail=tail)
    with path.open("rb") as file:
        file.seek(0, 2)
        ended = False
        while not cancel.is_set():
            while piece := file.read(_BLOCK):
                yield piece
            if ended:
                return  # read to the end once more after it had ended
            ended = over()
            if not ended:
                cancel.wait(_PAUSE_S)
