"""The `machine` lock for as long as some job of a run is at it: taken by the first, let go by the last."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager


class MachineHold:
    """One lock shared by the threads of one command.

    Args:
        take: takes the lock; raises Busy where somebody else has it for too long.
    """

    def __init__(self, take: Callable[[], AbstractContextManager[None]]) -> None:
        self._take = take
        self._guard = threading.Lock()
        self._inside = 0
        self._held = ExitStack()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside, no other command changes GPU instances or MIG mode.

        Raises:
            Busy: somebody else has the lock.
        """
        with self._guard:
            if self._inside == 0:
                self._held.enter_context(self._take())
            self._inside += 1
        try:
            yield
        finally:
            with self._guard:
                self._inside -= 1
                if self._inside == 0:
                    self._held.close()
