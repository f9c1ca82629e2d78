"""The `machine` lock of a command that has it from its decision to its end, and leaves it to others while it waits for somebody."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext

from migctl.engine.lockwaits import MACHINE_S
from migctl.nvml.driver import Driver
from migctl.nvml.open import released


def _nothing(_wait_s: float, _heeding: bool) -> AbstractContextManager[None]:
    return nullcontext()


class HeldMachine:
    """One lock of all the threads of one command.

    While it is let go of, the command's claim keeps its cores from others; a place on a GPU belongs to whoever is quicker.

    Args:
        take: takes the lock, waits so many seconds for it, and heeds a signal that has come already, or only one that comes;
            default: the command needs none.
    """

    def __init__(self, take: Callable[[float, bool], AbstractContextManager[None]] = _nothing) -> None:
        self._take = take
        self._guard = threading.Lock()
        self._lock = ExitStack()
        self._has = False
        self._at_it = 0
        self._away = 0

    def take(self, wait_s: float) -> None:
        """Have it from now on.

        Raises:
            Busy: somebody else has it, all the time.
            Interrupted: a signal came.
        """
        self._lock.enter_context(self._take(wait_s, True))
        self._has = True

    def close(self) -> None:
        """Give it back."""
        self._lock.close()
        self._has = False

    @contextmanager
    def at_it(self) -> Iterator[None]:
        """Inside, no other command changes GPU instances or MIG mode, also while another thread of this one waits for somebody.

        Raises:
            Busy: somebody else has it, and keeps it.
            Interrupted: a signal came while waiting for it.
        """
        with self._guard:
            self._take_again()
            self._at_it += 1
        try:
            yield
        finally:
            with self._guard:
                self._at_it -= 1
                self._leave()

    @contextmanager
    def let_go(self) -> Iterator[None]:
        """Inside, others may have it, unless another thread of this command is at it; afterwards it is had again.

        Raises:
            Busy, Interrupted: as of `at_it`.
        """
        with self._guard:
            self._away += 1
            self._leave()
        try:
            yield
        finally:
            with self._guard:
                self._away -= 1
                self._take_again()

    def _leave(self) -> None:
        if self._away and not self._at_it:
            self.close()

    def _take_again(self) -> None:
        """A signal that came before asks for an end of the command, which needs the machine, too."""
        if not self._has:
            self._lock.enter_context(self._take(MACHINE_S, False))
            self._has = True


@contextmanager
def stepped_back(driver: Driver, machine: HeldMachine) -> Iterator[None]:
    """Inside, whoever only waits keeps no GPU open, and nobody from changing one."""
    with released(driver), machine.let_go():
        yield
