"""Files of a run beside its jobs: the plan as it was submitted, what the user said about its queue, what a cluster has of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from migctl.core.queueing.course import Course, Span
from migctl.core.queueing.entries import Queue
from migctl.errors import HostError
from migctl.store.codec import (
    TooNew,
    decode_cluster,
    decode_queue,
    decode_submission,
    encode_cluster,
    encode_queue,
    encode_submission,
)
from migctl.store.failure import too_new
from migctl.store.folders import Folders, checked_name
from migctl.store.owner_files import RUNS, Draft, OwnerFiles

if TYPE_CHECKING:
    from migctl.core.cluster.clusterrun import ClusterRun
    from migctl.core.queueing.submission import Submission

SUBMISSION = "@plan.json"
QUEUE = "@queue.json"
WAITS = "@waits.json"
COURSE = "@course.json"
CLUSTER = "@cluster.json"
CLUSTER_FILES = "@cluster"
"""Names that no job can have, since they stand among the jobs' folders."""
_LARGEST_BYTES = 256 * 1024 * 1024
"""10,000 jobs take about 3 MiB, and each may have a large environment."""

T = TypeVar("T")


def cluster_folder(state: Path, run: str) -> Path:
    """The folder for what a run's jobs leave behind on a cluster; it goes with the run."""
    return state / RUNS / checked_name(run, "run") / CLUSTER_FILES


class Submissions:
    """The submitted plans below one state directory."""

    def __init__(self, folders: Folders | None, files: OwnerFiles | None, *, write: bool) -> None:
        self._open = folders
        self._files = files
        self._write = write
        self._told: dict[str, str] = {}
        self._queues: dict[str, tuple[tuple[int, int], Queue | None]] = {}

    def queue(self, run: str) -> Queue | None:
        """The queue of this run, if it has one.

        Raises:
            HostError: it is there and cannot be read.
        """
        revision = self._revision(run, QUEUE)
        known = self._queues.get(run)
        if revision is not None and known is not None and known[0] == revision:
            return known[1]
        found = self._read(run, QUEUE, decode_queue)
        if revision is not None:
            self._queues[run] = revision, found
        return found

    def submission(self, run: str) -> Submission | None:
        """The plan of this run as it was submitted, if it was. Raises as `queue`."""
        return self._read(run, SUBMISSION, decode_submission)

    def revision(self, run: str) -> tuple[int, int] | None:
        """What changes whenever the plan is submitted anew."""
        return self._revision(run, SUBMISSION)

    def queue_revision(self, run: str) -> tuple[int, int] | None:
        """What changes whenever the queue is written."""
        return self._revision(run, QUEUE)

    def waits_revision(self, run: str) -> tuple[int, int] | None:
        """What changes whenever the queue has moved."""
        return self._revision(run, WAITS)

    def _revision(self, run: str, name: str) -> tuple[int, int] | None:
        try:
            there = self._folders.path(RUNS, checked_name(run, "run"), name).lstat()
        except OSError:
            return None
        return (there.st_mtime_ns, there.st_ino)

    def waits(self, run: str) -> Mapping[str, str]:
        """Why jobs waited when the queue was last looked at; nothing where that is not known."""
        try:
            found = self._read(run, WAITS, json.loads)
        except HostError:
            return {}
        return found if isinstance(found, dict) else {}

    def save_waits(self, run: str, waits: Mapping[str, str]) -> None:
        """Tell whoever only looks why jobs wait; what is lost is told anew."""
        text = json.dumps(waits, separators=(",", ":"))
        if self._told.get(run) == text:
            return
        with self._staged([self._draft(run, WAITS, text)], durable=False):
            pass
        self._told[run] = text

    def course(self, run: str) -> Course | None:
        """The expected course of this run, as it was foreseen last; nothing where that is not known."""
        try:
            return self._read(run, COURSE, _course)
        except HostError:
            return None

    def save_course(self, run: str, course: Course) -> None:
        """Tell whoever only looks when jobs are expected to run; what is lost is foreseen anew."""
        spans = {name: [span.start, span.end, span.reason] for name, span in course.jobs.items()}
        told = {"ends_at": course.ends_at, "reason": course.reason, "jobs": spans}
        with self._staged([self._draft(run, COURSE, json.dumps(told, separators=(",", ":")))], durable=False):
            pass

    def cluster(self, run: str) -> ClusterRun | None:
        """What a cluster has of this run, if one was given it. Raises as `queue`."""
        return self._read(run, CLUSTER, decode_cluster)

    def save_cluster(self, run: ClusterRun) -> None:
        """Write durably what a cluster has of a run. Raises as `submit`."""
        with self._staged([self._draft(run.run, CLUSTER, encode_cluster(run))], durable=True):
            pass

    def submit(self, run: str, submission: Submission, queue: Queue) -> None:
        """Write both durably, or neither.

        Raises:
            Busy, HostError: nothing was changed.
        """
        drafts = [
            self._draft(run, SUBMISSION, encode_submission(submission)),
            self._draft(run, QUEUE, encode_queue(queue)),
        ]
        with self._staged(drafts, durable=True):
            pass

    def withdraw(self, run: str) -> None:
        """Remove both, and what is told of them; gone already is fine."""
        try:
            with self._folders.opened(RUNS, checked_name(run, "run")) as folder:
                for name in (QUEUE, SUBMISSION, WAITS, COURSE):
                    with suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            return

    def save_queue(self, run: str, queue: Queue) -> None:
        """Write the queue durably. Raises as `submit`."""
        with self._staged([self._draft(run, QUEUE, encode_queue(queue))], durable=True):
            pass

    @property
    def _folders(self) -> Folders:
        if self._open is None:
            raise FileNotFoundError("there is no state directory")
        return self._open

    @contextmanager
    def _staged(self, drafts: Sequence[Draft], *, durable: bool) -> Iterator[None]:
        if self._files is None or not self._write:
            raise RuntimeError("this ledger was opened for reading")
        with self._files.staged(drafts, durable=durable):
            yield

    def _draft(self, run: str, name: str, text: str) -> Draft:
        return Draft((RUNS, checked_name(run, "run")), name, text.encode() + b"\n")

    def _read(self, run: str, name: str, decode: Callable[[bytes], T]) -> T | None:
        checked_name(run, "run")
        if self._open is None:
            return None
        path = self._open.path(RUNS, run, name)
        try:
            with self._open.opened(RUNS, run) as folder:
                data = self._open.read(folder, name, path, _LARGEST_BYTES)
            return decode(data) if data is not None else None
        except FileNotFoundError:
            return None
        except TooNew as error:
            raise too_new(path, str(error)) from error
        except ValueError as error:
            raise _broken(run, path, error) from error


def _course(text: bytes) -> Course:
    found = json.loads(text)
    try:
        spans = {name: Span(start=start, end=end, reason=why) for name, (start, end, why) in found["jobs"].items()}
        return Course(jobs=spans, ends_at=found["ends_at"], reason=found["reason"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it is no course of a run: {error}") from error


def _broken(run: str, path: Path, error: ValueError) -> HostError:
    return HostError(
        "queue-broken",
        f"{path} cannot be used: {error}; what runs goes on, and nothing more of the run starts",
        where=f"run {run}",
        hint="migctl up PLAN submits it again",
    )
