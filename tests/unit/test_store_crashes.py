"""Death, a full disk and company at any moment: what is read afterwards is old or new, never a mixture."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from migctl.errors import Busy, HostError
from migctl.store.ledger import Ledger
from tests.support.store_values import NOW, filled, later, reading, record, run, writing

ROOT = Path(__file__).parents[2]
JOBS = ("a", "b", "c")

WRITER = """
import sys, time
from dataclasses import replace
from pathlib import Path
from tests.support.store_values import record, run, writing
with writing(Path(sys.argv[1])) as ledger:
    if ledger.run("sweep") is None:
        ledger.save_run(run())
    first = max((r.revision for r in ledger.records("sweep")), default=0)
    for revision in range(first + 1, first + 100_000):
        ledger.save([record(job, revision=revision) for job in ("a", "b", "c")], durable=revision % 2 == 0)
        print(revision, flush=True)
"""

NEIGHBOUR = """
import sys
from pathlib import Path
from tests.support.store_values import record, run, writing
state, name = Path(sys.argv[1]), sys.argv[2]
with writing(state) as ledger:
    key = ledger.key()
    ledger.save_run(run(name))
    for revision in range(1, 21):
        ledger.save([record(job, run=name, revision=revision) for job in ("a", "b")], durable=False)
print(key.hex())
"""

FULL = """
import sys
from pathlib import Path
from migctl.errors import Busy
from tests.support.store_values import later, reading, record, run, writing
state = Path(sys.argv[1]) / "s"
with writing(state) as ledger:
    ledger.save_run(run())
    saved = []
    try:
        for number in range(10_000):
            batch = [record(f"{number}-{n}") for n in range(3)]
            ledger.save(batch, durable=number % 2 == 0)
            saved += batch
    except Busy as busy:
        print(busy.id, busy.exit_code, busy.data["path"], busy.hint)
    assert set(ledger.records("sweep")) == set(saved), "the refused batch left something"
with reading(state) as ledger:
    assert set(ledger.records("sweep")) == set(saved)
    assert ledger.notices == ()
