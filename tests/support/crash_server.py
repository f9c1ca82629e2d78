"""Commands in processes that die on order: one single-threaded server imports everything once and forks a child for each."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from migctl.errors import MigctlError
from tests.support.crashes import At, Site, Spec
from tests.support.queue_site import submit, supervise_all

ROOT: Final = Path(__file__).parents[2]
_CHANGES: Final = frozenset({"os.rename", "os.remove", "os.link", "os.mkdir", "os.rmdir", "subprocess.Popen"})
"""Audit events (Python's audit event table) of calls that change something outside the process, beside opening to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One command, and when its process gets SIGKILL."""

    site: Site
    command: str
    """up, down, submit (an up whose supervisor is somebody else) or supervise"""
    spec: Spec
    at_event: int = 0
    """At the n-th step event; 0 = never."""
    at_change: int = 0
    """Before the n-th call that changes a file or starts a process; 0 = never."""
    oversubscribe: bool = True
    wait_for_s: float = 0.0
    replacing: bool = False
    retry: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """How the command's process ended."""

    killed: bool
    error: str = ""
    """Id of the error, where it raised one."""


class Server:
    """A running server; commands are carried out one after another, or begun and awaited."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.crash_server"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self, order: Order) -> None:
        """Hand over an order."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(order), default=str) + "\n")
        self._process.stdin.flush()

    def end(self) -> Ended:
        """Wait for it."""
        assert self._process.stdout is not None
        return Ended(**json.loads(self._process.stdout.readline()))

    def run(self, order: Order) -> Ended:
        """Both."""
        self.begin(order)
        return self.end()

    def close(self) -> None:
        """End the server."""
        self._process.communicate()


@contextlib.contextmanager
def server() -> Iterator[Server]:
    """A server for as long as it is needed."""
    running = Server()
    try:
        yield running
    finally:
        running.close()


def _carry_out(order: Order) -> str:
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    _die_before_change(order.at_change, die)
    listener = At(order.at_event, die)
    try:
        if order.command == "up":
            order.site.up(
                order.spec,
                report=listener,
                oversubscribe=order.oversubscribe,
                wait_for_s=order.wait_for_s,
                replacing=order.replacing,
                retry=order.retry,
            )
        elif order.command == "submit":
            submit(order.site, order.spec, report=listener)
        elif order.command == "supervise":
            supervise_all(order.site, report=listener)
        else:
            order.site.down(report=listener)
    except MigctlError as error:
        return error.id
    return ""


def _die_before_change(number: int, die: Callable[[], None]) -> None:
    seen = 0

    def hook(name: str, values: tuple[Any, ...]) -> None:
        nonlocal seen
        writing = name == "open" and isinstance(values[2], int) and values[2] & (os.O_WRONLY | os.O_RDWR)
        if name in _CHANGES or writing:
            seen += 1
            if seen == number:
                die()

    if number:
        sys.addaudithook(hook)


def _serve() -> None:
    for line in sys.stdin:
        values = json.loads(line)
        where = values.pop("site")
        site = Site(**{**where, "folder": Path(where["folder"]), "machine": Path(where["machine"])})
        order = Order(site=site, **values)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            os.write(writer, _carry_out(order).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as answer:
            error = answer.read()
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        ended = Ended(code == -signal.SIGKILL, error if code == 0 else "" if code == -signal.SIGKILL else "traceback")
        print(json.dumps(asdict(ended)), flush=True)  # noqa: T201 -- the answer


if __name__ == "__main__":
    _serve()
