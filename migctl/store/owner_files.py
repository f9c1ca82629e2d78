"""One file a job (`owner.json`) and one a run: written whole or not at all, and the truth when the index is lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from migctl.core.runs.record import Record
from migctl.core.runs.run import Run
from migctl.errors import Notice
from migctl.store.codec import TooNew, decode_record, decode_run, encode_record, encode_run
from migctl.store.failure import file_failure, too_new
from migctl.store.folders import Folders, checked_name, write_all

RUNS = "runs"
OWNER = "owner.json"
RUN_FILE = "@run.json"
"""A name that no job can have, since it stands among the jobs' folders."""
HISTORY = "record.json"
"""The owner file of an attempt that is over, in the attempt's folder."""
_MOST_OPEN = 64

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Draft:
    """A file about to be written."""

    folder: tuple[str, ...]
    name: str
    data: bytes
    keep_as: tuple[str, ...] = ()
    """Folder in which the file it replaces is kept as history."""
    token: str = ""
    """The attempt's, for an owner file."""


class OwnerFiles:
    """The owner files below one state directory. What could not be read is told in `notices`."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._tokens: dict[tuple[str, ...], str] = {}
        """By folder, the attempt whose file and folder this object has written: neither needs another look."""
        self.notices: dict[Path, Notice] = {}

    def run_names(self) -> list[str]:
        """Runs that have a folder."""
        return self._listed(RUNS)

    def run(self, name: str) -> Run | None:
        """The run as its file says."""
        return self._read((RUNS, name), RUN_FILE, decode_run, lambda run: run.name == name)

    def job_names(self, run: str) -> list[str]:
        """Jobs of the run that have a folder."""
        return self._listed(RUNS, run)

    def records(self, run: str) -> list[Record]:
        """All present records of the run, oldest first."""
        found = [record for job in self.job_names(run) if (record := self.record(run, job)) is not None]
        return sorted(found, key=lambda record: (record.created_at or 0.0, record.job))

    def history(self, run: str) -> list[Record]:
        """Last records of attempts that are over, by job and attempt."""
        return [
            record
            for job in self.job_names(run)
            for attempt in self.attempts(run, job)
            if (record := self.past(run, job, attempt)) is not None
        ]

    def record(self, run: str, job: str) -> Record | None:
        """The job's present record."""
        return self._read((RUNS, run, job), OWNER, decode_record, lambda r: (r.run, r.job) == (run, job))

    def attempts(self, run: str, job: str) -> list[int]:
        """Attempts of the job that have a folder, ascending."""
        return sorted(int(name) for name in self._listed(RUNS, run, job) if name.isascii() and name.isdigit())

    def past(self, run: str, job: str, attempt: int) -> Record | None:
        """The record of an attempt that is over."""
        return self._read(
            (RUNS, run, job, str(attempt)), HISTORY, decode_record, lambda r: (r.run, r.job) == (run, job)
        )

    def draft_run(self, run: Run) -> Draft:
        """The file for this run."""
        return Draft((RUNS, checked_name(run.name, "run")), RUN_FILE, encode_run(run).encode() + b"\n")

    def draft(self, record: Record) -> Draft:
        """The file for this record; an earlier attempt's is kept. Makes the attempt's folder."""
        folder = _job(record.run, record.job)
        keep: tuple[str, ...] = ()
        if self._tokens.get(folder) != record.token:
            with self._folders.opened(*folder, str(record.attempt), make=True):
                pass  # the attempt's own folder, for logs and what the runtime writes
            old = self.record(record.run, record.job)
            if old is not None and old.token != record.token:
                keep = (*folder, str(old.attempt))
        return Draft(folder, OWNER, encode_record(record).encode() + b"\n", keep, record.token)

    @contextmanager
    def staged(self, drafts: Sequence[Draft], *, durable: bool) -> Iterator[None]:
        """Write all drafts beside their places; put them in place when the block ends well, else remove them.

        What needs room on the disk happens before the block, so an index can be written inside it: when either has no room, neither
        is changed.

        Raises:
            Busy, HostError: nothing is left of the drafts.
        """
        mark = f".tmp-{os.urandom(4).hex()}"
        written: list[Draft] = []
        try:
            for start in range(0, len(drafts), _MOST_OPEN):
                self._write(drafts[start : start + _MOST_OPEN], mark, written, durable=durable)
            yield
            for draft in drafts:
                self._publish(draft, mark)
        except BaseException:
            for draft in written:
                self._remove(draft.folder, draft.name + mark)
            raise
        if durable and drafts:
            self._flush({draft.folder for draft in drafts} | self._folders.fresh)
            self._folders.fresh.clear()

    def retire(self, run: str, job: str, attempt: int) -> None:
        """The job is over: its owner file becomes history. Gone already is fine."""
        path = self._folders.path(*_job(run, job), OWNER)
        self._tokens.pop(_job(run, job), None)
        try:
            with self._folders.opened(*_job(run, job)) as folder:
                for name in os.listdir(folder):  # noqa: PTH208 -- a descriptor
                    if name.startswith(f"{OWNER}.tmp-"):
                        os.unlink(name, dir_fd=folder)
                with self._folders.opened(*_job(run, job), str(attempt), make=True) as past:
                    os.rename(OWNER, HISTORY, src_dir_fd=folder, dst_dir_fd=past)
        except FileNotFoundError:
            return
        except OSError as error:
            raise file_failure(error, path) from error

    def forget(self, run: str) -> None:
        """Remove the run's folder with all logs; it disappears at once or not at all."""
        path = self._folders.path(RUNS, checked_name(run, "run"))
        self._tokens.clear()
        try:
            with self._folders.opened(RUNS) as folder:
                os.rename(run, f"@gone-{os.urandom(4).hex()}", src_dir_fd=folder, dst_dir_fd=folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise file_failure(error, path) from error
        self.sweep()

    def sweep(self) -> None:
        """Finish removals that were cut short."""
        try:
            with self._folders.opened(RUNS) as folder:
                for name in os.listdir(folder):  # noqa: PTH208 -- a descriptor
                    if name.startswith("@gone-"):
                        self._remove_tree(name, folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise file_failure(error, self._folders.path(RUNS)) from error

    def _remove_tree(self, name: str, parent: int) -> None:
        """Also where a container's root has written into a copy of the source: then that stays, and is told."""
        import shutil

        try:
            # Walks by descriptors: a link in there is removed, never followed.
            shutil.rmtree(name, dir_fd=parent)
        except PermissionError as error:
            path = self._folders.path(RUNS, name)
            self.notices[path] = Notice(
                "not-removed",
                f"{path} of a forgotten run cannot be removed: a container wrote files there that are not yours "
                f"({error.filename})",
                hint=f"sudo rm -r {path}",
                where=str(path),
            )

    def _listed(self, *folder: str) -> list[str]:
        try:
            with self._folders.opened(*folder) as there:
                return self._folders.names(there)
        except FileNotFoundError:
            return []

    def _read(
        self, folder: tuple[str, ...], name: str, decode: Callable[[bytes], T], fits: Callable[[T], bool]
    ) -> T | None:
        path = self._folders.path(*folder, name)
        try:
            with self._folders.opened(*folder) as there:
                data = self._folders.read(there, name, path)
            if data is None:
                return None
            value = decode(data)
            if not fits(value):
                raise ValueError("it speaks of another run or job")
        except FileNotFoundError:
            return None
        except TooNew as error:
            raise too_new(path, str(error)) from error
        except ValueError as error:
            self.notices[path] = Notice(
                "owner-file-broken",
                f"{path} cannot be used: {error}",
                hint="migctl status compares with what is there; the next write replaces the file",
                where=str(path),
            )
            return None
        self.notices.pop(path, None)
        return value

    def _write(self, drafts: Sequence[Draft], mark: str, written: list[Draft], *, durable: bool) -> None:
        descriptors: list[int] = []
        try:
            for draft in drafts:
                path = self._folders.path(*draft.folder, draft.name)
                try:
                    with self._folders.opened(*draft.folder, make=True) as folder:
                        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
                        descriptor = os.open(draft.name + mark, flags, 0o600, dir_fd=folder)
                    descriptors.append(descriptor)
                    written.append(draft)
                    self._folders.give(descriptor)
                    write_all(descriptor, draft.data)
                except OSError as error:
                    raise file_failure(error, path, sum(len(d.data) for d in drafts)) from error
            # All are written before the first is flushed: one commit of the file system's journal then carries them all.
            for descriptor, draft in zip(descriptors, drafts, strict=True):
                try:
                    if durable:
                        os.fsync(descriptor)
                except OSError as error:
                    raise file_failure(error, self._folders.path(*draft.folder, draft.name), len(draft.data)) from error
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _publish(self, draft: Draft, mark: str) -> None:
        try:
            with self._folders.opened(*draft.folder) as folder:
                if draft.keep_as:
                    self._keep(folder, draft)
                os.rename(draft.name + mark, draft.name, src_dir_fd=folder, dst_dir_fd=folder)
            if draft.token:
                self._tokens[draft.folder] = draft.token
        except OSError as error:
            raise file_failure(error, self._folders.path(*draft.folder, draft.name), len(draft.data)) from error

    def _keep(self, folder: int, draft: Draft) -> None:
        with self._folders.opened(*draft.keep_as, make=True) as past:
            try:
                os.link(draft.name, HISTORY, src_dir_fd=folder, dst_dir_fd=past, follow_symlinks=False)
            except (FileExistsError, FileNotFoundError):
                pass  # kept before a crash already, or replaced by nobody's hand: history, not truth

    def _remove(self, folder: tuple[str, ...], name: str) -> None:
        try:
            with self._folders.opened(*folder) as there:
                os.unlink(name, dir_fd=there)
        except OSError:
            pass  # the error that led here is the one to tell; a later retire sweeps the folder

    def _flush(self, folders: set[tuple[str, ...]]) -> None:
        for folder in sorted(folders):
            try:
                with self._folders.opened(*folder) as there:
                    os.fsync(there)
            except OSError as error:
                raise file_failure(error, self._folders.path(*folder)) from error


def _job(run: str, job: str) -> tuple[str, ...]:
    return (RUNS, checked_name(run, "run"), checked_name(job, "job"))
