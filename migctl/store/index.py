"""The index with its upkeep: opened, set aside when damaged, and rebuilt from the owner files."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from migctl.core.runs.record import Record
from migctl.core.runs.run import Run
from migctl.errors import MigctlError, Notice
from migctl.store import statements
from migctl.store.failure import Broken, file_failure, is_unwritable
from migctl.store.folders import Folders
from migctl.store.owner_files import OwnerFiles

if TYPE_CHECKING:
    import sqlite3

    from migctl.store.database import Database

T = TypeVar("T")


class Index:
    """The database while it can be used; what had to be done without it is told in `notices`.

    Args:
        removing: a disk that takes nothing more is no reason not to open it: it can be read, and a change tries again.
    """

    def __init__(
        self, folders: Folders, files: OwnerFiles, now: Callable[[], float], *, write: bool, removing: bool = False
    ) -> None:
        # sqlite3 takes longer to import than most commands without a store take to run.
        from migctl.store import database

        self._module = database
        self._folders = folders
        self._files = files
        self._now = now
        self._write = write
        self._removing = removing
        self._unwritable = False
        self._database: Database | None = None
        self.notices: list[Notice] = []
        self._open()

    @property
    def usable(self) -> bool:
        """Whether there is a database to ask."""
        return self._database is not None

    def close(self) -> None:
        """Close it; harmless when done twice."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def ask(self, question: Callable[[Database], T], nothing: T) -> T:
        """The answer, or `nothing` where there is no usable database."""
        try:
            return question(self._database) if self._database is not None else nothing
        except Broken as error:
            if not self._write:
                self._do_without(error)
                return nothing
            return question(self._set_aside(error))

    def change(self, work: Callable[[sqlite3.Connection], None], *, durable: bool = False, size_bytes: int = 0) -> None:
        """Run the work in one transaction; a damaged database is set aside and the work done in the rebuilt one.

        Raises:
            Busy, HostError: nothing of the work was done.
        """
        assert self._write
        if self._unwritable:
            self.close()
            self._database = self._module.open_writing(self._folders)
            self._unwritable = False
        try:
            self._run(work, self._writing, durable=durable, size_bytes=size_bytes)
        except Broken as error:
            self._run(work, self._set_aside(error), durable=durable, size_bytes=size_bytes)

    @property
    def _writing(self) -> Database:
        assert self._database is not None, "closed"
        return self._database

    @staticmethod
    def _run(work: Callable[[sqlite3.Connection], None], database: Database, *, durable: bool, size_bytes: int) -> None:
        with database.transaction(durable=durable, size_bytes=size_bytes) as connection:
            work(connection)

    def _open(self) -> None:
        try:
            if not self._write:
                self._database = self._module.open_reading(self._folders)
                return
            self._files.sweep()
            self._database = self._module.open_writing(self._folders)
            if not self._database.rows("SELECT 1 FROM runs LIMIT 1"):
                self._rebuild(self._database)
        except MigctlError as error:
            if not self._removing or not is_unwritable(error):
                raise
            self.close()
            self._unwritable = True
            try:
                self._database = self._module.open_reading(self._folders)
            except Broken:
                pass  # the owner files have to do
        except Broken as error:
            if self._write:
                self._set_aside(error)
            else:
                self._do_without(error)

    def _set_aside(self, why: Broken) -> Database:
        self.close()
        stamp = datetime.fromtimestamp(self._now(), UTC).strftime("%Y%m%dT%H%M%SZ") + f"-{os.urandom(2).hex()}"
        path = self._folders.path(self._module.NAME)
        aside = self._module.set_aside(self._folders, stamp)
        self.notices.append(
            Notice(
                "store-set-aside",
                f"the index {path} was damaged ({why}); it is kept as {aside.name} and was rebuilt from the jobs' owner files. "
                "Only the times of steps and the notes of what happened were in there alone",
                hint="nothing is to be done: jobs, queues, logs and measured values have files of their own",
                where=str(aside),
            )
        )
        try:
            database = self._module.open_writing(self._folders)
            self._rebuild(database)
        except Broken as error:
            fault = OSError(errno.EIO, f"a new index is damaged at once: {error}")
            raise file_failure(fault, path) from error
        self._database = database
        return database

    def _rebuild(self, database: Database) -> None:
        """Fill an empty index from the owner files."""
        files, now = self._files, self._now()
        names = files.run_names()
        if not names:
            return
        with database.transaction() as connection:
            for name in names:
                records = files.records(name)
                statements.put_past(connection, files.history(name))
                statements.put_records(connection, records, now)
                run = files.run(name) or presumed(name, records, self._folders.uid)
                if run is not None:
                    statements.put_run(connection, run)

    def _do_without(self, why: Broken) -> None:
        self.close()
        path = self._folders.path(self._module.NAME)
        self.notices.append(
            Notice(
                "store-unreadable",
                f"the index {path} cannot be read ({why}): shown is what the owner files say, without the history",
                hint="the next command that writes (up, down) repairs it",
                where=str(path),
            )
        )


def presumed(name: str, records: Sequence[Record], uid: int) -> Run | None:
    """A run whose own file is lost, from its jobs: `down` must still find it."""
    if not records:
        return None
    first = records[0]
    return Run(
        name=name,
        plan_path="",
        owner_uid=uid,
        strategy=first.strategy,
        runtime=first.runtime,
        boot_id=first.boot_id,
        created_at=min((r.created_at for r in records if r.created_at is not None), default=None),
    )
