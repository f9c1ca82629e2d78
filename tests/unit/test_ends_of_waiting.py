"""What ends a wait: a signal, a failure beside it, or an answer; and that a signal stays one."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from migctl.engine.halt import Halt
from migctl.errors import Interrupted
from migctl.host.lock import machine_lock
from migctl.runtimes.abandonment import ask_all

SOON_S = 10.0


def test_a_failure_ends_waits_and_leaves_the_signal_as_it_is() -> None:
    signal = threading.Event()
    halt = Halt(signal)
    threading.Timer(0.1, halt.fail).start()
    began = time.monotonic()

    assert halt.wait(60)

    assert time.monotonic() - began < SOON_S
    assert (halt.is_set(), halt.interrupted, signal.is_set()) == (True, False, False)


def test_a_signal_ends_waits_and_is_told_from_a_failure() -> None:
    signal = threading.Event()
    halt = Halt(signal)
    threading.Timer(0.1, signal.set).start()

    assert halt.wait(60)

    assert (halt.is_set(), halt.interrupted) == (True, True)


def test_a_wait_that_nothing_ends_lasts_as_long_as_it_was_told() -> None:
    began = time.monotonic()

    assert not Halt(threading.Event()).wait(0.2)

    assert time.monotonic() - began >= 0.2


def test_a_signal_ends_the_waiting_for_a_lock_and_names_the_lock(tmp_path: Path) -> None:
    cancel = threading.Event()

    with (
        machine_lock(tmp_path / "r", "machine"),
        pytest.raises(Interrupted) as told,
        machine_lock(tmp_path / "r", "machine", wait_s=60, cancel=cancel, sleep=lambda _: cancel.set()),
    ):
        pass

    assert told.value.where == "machine"


def test_a_signal_is_no_reason_not_to_take_a_free_lock(tmp_path: Path) -> None:
    cancel = threading.Event()
    cancel.set()

    with machine_lock(tmp_path / "r", "machine", cancel=cancel):
        pass


def test_all_are_asked_side_by_side_and_each_is_answered() -> None:
    both = threading.Barrier(2)

    def ask(key: str) -> str:
        both.wait(SOON_S)
        return key.upper()

    assert ask_all(["a", "b"], ask, None, "asking") == {"a": "A", "b": "B"}
    assert ask_all([], ask, None, "asking") == {}


def test_nobody_waits_for_an_answer_after_a_signal() -> None:
    cancel, never = threading.Event(), threading.Event()
    threading.Timer(0.1, cancel.set).start()
    began = time.monotonic()

    with pytest.raises(Interrupted, match="interrupted while fetching"):
        ask_all(["a"], lambda _: never.wait(60), cancel, "fetching")

    assert time.monotonic() - began < SOON_S
    never.set()


def test_a_bug_in_asking_is_raised_where_it_is_heard() -> None:
    def bug(_: str) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ask_all(["a"], bug, None, "asking")
