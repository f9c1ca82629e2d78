"""One holder at a time on the whole machine, by name; death releases, and no file in the folder can be used against anybody."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from migctl.errors import Busy, HostError
from migctl.host.lock import machine_lock
from tests.support.other_user import NOBODY, SOMEBODY, as_user, needs_root, open_folder

ROOT = Path(__file__).parents[2]
HOLD = """
import sys, time
from pathlib import Path
from migctl.host.lock import machine_lock
with machine_lock(Path(sys.argv[1]), sys.argv[2], user="alice"):
    print("held", flush=True)
    time.sleep(60)
"""


def holding(run_dir: Path, name: str) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run_dir), name],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    return child


def ended(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.wait()
    assert child.stdout is not None
    child.stdout.close()


def take(run_dir: Path, name: str) -> str:
    with machine_lock(run_dir, name):
        return "taken"


WORDS = [
    ("machine", "the GPUs and cores of this machine are in use by pid "),
    ("cores", "the cores of this machine are in use by pid "),
    ("gpu-GPU-1f2e", "GPU GPU-1f2e is in use by pid "),
    ("run-1000-lr-sweep", "the run lr-sweep is in use by pid "),
]


@pytest.mark.parametrize(("name", "words"), WORDS, ids=[name for name, _ in WORDS])
def test_the_second_is_told_who_holds_it(tmp_path: Path, name: str, words: str) -> None:
    child = holding(tmp_path / "r", name)
    try:
        with pytest.raises(Busy) as caught:
            take(tmp_path / "r", name)
    finally:
        ended(child)

    assert caught.value.id == "locked"
    assert caught.value.exit_code == 5
    assert caught.value.message.startswith(f"{words}{child.pid} of alice since 2")
    assert caught.value.data["pid"] == child.pid
    assert caught.value.data["uid"] == os.getuid()
    assert caught.value.data["user"] == "alice"
    assert isinstance(caught.value.data["since"], float)
    assert "-c" in str(caught.value.data["command"])


def test_a_killed_holder_frees_it_at_once_and_leaves_nothing_stale(tmp_path: Path) -> None:
    child = holding(tmp_path / "r", "machine")
    child.send_signal(signal.SIGKILL)
    ended(child)

    assert take(tmp_path / "r", "machine") == "taken"
    assert json.loads((tmp_path / "r/machine.lock").read_bytes())["pid"] == os.getpid()


def test_different_locks_do_not_disturb_each_other(tmp_path: Path) -> None:
    with machine_lock(tmp_path / "r", "gpu-1"):
        assert take(tmp_path / "r", "gpu-2") == "taken"


def test_it_is_free_again_after_the_block_also_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), machine_lock(tmp_path / "r", "machine"):
        raise ZeroDivisionError

    assert take(tmp_path / "r", "machine") == "taken"


def test_waiting_ends_when_the_holder_lets_go(tmp_path: Path) -> None:
    child = holding(tmp_path / "r", "machine")
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            ended(child)

    with machine_lock(tmp_path / "r", "machine", wait_s=60, sleep=sleep):
        assert len(slept) == 3


def test_waiting_ends_when_the_time_is_over(tmp_path: Path) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with (
        machine_lock(tmp_path / "r", "machine"),
        pytest.raises(Busy),
        machine_lock(tmp_path / "r", "machine", wait_s=5, clock=lambda: now[0], sleep=sleep),
    ):
        pass

    assert 5 <= now[0] < 5.2


FORGED = [
    b"",
    b"not json",
    b"[" * 4000,
    b'"text"',
    b'{"pid": "1", "uid": 0, "user": "x", "command": "x", "since": 1.0}',
    b'{"pid": 1, "uid": 0, "user": "x", "command": "x", "since": 1e999}',
    b'{"pid": 99999999999999, "uid": 0, "user": "x", "command": "x", "since": 1.0}',
]


@pytest.mark.parametrize("content", FORGED)
def test_what_a_liar_writes_into_the_file_is_not_believed(tmp_path: Path, content: bytes) -> None:
    with machine_lock(tmp_path / "r", "machine"):
        (tmp_path / "r/machine.lock").write_bytes(content)
        with pytest.raises(Busy, match="in use by another migctl"):
            take(tmp_path / "r", "machine")


def test_nothing_in_the_file_reaches_a_terminal_as_a_control_sign(tmp_path: Path) -> None:
    holder = {"pid": os.getpid(), "uid": 0, "user": "a\x1b[2J", "command": "b\rc\n", "since": 1.0}
    with machine_lock(tmp_path / "r", "machine"):
        (tmp_path / "r/machine.lock").write_text(json.dumps(holder))
        with pytest.raises(Busy) as caught:
            take(tmp_path / "r", "machine")

    assert caught.value.message.isprintable()


def link(path: Path, target: Path) -> None:
    path.symlink_to(target)


def hard_link(path: Path, target: Path) -> None:
    path.hardlink_to(target)


def fifo(path: Path, target: Path) -> None:
    os.mkfifo(path)


def folder(path: Path, target: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("trap", [link, hard_link, fifo, folder])
def test_only_an_ordinary_file_of_its_own_is_locked(tmp_path: Path, trap: object) -> None:
    target = tmp_path / "precious"
    target.write_text("precious")
    (tmp_path / "r").mkdir(0o700)
    assert callable(trap)
    trap(tmp_path / "r/machine.lock", target)
    with pytest.raises(HostError) as caught:
        take(tmp_path / "r", "machine")

    assert caught.value.id == "lock-unusable"
    assert target.read_text() == "precious"


def test_a_lock_file_that_is_removed_while_somebody_waits_is_not_locked_twice(tmp_path: Path) -> None:
    run_dir = tmp_path / "r"
    child = holding(run_dir, "machine")

    def sleep(seconds: float) -> None:
        (run_dir / "machine.lock").unlink()
        ended(child)

    with machine_lock(run_dir, "machine", wait_s=60, sleep=sleep), pytest.raises(Busy):
        take(run_dir, "machine")


def test_the_umask_locks_nobody_out(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        take(tmp_path / "r", "machine")
    finally:
        os.umask(before)

    assert (tmp_path / "r").stat().st_mode & 0o7777 == 0o1777
    assert (tmp_path / "r/machine.lock").stat().st_mode & 0o777 == 0o666


def test_a_name_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    take(tmp_path / "r", "run-0-../../x")

    assert [path.name for path in (tmp_path / "r").iterdir()] == ["run-0-..-..-x.lock"]


@needs_root
def test_users_lock_each_other_out_and_say_so() -> None:
    with open_folder() as top:
        run_dir = top / "r"
        assert as_user(SOMEBODY, lambda: (top.chmod(0o755), take(run_dir, "machine"))[1]) != "taken", "not his folder"
        assert take(run_dir, "machine") == "taken"
        assert as_user(SOMEBODY, lambda: take(run_dir, "machine")) == "taken"
        assert as_user(SOMEBODY, lambda: take(run_dir, "gpu-his")) == "taken"
        assert as_user(NOBODY, lambda: take(run_dir, "gpu-his")) == "taken"
        with machine_lock(run_dir, "gpu-his", user="root"):
            told = str(as_user(NOBODY, lambda: take(run_dir, "gpu-his")))

    assert told.startswith(f"error: GPU his is in use by pid {os.getpid()} of root since")


@needs_root
def test_many_at_once_make_one_lock(tmp_path: Path) -> None:
    counter = tmp_path / "count"
    counter.write_text("0")
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for _ in range(10):
                    with machine_lock(tmp_path / "r", "machine", wait_s=30, sleep=lambda _: time.sleep(0.001)):
                        counter.write_text(str(int(counter.read_text()) + 1))
                status = 0
            finally:
                os._exit(status)
        children.append(child)

    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8
    assert counter.read_text() == "80"
