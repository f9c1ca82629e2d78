"""The lock of the machine, had by one command with several threads, of which some wait for somebody."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from migctl.engine.holders.heldmachine import HeldMachine
from migctl.errors import Busy


class Lock:
    """A lock that tells who has it, and that somebody else may take."""

    def __init__(self) -> None:
        self.had = False
        self.others = False
        self.asked: list[bool] = []
        """Whether a signal that had come already was to end the waiting, each time."""

    @contextmanager
    def take(self, _wait_s: float, heeding: bool) -> Iterator[None]:
        self.asked.append(heeding)
        if self.others:
            raise Busy("locked", "somebody else has it")
        assert not self.had
        self.had = True
        try:
            yield
        finally:
            self.had = False


@pytest.fixture
def lock() -> Lock:
    return Lock()


@pytest.fixture
def machine(lock: Lock) -> HeldMachine:
    machine = HeldMachine(lock.take)
    machine.take(1.0)
    return machine


def test_it_is_had_but_while_somebody_is_waited_for(lock: Lock, machine: HeldMachine) -> None:
    with machine.at_it():
        assert lock.had
    with machine.let_go():
        assert not lock.had
    assert lock.had
    machine.close()
    assert not lock.had


def test_one_thread_that_is_at_it_keeps_it_while_another_waits(lock: Lock, machine: HeldMachine) -> None:
    seen: list[bool] = []
    begun, end = threading.Event(), threading.Event()

    def work() -> None:
        with machine.at_it():
            begun.set()
            end.wait()

    worker = threading.Thread(target=work)
    worker.start()
    begun.wait()
    with machine.let_go():
        seen.append(lock.had)
        end.set()
        worker.join()
        seen.append(lock.had)

    assert seen == [True, False]


def test_who_comes_to_be_at_it_while_another_waits_takes_it_again(lock: Lock, machine: HeldMachine) -> None:
    with machine.let_go():
        with machine.at_it():
            assert lock.had
        assert not lock.had
    assert lock.had


def test_where_somebody_else_keeps_it_the_wait_ends_with_that(lock: Lock, machine: HeldMachine) -> None:
    with pytest.raises(Busy), machine.let_go():
        lock.others = True

    machine.close()
    assert not lock.had


def test_a_signal_that_has_come_already_ends_only_the_first_taking(lock: Lock, machine: HeldMachine) -> None:
    with machine.let_go():
        pass

    assert lock.asked == [True, False]


def test_a_command_that_needs_no_lock_has_none() -> None:
    machine = HeldMachine()

    with machine.let_go(), machine.at_it():
        pass
