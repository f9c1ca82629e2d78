"""One piece of work in a second process while this one goes on: reading a plan takes as long as loading what will act on it."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from migctl.errors import MigctlError

R = TypeVar("R")


class Aside(Generic[R]):
    """A function's result, computed in a fork of this process; to be made before there are threads.

    Whatever keeps the fork from answering (no memory, a kill, a result that cannot be handed over), the function is called here
    instead: the answer is always that of a plain call.

    Args:
        work: changes nothing.
        here: call it in this process, when the result is asked for: it reads what can be read once only.
    """

    def __init__(self, work: Callable[[], R], *, here: bool = False) -> None:
        self._work = work
        self._child = 0
        if here:
            return
        self._reader, writer = os.pipe()
        try:
            self._child = os.fork()
        except OSError:
            os.close(self._reader)
        else:
            if self._child == 0:
                os.close(self._reader)  # or a parent that is gone would never be noticed
                _answer(work, writer)
        os.close(writer)

    def result(self) -> R:
        """The result, or the error that the function raised; a bug is met here, with its own traceback."""
        answer = b""
        if self._child:
            with os.fdopen(self._reader, "rb") as pipe:
                answer = pipe.read()
            os.waitpid(self._child, 0)
        try:
            value, error = pickle.loads(answer)
        except Exception:  # noqa: BLE001 -- there is no whole answer, for whatever reason
            return self._work()
        if error is not None:
            raise error
        made: R = value
        return made


def _answer(work: Callable[[], R], writer: int) -> None:
    """In the fork, which never returns to its caller's code."""
    outcome: tuple[R | None, MigctlError | None]
    try:
        try:
            outcome = (work(), None)
        except MigctlError as error:
            outcome = (None, error)
        with suppress(Exception), os.fdopen(writer, "wb") as pipe:
            pipe.write(pickle.dumps(outcome))
    finally:
        os._exit(0)
