"""The SQLite file: index of runs and jobs, and history; opened for writing, or as a snapshot that leaves the file alone."""

from __future__ import annotations

import os
import sqlite3
import stat
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from migctl.errors import HostError
from migctl.store.failure import Broken, broken, database_failure, file_failure, too_new
from migctl.store.folders import Folders
from migctl.store.schema import APPLICATION_ID, MIGRATIONS, TABLES, VERSION

NAME = "store.db"
WRITE_WAIT_S = 10.0
"""How long a writer waits for another one; a transaction takes milliseconds."""
READ_WAIT_S = 2.0
_SIDE_FILES = ("-wal", "-shm", "-journal")
_SNAPSHOT_TRIES = 5


class Database:
    """A connection. Statements are the ledger's business; failures are told in migctl's words here."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.connection = connection
        self.path = path
        self._close = weakref.finalize(self, connection.close)

    def close(self) -> None:
        """Close the connection; harmless when done twice."""
        self._close()

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[object, ...]]:
        """All rows of a query.

        Raises:
            Broken: the file is damaged.
            Busy, HostError: it cannot be read now.
        """
        with self._told():
            return self.connection.execute(statement, values).fetchall()

    @contextmanager
    def transaction(self, *, durable: bool = False, size_bytes: int = 0) -> Iterator[sqlite3.Connection]:
        """One transaction; nothing of it stays when anything in it fails.

        Args:
            durable: flush it to the disk before returning.
            size_bytes: about how much is written, for the message when the disk is full.
        """
        with self._told(size_bytes):
            # WAL with NORMAL survives the death of the process but may lose the last transactions in a power loss; FULL does not.
            self.connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _told(self, size_bytes: int = 0) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if broken(error):
                raise Broken(str(error)) from error
            raise database_failure(error, self.path, size_bytes) from error


def open_writing(folders: Folders) -> Database:
    """Open the file, making or migrating it where needed.

    Raises:
        Broken: damaged, or not ours: to be set aside.
        HostError: written by a newer migctl, a link, somebody else's, or not writable.
        Busy: no room, or held by another process.
    """
    path = folders.path(NAME)
    with folders.opened() as root:
        _check_files(folders, root)
        try:
            descriptor = os.open(NAME, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=root)
        except OSError as error:
            raise file_failure(error, path) from error
        # SQLite gives its side files the mode and, as root, the owner of this file.
        folders.give(descriptor)
        os.close(descriptor)
    with _opening(path):
        database = Database(_connect(path, "rw", WRITE_WAIT_S), path)
    try:
        with database._told():
            _migrate(database.connection, path)
    except BaseException:
        database.close()  # what is set aside next must not be held open
        raise
    return database


def open_reading(folders: Folders) -> Database | None:
    """A consistent view of the file that neither makes nor changes anything on the disk; `None` where there is no file.

    Raises:
        Broken: damaged, held, not readable or an older version: the owner files have to do.
        HostError: written by a newer migctl, a link, or somebody else's.
    """
    path = folders.path(NAME)
    with folders.opened() as root:
        if not _check_files(folders, root):
            return None
    try:
        connection = _snapshot(path)
    except (sqlite3.Error, OSError) as error:
        raise Broken(str(error)) from error
    database = Database(connection, path)
    try:
        version = _version(connection, path)
        if version == 0:
            database.close()
            return None
        if version < VERSION:
            raise Broken(
                f"it has version {version}, {VERSION} is current; the next command that writes brings it up to date"
            )
        _check_tables(connection)
    except sqlite3.Error as error:
        database.close()
        raise Broken(str(error)) from error
    except Broken:
        database.close()
        raise
    return database


def set_aside(folders: Folders, stamp: str) -> Path:
    """Rename the file and its side files; returns the new path."""
    aside = f"{NAME}.broken-{stamp}"
    with folders.opened() as root:
        try:
            os.rename(NAME, aside, src_dir_fd=root, dst_dir_fd=root)
            for side in _SIDE_FILES:
                try:
                    os.rename(NAME + side, aside + side, src_dir_fd=root, dst_dir_fd=root)
                except FileNotFoundError:
                    pass
        except OSError as error:
            raise file_failure(error, folders.path(NAME)) from error
    return folders.path(aside)


def _check_files(folders: Folders, root: int) -> bool:
    """Whether the file is there; SQLite itself would follow a link to anywhere."""
    there = False
    for name in (NAME, *(NAME + side for side in _SIDE_FILES)):
        try:
            found = os.stat(name, dir_fd=root, follow_symlinks=False)
        except FileNotFoundError:
            continue
        path = folders.path(name)
        if stat.S_ISLNK(found.st_mode):
            raise HostError(
                "store-link",
                f"{path} is a link; migctl follows none here",
                where=str(path),
                hint=f"ls -l {path}",
            )
        if found.st_uid not in folders.trusted:
            raise HostError(
                "store-not-yours",
                f"{path} belongs to uid {found.st_uid}",
                where=str(path),
                hint=f"ls -l {path}",
            )
        if not stat.S_ISREG(found.st_mode):
            raise Broken(f"{path} is not an ordinary file")
        there = there or name == NAME
    return there


def _connect(path: Path, mode: str, wait_s: float) -> sqlite3.Connection:
    uri = f"file:{quote(str(path))}?{mode if '=' in mode else 'mode=' + mode}"
    # Threads share the connection under the ledger's lock.
    return sqlite3.connect(uri, uri=True, timeout=wait_s, isolation_level=None, check_same_thread=False)


@contextmanager
def _opening(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if broken(error):
            raise Broken(str(error)) from error
        raise database_failure(error, path) from error


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        _version(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
    if _version(connection, path) < VERSION:
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have done it while this one waited for the lock.
            for number in range(_version(connection, path), VERSION):
                for statement in MIGRATIONS[number].split(";"):
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    _check_tables(connection)


def _version(connection: sqlite3.Connection, path: Path) -> int:
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    if application != APPLICATION_ID and (tables or version or application):
        raise Broken("it is the database of another program")
    if version > VERSION:
        raise too_new(path, f"has version {version}, this one knows {VERSION}")
    return version


def _check_tables(connection: sqlite3.Connection) -> None:
    names = {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not names >= TABLES:
        raise Broken(f"the tables {', '.join(sorted(TABLES - names))} are missing")


def _snapshot(path: Path) -> sqlite3.Connection:
    """A connection from which reading is safe and touches nothing.

    Even a read-only connection makes `-wal` and `-shm` where they are missing (sqlite.org/wal.html#readonly), and
    as the reader's own. So only a store in use is opened in place; a closed one is copied to memory, once more
    should a writer have come meanwhile.
    """
    wal, shm = Path(f"{path}-wal"), Path(f"{path}-shm")
    for _ in range(_SNAPSHOT_TRIES):
        if wal.exists() and shm.exists():
            return _connect(path, "ro", READ_WAIT_S)
        before = _looks(path), wal.exists()
        if wal.exists():
            copy = _copied(path, wal)
        else:
            with closing(_connect(path, "immutable=1", READ_WAIT_S)) as source:
                copy = _in_memory(source)
        if (_looks(path), wal.exists()) == before:
            return copy
        copy.close()
    raise sqlite3.OperationalError("it changes all the time")


def _copied(path: Path, wal: Path) -> sqlite3.Connection:
    """A log without its index (the folder was copied): read a private copy, since reading in place would make the index."""
    with tempfile.TemporaryDirectory(prefix="migctl-") as folder:
        private = Path(folder) / NAME
        private.write_bytes(path.read_bytes())
        Path(f"{private}-wal").write_bytes(wal.read_bytes())
        with closing(_connect(private, "rw", READ_WAIT_S)) as source:
            return _in_memory(source)


def _in_memory(source: sqlite3.Connection) -> sqlite3.Connection:
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    try:
        source.backup(copy)
    except BaseException:
        copy.close()
        raise
    return copy


def _looks(path: Path) -> tuple[int, int, int]:
    there = path.stat()
    return there.st_ino, there.st_size, there.st_mtime_ns
