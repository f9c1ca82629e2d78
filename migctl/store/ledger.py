"""What the engine remembers with: runs, records and history over owner files and index, whichever of them knows more."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from migctl.core.runs.record import JobState, Record
from migctl.core.runs.run import Run
from migctl.errors import MigctlError, Notice
from migctl.store import statements
from migctl.store.failure import is_unwritable
from migctl.store.folders import Folders, checked_name
from migctl.store.index import Index, presumed
from migctl.store.owner_files import RUNS, OwnerFiles
from migctl.store.secret import LENGTH_BYTES, make_key, read_key
from migctl.store.submissions import Submissions

if TYPE_CHECKING:
    from migctl.store.database import Database

T = TypeVar("T")

SOURCE = "@source"
"""A name that no job can have, since it stands among the jobs' folders."""


class Ledger:
    """The records in one state directory.

    Opened for reading it makes and changes nothing, and works where nothing exists. Several threads may use one ledger.
    Methods raise HostError (a link, not ours, written by a newer migctl) and, when writing, Busy (`disk-full`, `store-locked`).
    """

    def __init__(
        self, state: Path, now: Callable[[], float], folders: Folders | None, *, write: bool, removing: bool = False
    ) -> None:
        self.state = state
        self._now = now
        self._write = write
        self._lock = threading.RLock()
        self._key: bytes | None = None
        self._folders = folders
        self._files = OwnerFiles(folders) if folders is not None else None
        self.submissions = Submissions(folders, self._files, write=write)
        """Plans and queues of runs whose jobs do not all start at once."""
        self._index = (
            Index(folders, self._files, now, write=write, removing=removing)
            if folders is not None and self._files is not None
            else None
        )

    @classmethod
    def open(cls, state: Path, *, write: bool, now: Callable[[], float], removing: bool = False) -> Ledger:
        """Open the store in the state directory.

        Args:
            state: the state directory; made (0700) when writing.
            write: only a writing opening repairs and rebuilds the index.
            removing: for what ends jobs and removes instances: that must go on where the disk takes nothing more.
            now: the clock, Unix seconds.
        """
        try:
            folders = Folders.make(state) if write else Folders(state)
        except FileNotFoundError:
            return cls(state, now, None, write=False)
        try:
            return cls(state, now, folders, write=write, removing=removing)
        except BaseException:
            folders.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close files; harmless when done twice."""
        if self._index is not None:
            self._index.close()
        if self._folders is not None:
            self._folders.close()

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What had to be repaired or could not be read, as far as was looked."""
        return (
            *(self._index.notices if self._index is not None else ()),
            *(self._files.notices.values() if self._files is not None else ()),
        )

    # Reading

    def runs(self, *, ended: bool = False) -> tuple[Run, ...]:
        """The living runs; with `ended` also those that `down` has undone, whose logs and history are kept."""
        with self._lock:
            known = {run.name: run for run in self._asked(statements.runs, list[Run]())}
            for name in self._files.run_names() if self._files is not None else ():
                found = self._newer(known.get(name), name)
                if found is not None:
                    known[name] = found
            return tuple(run for run in known.values() if ended or run.ended_at is None)

    def run(self, name: str, *, ended: bool = False) -> Run | None:
        """The living run of this name; with `ended` also an ended one."""
        checked_name(name, "run")
        with self._lock:
            run = self._newer(self._asked(lambda db: statements.run(db, name), None), name)
            return run if run is not None and (ended or run.ended_at is None) else None

    def records(self, run: str) -> tuple[Record, ...]:
        """The present record of each job, in the order they were first written; of two copies the higher revision."""
        checked_name(run, "run")
        with self._lock:
            known = {
                record.job: record for record in self._asked(lambda db: statements.records(db, run), list[Record]())
            }
            written = self._files.records(run) if self._files is not None else []
            for record in written:
                indexed = known.get(record.job)
                if indexed is None or record.revision >= indexed.revision:
                    known[record.job] = record
            for job in known.keys() - {record.job for record in written}:
                if self._over(known[job]):
                    del known[job]
            return tuple(known.values())

    def record(self, run: str, job: str) -> Record | None:
        """The present record of one job that has begun."""
        checked_name(job, "job")
        with self._lock:
            return self._files.record(checked_name(run, "run"), job) if self._files is not None else None

    def _over(self, record: Record) -> bool:
        """Whether its owner file says that nothing of it is left: the index was not told on a full disk, and is told now."""
        past = self._files.past(record.run, record.job, record.attempt) if self._files is not None else None
        if past is None or past.token != record.token:
            return False
        if self._write and self._index is not None:
            now = self._now()
            try:
                self._index.change(lambda connection: statements.drop_record(connection, past.run, past.job, past, now))
            except MigctlError as error:
                if not is_unwritable(error):
                    raise
        return True

    def history(self, run: str) -> tuple[Record, ...]:
        """The last records of attempts that are over, oldest first."""
        checked_name(run, "run")
        with self._lock:
            if self._files is not None and (self._index is None or not self._index.usable):
                return tuple(self._files.history(run))
            return tuple(self._asked(lambda db: statements.history(db, run), []))

    def last_attempt(self, run: str, job: str) -> int:
        """Number of the job's latest attempt, past ones included; 0 = it never had one."""
        with self._lock:
            checked_name(job, "job")
            folders = self._files.attempts(run, job) if self._files is not None else []
            return max([self._asked(lambda db: statements.last_attempt(db, run, job), 0), *folders])

    def folder(self, run: str, job: str, attempt: int) -> Path:
        """The attempt's folder; made when the attempt's record is first written in any state but queued.

        Raises:
            PlanError: the names would lead out of the state directory.
        """
        if attempt < 1:
            raise ValueError(f"attempts count from 1, not {attempt}")
        return self.state / RUNS / checked_name(run, "run") / checked_name(job, "job") / str(attempt)

    def source_place(self, run: str) -> Path:
        """The folder for copies of the run's source, made where it is not there; it goes with the run.

        Raises:
            HostError: it cannot be made.
        """
        if self._folders is None or not self._write:
            raise RuntimeError("this ledger was opened for reading")
        names = (RUNS, checked_name(run, "run"), SOURCE)
        with self._lock, self._folders.opened(*names, make=True):
            return self._folders.path(*names)

    def key(self) -> bytes:
        """The store's secret for keyed digests. Where there is none yet, reading gives one that is nobody's."""
        with self._lock:
            if self._key is None and self._folders is not None:
                self._key = read_key(self._folders) or (make_key(self._folders) if self._write else None)
            if self._key is None:
                self._key = os.urandom(LENGTH_BYTES)
            return self._key

    # Writing

    def save(self, records: Sequence[Record], *, durable: bool) -> None:
        """Write records, all or none.

        Args:
            records: each replaces the job's present record; queued ones without anything of their own are only in the index.
            durable: survive a power loss; without it only the death of the process.

        Raises:
            Busy: `disk-full`, `store-locked`, or `record-changed` by somebody else; nothing was written.
        """
        if not records:
            return
        files, index = self._writing
        with self._lock:
            for record in records:
                self.folder(record.run, record.job, record.attempt)
            having = {run: set(files.job_names(run)) for run in {r.run for r in records}}
            owned = [r for r in records if _needs_file(r) or r.job in having[r.run]]
            drafts = [files.draft(record) for record in owned]
            now = self._now()
            with files.staged(drafts, durable=durable):
                index.change(
                    lambda connection: statements.put_records(connection, records, now),
                    # Where each record has its file the index need not reach the disk: it would be rebuilt.
                    durable=durable and len(owned) < len(records),
                    size_bytes=sum(len(draft.data) for draft in drafts),
                )

    def save_run(self, run: Run) -> Run:
        """Write the run durably, as its next revision, which is returned."""
        return self._save_run(run, ending=False)

    def _save_run(self, run: Run, *, ending: bool) -> Run:
        files, index = self._writing
        with self._lock:
            old = self.run(run.name, ended=True)
            fresh = replace(run, revision=max(run.revision, old.revision if old is not None else 0) + 1)
            draft = files.draft_run(fresh)
            with files.staged([draft], durable=True):
                try:
                    index.change(lambda connection: statements.put_run(connection, fresh), size_bytes=len(draft.data))
                except MigctlError as error:
                    if not ending or not is_unwritable(error):
                        raise  # the file alone is enough to know that it has ended
            return fresh

    def end_run(self, name: str) -> None:
        """Nothing of the run is left on the machine: it is listed no more, until `rm` forgets it. Unknown is fine."""
        with self._lock:
            run = self.run(name)
            if run is not None:
                self._save_run(replace(run, ended_at=self._now()), ending=True)

    def drop(self, run: str, job: str) -> None:
        """Nothing of the job is left: its record becomes history. Gone already is fine."""
        files, index = self._writing
        with self._lock:
            # The file first: after a crash in between the index still has the record, and the next `down` comes here again.
            owner = files.record(checked_name(run, "run"), checked_name(job, "job"))
            if owner is not None:
                files.retire(run, job, owner.attempt)
            now = self._now()
            try:
                index.change(lambda connection: statements.drop_record(connection, run, job, owner, now))
            except MigctlError as error:
                if owner is None or not is_unwritable(error):
                    raise  # with its owner file in the history it counts as over whatever the index says

    def forget_run(self, name: str) -> None:
        """Remove everything about the run, its logs too. Unknown is fine."""
        files, index = self._writing
        with self._lock:
            files.forget(checked_name(name, "run"))
            index.change(lambda connection: statements.drop_run(connection, name))

    def _asked(self, question: Callable[[Database], T], nothing: T) -> T:
        return self._index.ask(question, nothing) if self._index is not None else nothing

    def _newer(self, indexed: Run | None, name: str) -> Run | None:
        """The copy with the higher revision; where both are lost, what the jobs' records tell."""
        if self._files is None or self._folders is None:
            return indexed
        written = self._files.run(name)
        if written is not None and (indexed is None or written.revision >= indexed.revision):
            return written
        return indexed if indexed is not None else presumed(name, self._files.records(name), self._folders.uid)

    @property
    def _writing(self) -> tuple[OwnerFiles, Index]:
        if not self._write or self._files is None or self._index is None:
            raise RuntimeError("this ledger was opened for reading")
        return self._files, self._index


def _needs_file(record: Record) -> bool:
    """Whether anything outside the store can exist for the record."""
    waiting = record.state is JobState.QUEUED and record.intent is None
    return not waiting or record.instance is not None or record.container_id is not None
