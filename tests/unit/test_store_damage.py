"""Whatever lies where the store should be: it is repaired by a writer, done without by a reader, and never followed out."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from migctl.errors import HostError
from migctl.store.ledger import Ledger
from migctl.store.schema import APPLICATION_ID, MIGRATIONS
from tests.support.other_user import SOMEBODY, as_user, needs_root, open_folder
from tests.support.store_values import filled, later, reading, record, run, writing


def garbage(store: Path) -> None:
    store.write_bytes(b"\x00not a database at all" * 1000)


def torn(store: Path) -> None:
    data = store.read_bytes()
    store.write_bytes(data[: len(data) // 2 - 100])


def overwritten(store: Path) -> None:
    """The header is right, the pages behind it are not."""
    data = bytearray(store.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    store.write_bytes(bytes(data))


def folder(store: Path) -> None:
    store.unlink()
    store.mkdir()


def fifo(store: Path) -> None:
    store.unlink()
    os.mkfifo(store)


def another_program(store: Path) -> None:
    store.unlink()
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
        connection.commit()


def without_tables(store: Path) -> None:
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("DROP TABLE jobs")
        connection.commit()


def unreadable_rows(store: Path) -> None:
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("UPDATE jobs SET body = 'nothing'")
        connection.execute("UPDATE runs SET body = '{}'")
        connection.commit()


DAMAGE = [garbage, torn, overwritten, folder, fifo, another_program, without_tables, unreadable_rows]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_reader_uses_the_owner_files_and_says_so(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    running, _ = filled(tmp_path)
    damage(tmp_path / "store.db")
    before = sorted(path.name for path in tmp_path.iterdir())
    with reading(tmp_path) as ledger:
        assert ledger.records("sweep") == (running,)
        assert [r.name for r in ledger.runs()] == ["sweep"]
        assert [notice.id for notice in ledger.notices] == ["store-unreadable"]
        assert "without the history" in ledger.notices[0].message

    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_writer_sets_it_aside_and_rebuilds_it(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    running, queued = filled(tmp_path)
    damage(tmp_path / "store.db")
    with writing(tmp_path) as ledger:
        assert ledger.records("sweep") == (running,)
        assert [r.name for r in ledger.runs()] == ["sweep"]
        ledger.save([later(running), queued], durable=False)
        (notice,) = ledger.notices

    assert notice.id == "store-set-aside"
    kept = [path.name for path in tmp_path.glob("store.db.broken-*") if not path.name.endswith(("-wal", "-shm"))]
    assert len(kept) == 1
    assert str(notice.where) in {str(path) for path in tmp_path.iterdir()}
    with reading(tmp_path) as ledger:
        assert ledger.records("sweep") == (later(running), queued)
        assert ledger.notices == ()


@pytest.mark.parametrize("damage", [overwritten, unreadable_rows])
def test_damage_met_while_writing_does_not_lose_the_write(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    running, _ = filled(tmp_path)
    damage(tmp_path / "store.db")
    with writing(tmp_path) as ledger:
        ledger.save([later(running)], durable=True)

    with reading(tmp_path) as ledger:
        assert ledger.records("sweep")[0] == later(running)


def test_a_lost_index_is_rebuilt_with_run_records_and_history(tmp_path: Path) -> None:
    running, _ = filled(tmp_path)
    with writing(tmp_path) as ledger:
        ledger.save([record("old")], durable=False)
        ledger.drop("sweep", "old")
    (tmp_path / "store.db").unlink()
    with writing(tmp_path) as ledger:
        assert ledger.records("sweep") == (running,)
        assert ledger.history("sweep") == (record("old"),)
    shutil.rmtree(tmp_path / "runs")
    with reading(tmp_path) as ledger:  # now from the index alone
        assert ledger.records("sweep") == (running,)
        assert ledger.history("sweep") == (record("old"),)
        assert ledger.run("sweep") is not None


def test_a_run_whose_own_file_is_lost_too_is_still_found_by_its_jobs(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "store.db").unlink()
    (tmp_path / "runs/sweep/@run.json").unlink()
    for opened in (reading(tmp_path), writing(tmp_path)):
        with opened as ledger:
            (found,) = ledger.runs()
            assert (found.name, found.runtime, found.strategy) == ("sweep", "docker", "mig")


def test_a_store_from_an_earlier_version_is_brought_up_to_date(tmp_path: Path) -> None:
    running, queued = filled(tmp_path)
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        connection.execute("DROP TABLE intents")
        connection.execute("PRAGMA user_version = 1")
        connection.commit()
    with reading(tmp_path) as ledger:
        assert "it has version 1" in ledger.notices[0].message
    with writing(tmp_path) as ledger:
        assert ledger.records("sweep") == (running, queued)
        ledger.save([running], durable=False)
        assert ledger.notices == ()


def test_a_store_whose_making_was_cut_short_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "store.db").touch()
    with reading(tmp_path) as ledger:
        assert ledger.notices == ()
        assert ledger.runs() == ()
    with writing(tmp_path) as ledger:
        ledger.save_run(run())
        assert ledger.notices == ()


@pytest.mark.parametrize("write", [False, True])
def test_a_store_from_a_newer_version_is_left_alone(tmp_path: Path, write: bool) -> None:
    filled(tmp_path)
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    before = (tmp_path / "store.db").read_bytes()
    with pytest.raises(HostError, match="written by a newer migctl") as caught:
        Ledger.open(tmp_path, write=write, now=lambda: 0.0)

    assert caught.value.id == "store-too-new"
    assert "upgrade" in str(caught.value.hint)
    assert (tmp_path / "store.db").read_bytes() == before


def test_an_owner_file_from_a_newer_version_is_not_guessed_at(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "runs/sweep/a/owner.json").write_text('{"version": 2, "record": {}}')
    with reading(tmp_path) as ledger, pytest.raises(HostError, match="written by a newer migctl"):
        ledger.records("sweep")


def misplaced(owner: Path) -> None:
    owner.write_text(owner.read_text().replace('"job":"a"', '"job":"z"'))


def huge(owner: Path) -> None:
    owner.write_bytes(b" " * (5 * 1024 * 1024))


OWNER_DAMAGE = [
    (lambda owner: owner.write_bytes(b""), "Expecting value"),
    (lambda owner: owner.write_bytes(b"\xff\xfe\xff"), "decode"),
    (lambda owner: owner.write_bytes(owner.read_bytes()[:50]), "Unterminated"),
    (misplaced, "it speaks of another run or job"),
    (huge, "more than any file of migctl's"),
]


@pytest.mark.parametrize(("damage", "why"), OWNER_DAMAGE, ids=[why for _, why in OWNER_DAMAGE])
def test_a_damaged_owner_file_is_named_and_the_index_answers(
    tmp_path: Path, damage: Callable[[Path], object], why: str
) -> None:
    running, queued = filled(tmp_path)
    owner = tmp_path / "runs/sweep/a/owner.json"
    damage(owner)
    with reading(tmp_path) as ledger:
        assert ledger.records("sweep") == (running, queued)
        (notice,) = ledger.notices
    assert notice.id == "owner-file-broken"
    assert str(owner) in notice.message
    assert why in notice.message
    with writing(tmp_path) as ledger:
        ledger.save([later(running)], durable=False)
        ledger.records("sweep")
        assert ledger.notices == ()
    assert json.loads(owner.read_text())["record"]["revision"] == 2


def test_strange_files_among_the_runs_disturb_nothing(tmp_path: Path) -> None:
    values = filled(tmp_path)
    (tmp_path / "runs/notes.txt").write_text("mine")
    (tmp_path / "runs/sweep/todo").write_text("mine")
    (tmp_path / "runs/empty").mkdir()
    with writing(tmp_path) as ledger:
        assert ledger.records("sweep") == values
        assert [r.name for r in ledger.runs()] == ["sweep"]
        assert ledger.notices == ()


LINKS = [
    "store.db",
    "store.db-wal",
    "runs",
    "runs/sweep",
    "runs/sweep/a",
    "runs/sweep/a/owner.json",
    "runs/sweep/@run.json",
]


@pytest.mark.parametrize("place", LINKS)
@pytest.mark.parametrize("write", [False, True])
def test_no_link_is_followed(tmp_path: Path, place: str, write: bool) -> None:
    state, outside = tmp_path / "s", tmp_path / "outside"
    filled(state)
    link = state / place
    if link.exists():
        link.rename(outside)
    link.symlink_to(outside)
    before = outside.read_bytes() if outside.is_file() else b""

    def use() -> None:
        with Ledger.open(state, write=write, now=lambda: 0.0) as ledger:
            ledger.runs()
            ledger.records("sweep")
            if write:
                ledger.save([later(record("a"))], durable=False)

    with pytest.raises(HostError) as caught:
        use()
    assert caught.value.id == "store-link"
    assert (outside.read_bytes() if outside.is_file() else b"") == before


def test_the_state_directory_itself_may_not_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "s").symlink_to(tmp_path / "real")
    for write in (False, True):
        with pytest.raises(HostError, match="follows no links"):
            Ledger.open(tmp_path / "s", write=write, now=lambda: 0.0)


def test_a_directory_that_everybody_may_write_into_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(HostError, match="everybody may write"):
        writing(tmp_path)


@needs_root
def test_files_made_by_root_in_a_users_directory_become_the_users(tmp_path: Path) -> None:
    state = tmp_path / "s"
    state.mkdir(0o700)
    os.chown(state, SOMEBODY, SOMEBODY)
    filled(state)
    with writing(state) as ledger:
        ledger.key()
        ledger.save_run(run())
        owners = {path.name: path.stat().st_uid for path in state.rglob("*")}

    assert "store.db-wal" in owners
    assert set(owners.values()) == {SOMEBODY}


@needs_root
def test_another_users_directory_and_files_are_refused() -> None:
    with open_folder() as folder:
        state = folder / "s"
        state.mkdir(0o755)
        filled(state)
        told = as_user(SOMEBODY, lambda: str(reading(state)))
        assert "belongs to uid 0, not to uid" in str(told)

        os.chown(state, SOMEBODY, SOMEBODY)
        os.chown(state / "runs/sweep/a", 12345, 12345)
        with reading(state) as ledger, pytest.raises(HostError, match="belongs to uid 12345"):
            ledger.records("sweep")