assert not list(state.rglob("*.tmp-*"))
assert saved
"""


def started(code: str, *arguments: str) -> subprocess.Popen[str]:
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True, env=environ)


def test_a_writer_killed_at_any_moment_leaves_old_or_new(tmp_path: Path) -> None:
    moment = random.Random(20_240_806)
    last = 0
    for _ in range(6):
        child = started(WRITER, str(tmp_path))
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(moment.uniform(0.0, 0.08))
        child.send_signal(signal.SIGKILL)
        told = [int(line) for line in child.stdout.read().split()]
        child.stdout.close()
        child.wait()
        acknowledged = max([last, *told])
        with reading(tmp_path) as ledger:
            revisions = {r.revision for r in ledger.records("sweep")}
            assert ledger.notices == ()
            assert [r.name for r in ledger.runs()] == ["sweep"]
        assert len(revisions) == 1, "a batch is one"
        (last,) = revisions
        assert acknowledged <= last

        without = tmp_path.with_name(f"{tmp_path.name}-without")
        shutil.copytree(tmp_path, without)
        for file in without.glob("store.db*"):
            file.unlink()
        with writing(without) as ledger:
            assert {r.revision for r in ledger.records("sweep")} <= {last - 1, last}
            assert ledger.notices == ()
        shutil.rmtree(without)


def test_a_writer_killed_while_the_store_is_made_leaves_one_that_works(tmp_path: Path) -> None:
    moment = random.Random(7)
    for number in range(4):
        state = tmp_path / str(number)
        child = started(WRITER, str(state))
        deadline = time.monotonic() + 10
        while not state.exists() and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(moment.uniform(0.0, 0.03))
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert child.stdout is not None
        child.stdout.close()
        with writing(state) as ledger:
            fresh = max((r.revision for r in ledger.records("sweep")), default=0) + 1
            ledger.save([record(job, revision=fresh) for job in JOBS], durable=False)
            assert [r.job for r in ledger.records("sweep")] == list(JOBS)
            assert ledger.notices == ()


def test_several_processes_that_make_and_fill_one_store_do_not_disturb_each_other(tmp_path: Path) -> None:
    names = ["one", "two", "three"]
    children = [started(NEIGHBOUR, str(tmp_path / "s"), name) for name in names]
    keys = {child.communicate(timeout=60)[0].strip() for child in children}

    assert [child.returncode for child in children] == [0, 0, 0]
    assert len(keys) == 1
    with reading(tmp_path / "s") as ledger:
        assert {r.name for r in ledger.runs()} == set(names)
        for name in names:
            assert {(r.job, r.revision) for r in ledger.records(name)} == {("a", 20), ("b", 20)}
        assert ledger.notices == ()


def test_a_full_disk_is_told_with_the_place_and_leaves_nothing_half(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    script = f'mount -t tmpfs -o size=600k migctl-test "{mount}" && exec "{sys.executable}" -c "$CODE" "{mount}"'
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("a small file system of its own needs root and unshare(1)")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT), "CODE": FULL},
        capture_output=True,
        text=True,
    )
    if "mount:" in done.stderr:
        pytest.skip("mounting a tmpfs is not allowed here")

    assert done.stderr == ""
    assert done.returncode == 0
    assert done.stdout.startswith(f"disk-full 5 {mount}/s/")
    assert f"df -h {mount}" in done.stdout


@pytest.mark.parametrize("spec", ["small", "x" * 10_000], ids=["index too large", "owner file too large"])
def test_a_used_up_quota_is_told_and_nothing_is_written(tmp_path: Path, spec: str) -> None:
    running, queued = filled(tmp_path)
    with writing(tmp_path) as ledger:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
        try:
            with pytest.raises(Busy, match="are needed there") as caught:
                ledger.save([record("new"), later(running, spec=spec)], durable=True)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

        assert caught.value.id == "disk-full"
        assert caught.value.exit_code == 5
        assert str(tmp_path) in str(caught.value.data["path"])
        assert ledger.records("sweep") == (running, queued)
        ledger.save([later(running)], durable=False)  # and works again when there is room
    assert list(tmp_path.rglob("*.tmp-*")) == []


def test_a_store_that_another_process_holds_is_named_and_still_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sqlite3

    from migctl.store import database

    running, _ = filled(tmp_path)
    monkeypatch.setattr(database, "WRITE_WAIT_S", 0.1)  # only shortens the wait
    holder = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        with writing(tmp_path) as ledger:
            with pytest.raises(Busy, match="held by another process") as caught:
                ledger.save([later(running)], durable=False)
            assert ledger.records("sweep")[0] == running
    finally:
        holder.close()

    assert caught.value.id == "store-locked"


def test_a_read_only_file_system_is_named(tmp_path: Path) -> None:
    state = tmp_path / "s"
    filled(state)
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("a read-only view needs root and unshare(1)")
    code = (
        "import sys; from pathlib import Path; from tests.support.store_values import *\n"
        "with reading(Path(sys.argv[1])) as ledger: print(len(ledger.records('sweep')), ledger.notices)\n"
        "try: filled(Path(sys.argv[1]))\n"
        "except Exception as error: print(type(error).__name__, error.id)\n"
    )
    script = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && exec "$0" -c "$CODE" "$1"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, sys.executable, str(state)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "CODE": code},
        capture_output=True,
        text=True,
    )
    if "mount:" in done.stderr:
        pytest.skip("mounting is not allowed here")

    assert done.stdout.splitlines() == ["2 ()", "HostError store-read-only"], done.stderr


def test_threads_share_one_ledger(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def work(job: str) -> None:
        for revision in range(1, 11):
            ledger.save([record(job, revision=revision)], durable=False)
            assert ledger.records("sweep")

    with writing(tmp_path) as ledger, ThreadPoolExecutor(4) as pool:
        list(pool.map(work, ["a", "b", "c", "d"]))
        assert {(r.job, r.revision) for r in ledger.records("sweep")} == {(job, 10) for job in "abcd"}


def test_closing_twice_is_fine(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path, write=True, now=lambda: NOW)
    ledger.save_run(run())
    ledger.close()
    ledger.close()


def test_a_state_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match="file") as caught:
        writing(tmp_path / "file" / "s")

    assert caught.value.id == "store-link"
