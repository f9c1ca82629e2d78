"""The SQL: each function is one question to the index or one change of it, and none knows of owner files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from migctl.core.runs.record import Record
from migctl.core.runs.run import Run
from migctl.errors import Busy
from migctl.store.codec import TooNew, decode_records, decode_run, encode_record, encode_run
from migctl.store.failure import Broken, too_new
from migctl.store.schema import BY_RUN

if TYPE_CHECKING:
    import sqlite3

    from migctl.store.database import Database


def runs(database: Database) -> list[Run]:
    """All runs, the ended ones too, in the order they were made."""
    return [_run(database, body) for (body,) in database.rows("SELECT body FROM runs ORDER BY rowid")]


def run(database: Database, name: str) -> Run | None:
    """One run."""
    found = database.rows("SELECT body FROM runs WHERE name = ?", (name,))
    return _run(database, found[0][0]) if found else None


def records(database: Database, name: str) -> list[Record]:
    """Present records of a run, in the order they were first written."""
    return _records(database, database.rows("SELECT body FROM jobs WHERE run = ? ORDER BY rowid", (name,)))


def history(database: Database, name: str) -> list[Record]:
    """Attempts of a run that are over, oldest first."""
    return _records(database, database.rows("SELECT body FROM attempts WHERE run = ? ORDER BY rowid", (name,)))


def last_attempt(database: Database, name: str, job: str) -> int:
    """The highest number of an attempt of the job, 0 where there is none."""
    found = database.rows(
        "SELECT max(attempt) FROM (SELECT attempt FROM jobs WHERE run = ?1 AND job = ?2 "
        "UNION ALL SELECT attempt FROM attempts WHERE run = ?1 AND job = ?2)",
        (name, job),
    )
    return int(str(found[0][0] or 0))


def put_run(connection: sqlite3.Connection, value: Run) -> None:
    """Insert or replace a run."""
    connection.execute(
        "INSERT INTO runs (name, revision, ended_at, body) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
        "revision = excluded.revision, ended_at = excluded.ended_at, body = excluded.body",
        (value.name, value.revision, value.ended_at, encode_run(value)),
    )


def put_records(connection: sqlite3.Connection, values: Sequence[Record], now: float) -> None:
    """Insert or replace records; an attempt that is replaced by another one becomes history.

    Raises:
        Busy: the index has a later revision: somebody else changed the job meanwhile.
    """
    connection.executemany(
        "INSERT OR REPLACE INTO attempts (run, job, attempt, token, state, body) "
        "SELECT run, job, attempt, token, state, body FROM jobs WHERE run = ? AND job = ? AND token <> ?",
        [(r.run, r.job, r.token) for r in values],
    )
    done = connection.executemany(
        "INSERT INTO jobs (run, job, attempt, revision, token, state, body) VALUES (?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (run, job) DO UPDATE SET attempt = excluded.attempt, revision = excluded.revision, token = excluded.token, "
        "state = excluded.state, body = excluded.body WHERE excluded.revision >= jobs.revision",
        [(r.run, r.job, r.attempt, r.revision, r.token, r.state.value, encode_record(r)) for r in values],
    )
    if done.rowcount != len(values):
        raise _changed_meanwhile(connection, values)
    connection.executemany(
        "UPDATE intents SET done_at = ? WHERE run = ? AND job = ? AND done_at IS NULL AND action <> ?",
        [(now, r.run, r.job, r.intent.value if r.intent else "") for r in values],
    )
    connection.executemany(
        "INSERT INTO intents (run, job, attempt, action, begun_at) SELECT ?, ?, ?, ?, ? WHERE NOT EXISTS "
        "(SELECT 1 FROM intents WHERE run = ? AND job = ? AND done_at IS NULL)",
        [(r.run, r.job, r.attempt, r.intent.value, now, r.run, r.job) for r in values if r.intent is not None],
    )


def put_past(connection: sqlite3.Connection, values: Iterable[Record]) -> None:
    """Add attempts that are over."""
    connection.executemany(
        "INSERT OR REPLACE INTO attempts (run, job, attempt, token, state, body) VALUES (?, ?, ?, ?, ?, ?)",
        [(r.run, r.job, r.attempt, r.token, r.state.value, encode_record(r)) for r in values],
    )


def drop_record(connection: sqlite3.Connection, name: str, job: str, last: Record | None, now: float) -> None:
    """The job's record is over; gone already is fine. `last` is the owner file's copy, which may know more."""
    connection.execute(
        "INSERT OR REPLACE INTO attempts (run, job, attempt, token, state, body) "
        "SELECT run, job, attempt, token, state, body FROM jobs WHERE run = ? AND job = ? AND revision > ?",
        (name, job, last.revision if last is not None else -1),
    )
    newer = connection.execute("SELECT changes()").fetchone()[0]
    if last is not None and not newer:
        put_past(connection, [last])
    connection.execute("DELETE FROM jobs WHERE run = ? AND job = ?", (name, job))
    connection.execute("UPDATE intents SET done_at = ? WHERE run = ? AND job = ? AND done_at IS NULL", (now, name, job))


def drop_run(connection: sqlite3.Connection, name: str) -> None:
    """Remove everything about a run."""
    connection.execute("DELETE FROM runs WHERE name = ?", (name,))
    for table in BY_RUN:
        connection.execute(f"DELETE FROM {table} WHERE run = ?", (name,))


def _run(database: Database, body: object) -> Run:
    try:
        return decode_run(str(body))
    except TooNew as error:
        raise too_new(database.path, str(error)) from error
    except ValueError as error:
        raise Broken(f"a run in it is not readable: {error}") from error


def _records(database: Database, found: list[tuple[object, ...]]) -> list[Record]:
    try:
        return decode_records(str(row[0]) for row in found)
    except TooNew as error:
        raise too_new(database.path, str(error)) from error
    except ValueError as error:
        raise Broken(f"a record in it is not readable: {error}") from error


def _changed_meanwhile(connection: sqlite3.Connection, values: Sequence[Record]) -> Busy:
    for value in values:
        row = connection.execute(
            "SELECT revision FROM jobs WHERE run = ? AND job = ?", (value.run, value.job)
        ).fetchone()
        if row is not None and row[0] > value.revision:
            return Busy(
                "record-changed",
                f"another migctl changed {value.job} meanwhile (revision {row[0]}, this command has {value.revision})",
                where=f"job {value.job}",
                hint=f"migctl status {value.run}",
            )
    return Busy("record-changed", "another migctl changed the run meanwhile", hint="migctl status")
