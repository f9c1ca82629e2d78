"""What the ledger keeps, where, and that reading leaves no trace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from migctl.core.gpu.mig import MemorySlices, Placement
from migctl.core.runs.record import Action, JobState, Ownership
from migctl.errors import Busy, PlanError
from migctl.store.ledger import Ledger
from tests.support.store_values import NOW, filled, later, reading, record, run, writing

OWNED = Ownership(gpu_uuid="GPU-1", gi_id=3, profile_id=19, placement=Placement(0, MemorySlices(1)), boot_id="boot")


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }


def test_what_was_saved_is_read_again(tmp_path: Path) -> None:
    value = replace(record("a"), instance=OWNED, intent=Action.START)
    with writing(tmp_path / "s") as ledger:
        ledger.save_run(run())
        ledger.save([value], durable=True)

    with reading(tmp_path / "s") as ledger:
        assert ledger.records("sweep") == (value,)
        assert ledger.run("sweep") == replace(run(), revision=1)
        assert ledger.notices == ()


def test_records_keep_the_order_in_which_they_were_first_written(tmp_path: Path) -> None:
    values = [record(job) for job in ("z", "a", "m")]
    with writing(tmp_path) as ledger:
        ledger.save(values, durable=False)
        ledger.save([later(values[0])], durable=False)

        assert [r.job for r in ledger.records("sweep")] == ["z", "a", "m"]


def test_a_running_job_has_its_owner_file_and_folder_and_a_queued_one_has_none(tmp_path: Path) -> None:
    filled(tmp_path)

    assert (tmp_path / "runs/sweep/a/owner.json").is_file()
    assert (tmp_path / "runs/sweep/a/1").is_dir()
    assert not (tmp_path / "runs/sweep/b").exists()


def test_everything_is_the_owners_alone(tmp_path: Path) -> None:
    with writing(tmp_path / "s") as ledger:
        ledger.save([record()], durable=True)
        ledger.key()
        modes = {p.name: p.stat().st_mode & 0o777 for p in [tmp_path / "s", *(tmp_path / "s").rglob("*")]}

    assert {mode & 0o077 for mode in modes.values()} == {0}


def test_reading_where_nothing_exists_finds_nothing_and_makes_nothing(tmp_path: Path) -> None:
    with reading(tmp_path / "s") as ledger:
        assert ledger.runs() == ()
        assert ledger.run("sweep") is None
        assert ledger.records("sweep") == ()
        assert ledger.history("sweep") == ()
        assert len(ledger.key()) == 32
        assert ledger.key() == ledger.key()
        assert ledger.notices == ()

    assert list(tmp_path.iterdir()) == []


def test_reading_a_closed_store_changes_nothing(tmp_path: Path) -> None:
    values = filled(tmp_path / "s")
    before = tree(tmp_path)
    with reading(tmp_path / "s") as ledger:
        assert ledger.records("sweep") == values
        ledger.key()

    assert tree(tmp_path) == before


def test_reading_beside_a_writer_sees_its_work_and_makes_nothing(tmp_path: Path) -> None:
    values = filled(tmp_path)
    with writing(tmp_path) as writer:
        writer.save([later(values[1])], durable=False)
        before = set(tree(tmp_path))
        with reading(tmp_path) as ledger:
            assert ledger.records("sweep") == (values[0], later(values[1]))

        assert set(tree(tmp_path)) == before


def test_a_log_left_without_its_index_is_read_and_left_alone(tmp_path: Path) -> None:
    values = filled(tmp_path / "s")
    with writing(tmp_path / "s") as writer:
        writer.save([later(values[1])], durable=False)
        shutil.copytree(tmp_path / "s", tmp_path / "copy")
    (tmp_path / "copy/store.db-shm").unlink()
    before = tree(tmp_path / "copy")
    with reading(tmp_path / "copy") as ledger:
        assert ledger.records("sweep")[1] == later(values[1])

    assert tree(tmp_path / "copy") == before


def test_a_ledger_opened_for_reading_refuses_to_write(tmp_path: Path) -> None:
    filled(tmp_path)
    with reading(tmp_path) as ledger, pytest.raises(RuntimeError, match="opened for reading"):
        ledger.save([record()], durable=False)


def test_the_higher_revision_wins_whichever_copy_has_it(tmp_path: Path) -> None:
    old, _ = filled(tmp_path)
    new = later(old, reason="newer")
    owner = tmp_path / "runs/sweep/a/owner.json"
    before = owner.read_bytes()
    with writing(tmp_path) as ledger:
        ledger.save([new], durable=False)
    fresh = owner.read_bytes()

    owner.write_bytes(before)
    with reading(tmp_path) as ledger:
        assert ledger.records("sweep")[0] == new
    owner.write_bytes(fresh.replace(b'"revision":2', b'"revision":3'))
    with reading(tmp_path) as ledger:
        assert ledger.records("sweep")[0].revision == 3


def test_an_older_revision_is_refused_and_nothing_of_its_batch_is_written(tmp_path: Path) -> None:
    value, _ = filled(tmp_path)
    with writing(tmp_path) as ledger:
        ledger.save([later(value)], durable=False)
        before = ledger.records("sweep")
        with pytest.raises(Busy, match="another migctl changed a meanwhile") as caught:
            ledger.save([record("fresh"), value], durable=False)

        assert caught.value.id == "record-changed"
        assert ledger.records("sweep") == before
    assert list((tmp_path / "runs/sweep").rglob("*.tmp-*")) == []


def test_a_dropped_job_is_history_and_dropping_again_is_fine(tmp_path: Path) -> None:
    value, queued = filled(tmp_path)
    with writing(tmp_path) as ledger:
        for _ in range(2):
            ledger.drop("sweep", "a")

        assert ledger.records("sweep") == (queued,)
        assert ledger.history("sweep") == (value,)
        assert ledger.last_attempt("sweep", "a") == 1
    assert not (tmp_path / "runs/sweep/a/owner.json").exists()
    assert (tmp_path / "runs/sweep/a/1/record.json").is_file()


def test_dropping_a_job_that_never_was_is_fine(tmp_path: Path) -> None:
    with writing(tmp_path) as ledger:
        ledger.drop("sweep", "a")

        assert ledger.last_attempt("sweep", "a") == 0


def test_the_next_attempt_leaves_the_last_one_in_the_history(tmp_path: Path) -> None:
    first, _ = filled(tmp_path)
    second = later(first, attempt=2, token="token-a2")
    with writing(tmp_path) as ledger:
        ledger.save([second], durable=False)

        assert ledger.records("sweep")[0] == second
        assert ledger.history("sweep") == (first,)
    (tmp_path / "store.db").unlink()
    with reading(tmp_path) as ledger:
        assert ledger.history("sweep") == (first,)


def test_an_ended_run_is_listed_only_on_request_and_a_new_one_takes_its_name(tmp_path: Path) -> None:
    filled(tmp_path)
    with writing(tmp_path) as ledger:
        ledger.end_run("sweep")
        ledger.end_run("never-was")

        assert ledger.runs() == ()
        assert ledger.run("sweep") is None
        assert [r.ended_at for r in ledger.runs(ended=True)] == [NOW]
        assert ledger.save_run(run()).revision == 3
        assert [r.name for r in ledger.runs()] == ["sweep"]


def test_a_forgotten_run_leaves_nothing(tmp_path: Path) -> None:
    filled(tmp_path)
    with writing(tmp_path) as ledger:
        ledger.forget_run("sweep")
        ledger.forget_run("sweep")

        assert ledger.runs(ended=True) == ()
        assert ledger.records("sweep") == ()
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_removal_that_was_cut_short_is_finished_later(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "runs/sweep").rename(tmp_path / "runs/@gone-1")
    with writing(tmp_path):
        assert list((tmp_path / "runs").iterdir()) == []


def test_the_key_is_made_once(tmp_path: Path) -> None:
    with writing(tmp_path) as ledger:
        key = ledger.key()
    with writing(tmp_path) as ledger:
        assert ledger.key() == key
    with reading(tmp_path) as ledger:
        assert ledger.key() == key
    assert len(key) == 32
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


BAD_NAMES = ["", ".", "..", "a/b", "../../etc", "a\0b", "a b", "ä", "@run.json", "a" * 129]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_no_name_leads_out_of_the_state_directory(tmp_path: Path, name: str) -> None:
    with writing(tmp_path) as ledger:
        for call in (
            lambda: ledger.folder(name, "a", 1),
            lambda: ledger.folder("sweep", name, 1),
            lambda: ledger.records(name),
            lambda: ledger.run(name),
            lambda: ledger.save([replace(record(), job=name)], durable=False),
            lambda: ledger.save_run(run(name)),
            lambda: ledger.drop("sweep", name),
            lambda: ledger.forget_run(name),
        ):
            with pytest.raises(PlanError, match="cannot be the name of a"):
                call()
        with pytest.raises(ValueError, match="count from 1"):
            ledger.folder("sweep", "a", 0)


def test_a_job_may_be_called_like_a_file_of_ours(tmp_path: Path) -> None:
    values = [record(name) for name in ("run.json", "owner.json", "store.db", "1", "...")]
    with writing(tmp_path) as ledger:
        ledger.save_run(run())
        ledger.save(values, durable=False)
    (tmp_path / "store.db").unlink()
    with reading(tmp_path) as ledger:
        assert set(ledger.records("sweep")) == set(values)
        assert ledger.run("sweep") is not None


def test_ten_thousand_queued_jobs_are_read_back(tmp_path: Path) -> None:
    values = [record(f"job-{number}", state=JobState.QUEUED) for number in range(10_000)]
    with writing(tmp_path) as ledger:
        ledger.save(values, durable=True)
    with reading(tmp_path) as ledger:
        assert len(ledger.records("sweep")) == 10_000


def test_the_store_is_cheap_to_import() -> None:
    code = "import sys, migctl.store.ledger; print([m for m in ('sqlite3', 'pydantic', 'docker', 'tempfile') if m in sys.modules])"
    # Coverage of subprocesses loads sqlite3 itself.
    plain = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=plain)

    assert out.stdout.strip() == "[]"


def test_intents_are_kept_with_their_begin_and_end(tmp_path: Path) -> None:
    clock = iter(float(second) for second in range(100))
    value = replace(record(), intent=Action.CREATE_GPU_INSTANCE)
    with Ledger.open(tmp_path, write=True, now=lambda: next(clock)) as ledger:
        ledger.save([value], durable=False)
        ledger.save([later(value, intent=Action.START)], durable=False)
        ledger.save([later(later(value), intent=None)], durable=False)
    import sqlite3

    with sqlite3.connect(tmp_path / "store.db") as connection:
        rows = connection.execute("SELECT action, done_at > begun_at FROM intents ORDER BY rowid").fetchall()
    connection.close()
    assert rows == [("create-gpu-instance", 1), ("start", 1)]
