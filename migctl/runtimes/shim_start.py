"""Starting a shim and talking to it until its job is let go."""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from migctl.runtimes.logfile import ended_within

SHIM = Path(__file__).with_name("shim.py")
REFUSE = b"x"
"""Sent after the task: the waiting job ends instead of beginning."""
_READY_DEADLINE_S = 30.0


@contextmanager
def started_shim(
    lock: int, words: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> Iterator[tuple[int, int]]:
    """Start a shim that inherits the lock: gives the descriptor it reads (closing it lets the job go) and the one it answers on.

    Args:
        lock: descriptor of the attempt's lock.
        words: what it says on its command line of its job, for whoever looks at the machine's processes.
        environment: what it carries.
    """
    ready, answering = os.pipe()
    theirs, go = os.pipe()
    try:
        try:
            first = subprocess.Popen(
                [sys.executable, "-I", "-S", str(SHIM), str(lock), str(answering), *words],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"LC_ALL": "C.UTF-8", **(environment or {})},
                pass_fds=(lock, answering),
                start_new_session=True,
            )
        finally:
            os.close(answering)
            os.close(theirs)
        try:
            yield go, ready
        finally:
            os.close(go)
            go = -1
            first.wait()
    finally:
        os.close(ready)
        if go >= 0:
            os.close(go)


def send_task(fd: int, task: Mapping[str, object]) -> None:
    """Tell the shim what to run; closing `fd` afterwards lets the job go."""
    payload = marshal.dumps(dict(task))
    view = memoryview(len(payload).to_bytes(8, "little") + payload)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except BrokenPipeError:
        pass  # the missing answer tells


def read_answer(fd: int) -> str:
    """The shim's one line; empty when it died without a word."""
    text = b""
    while not text.endswith(b"\n"):
        if not ended_within(fd, _READY_DEADLINE_S):
            return f"the process that was to watch the job did not answer within {_READY_DEADLINE_S:g} s"
        piece = os.read(fd, 500)
        if not piece:
            break
        text += piece
    return text.decode(errors="replace").strip()
