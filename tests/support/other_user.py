"""Run a function as another uid, in a child process; only root can."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534
SOMEBODY = 54321

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def as_user(uid: int, work: Callable[[], object]) -> object:
    """What `work` returned (JSON), or `error: …` where it raised."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            answer: object = work()
        except BaseException as error:  # noqa: BLE001 -- all of it is the parent's to judge
            answer = f"error: {error}"
        os.write(writer, json.dumps(answer).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text)


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that other users can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="migctl-test-") as folder:
        path = Path(folder)
        path.chmod(0o755)
        yield path
