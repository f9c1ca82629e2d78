"""The supervisor's bell is a real named pipe: who rings is heard once, and what else lies there is left alone."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from migctl.errors import HostError
from migctl.host.doorbell import Doorbell, is_heard, ring


class Heard:
    """Counts calls."""

    def __init__(self) -> None:
        self.times = 0
        self.once = threading.Event()

    def __call__(self) -> None:
        self.times += 1
        self.once.set()


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 -- iterdir would keep one open while counting


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bell"


@pytest.fixture
def bell(path: Path, heard: Heard) -> Iterator[Doorbell]:
    made = Doorbell(path, os.getuid(), os.getgid(), heard)
    yield made
    made.close()


@pytest.mark.usefixtures("bell")
def test_a_ring_is_heard_and_the_pipe_is_the_owners_alone(path: Path, heard: Heard) -> None:
    assert is_heard(path)
    assert heard.times == 0, "whoever only looks rings nothing"

    assert ring(path)

    assert heard.once.wait(5)
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert stat.S_ISFIFO(path.lstat().st_mode)


def test_nobody_hears_before_and_after(path: Path, heard: Heard) -> None:
    assert (is_heard(path), ring(path)) == (False, False)
    threads = threading.active_count()
    descriptors = _descriptors()

    bell = Doorbell(path, os.getuid(), os.getgid(), heard)
    bell.close()
    bell.close()

    assert (is_heard(path), ring(path), path.exists()) == (False, False, False)
    assert (threading.active_count(), _descriptors()) == (threads, descriptors)
    assert heard.times == 0


def test_the_bell_of_a_killed_listener_is_deaf_and_replaced(path: Path, heard: Heard) -> None:
    os.mkfifo(path)
    assert (is_heard(path), ring(path)) == (False, False)

    bell = Doorbell(path, os.getuid(), os.getgid(), heard)

    assert ring(path)
    assert heard.once.wait(5)
    bell.close()


def test_a_pipe_full_of_rings_takes_one_more(path: Path) -> None:
    busy, done = threading.Event(), threading.Event()

    def rung() -> None:
        busy.set()
        assert done.wait(20)

    bell = Doorbell(path, os.getuid(), os.getgid(), rung)
    try:
        assert ring(path)
        assert busy.wait(5)
        assert all(ring(path) for _ in range(70_000)), "a pipe holds 65,536"
    finally:
        done.set()
        bell.close()


@pytest.mark.parametrize("kind", ["file", "link to a pipe", "link to nothing", "folder"])
def test_anything_else_at_its_place_is_left_alone(tmp_path: Path, path: Path, heard: Heard, kind: str) -> None:
    if kind == "file":
        path.write_text("mine")
    elif kind == "folder":
        path.mkdir()
    else:
        if kind == "link to a pipe":
            os.mkfifo(tmp_path / "other")
        path.symlink_to(tmp_path / "other")

    with pytest.raises(HostError) as refused:
        Doorbell(path, os.getuid(), os.getgid(), heard)

    assert refused.value.id == "not-a-pipe"
    assert (is_heard(path), ring(path)) == (False, False)
    assert path.is_symlink() or path.exists()
    if kind == "file":
        assert path.read_text() == "mine"


def test_a_bell_where_nothing_can_be_made_says_so(tmp_path: Path, heard: Heard) -> None:
    with pytest.raises(HostError) as refused:
        Doorbell(tmp_path / "none" / "bell", os.getuid(), os.getgid(), heard)

    assert refused.value.id == "no-doorbell"
