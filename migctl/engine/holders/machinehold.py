"""The `machine` lock for as long as some job of a run is at it: taken by the first, let go by the last."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from migctl.errors import Interrupted


class MachineHold:
    """One lock shared by the threads of one command.

    Args:
        take: takes the lock; raises Busy where somebody else has it for too long, Interrupted where a signal ends the waiting.
    """

    def __init__(self, take: Callable[[], AbstractContextManager[None]]) -> None:
        self._take = take
        self._guard = threading.Lock()
        self._inside = 0
        self._held = ExitStack()
        self._given_up: Interrupted | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside, no other command changes GPU instances or MIG mode.

        Raises:
            Busy: somebody else has the lock.
            Interrupted: a signal ended the waiting for it, of this thread or of one before: then nobody waits any more.
        """
        with self._guard:
            if self._given_up is not None:
                raise Interrupted(self._given_up.id, self._given_up.message, where=self._given_up.where)
            if self._inside == 0:
                try:
                    self._held.enter_context(self._take())
                except Interrupted as error:
                    self._given_up = error
                    raise
            self._inside += 1
        try:
            yield
        finally:
            with self._guard:
                self._inside -= 1
                if self._inside == 0:
                    self._held.close()
