"""One attempt's folder of the process runtime: the files in it, and what they say about the job.

- launch.json: what to run, environment included (0600); its presence makes the folder a unit
- lock: held (flock) from before the shim exists until the job's last process is gone
- pid.json: written before the job's first instruction
- log: stdout and stderr, byte for byte
- exit.json: written after the job's last process, in room that was taken on the disk (exit.json.new) before its first instruction
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.ending.exit_codes import exit_words
from migctl.core.runs.observed import Unit
from migctl.core.runs.record import JobState
from migctl.errors import Busy, HostError
from migctl.runtimes import proc
from migctl.runtimes.attempt_records import EXIT, LAUNCH, MOST_BYTES, PID, parsed

LOCK, LOG = "lock", "log"
FRESH = ".new"
"""Behind the name of a record that is not whole yet."""
START_DEADLINE_S = 30.0
"""How long a shim may take until its job is recorded."""
_READER_PATIENCE_S = 1.0
"""A reader that looks whether the lock is held holds it itself for microseconds."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The folder of one attempt, absolute."""

    folder: str

    def _open(self) -> int:
        """The folder itself, never what a link at its place points to."""
        try:
            fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise HostError(
                "no-folder", f"the job's folder cannot be used: {error.strerror}", where=self.folder
            ) from None
        if os.fstat(fd).st_uid not in (os.geteuid(), 0) and os.geteuid() != 0:
            os.close(fd)
            raise HostError("not-ours", "the job's folder belongs to another user", where=self.folder)
        return fd

    def read(self, name: str) -> dict[str, Any] | None:
        """A record; `None` when it was not written (or not wholly, which a rename excludes).

        Raises:
            HostError: something else is in its place.
        """
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe in its place is not waited for
        try:
            fd = os.open(f"{self.folder}/{name}", flags)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise HostError("unreadable", f"{name} cannot be read: {error.strerror}", where=self.folder) from None
        there = os.fstat(fd)
        if not stat.S_ISREG(there.st_mode) or there.st_size > MOST_BYTES:
            os.close(fd)
            raise HostError("unreadable", f"{name} is no file of a job's", where=self.folder)
        with os.fdopen(fd, "rb") as file:
            text = file.read()
        try:
            return parsed(name, text)
        except ValueError:
            raise HostError("unreadable", f"{name} holds no record", where=self.folder) from None

    def write(self, name: str, record: Mapping[str, object]) -> None:
        """A record, whole or not at all, as the folder's owner's file (0600)."""
        folder = self._open()
        fresh = name + FRESH
        try:
            try:
                os.unlink(fresh, dir_fd=folder)
            except FileNotFoundError:
                pass
            fd = os.open(
                fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder
            )
            with os.fdopen(fd, "wb") as file:
                file.write(json.dumps(record).encode())
                file.flush()
                _give(fd, folder)
                os.fsync(fd)
            os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            raise _unwritten(error, f"{name} cannot be written", self.folder) from None
        finally:
            os.close(folder)

    def lock(self) -> int:
        """Take the lock for a start; the descriptor holds it, also in whoever inherits it.

        Raises:
            Busy: the attempt runs already.
        """
        folder = self._open()
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fd = os.open(LOCK, flags, 0o600, dir_fd=folder)
            _give(fd, folder)
        except OSError as error:
            raise _unwritten(error, "lock cannot be made", self.folder) from None
        finally:
            os.close(folder)
        deadline = time.monotonic() + _READER_PATIENCE_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(fd)
                    raise Busy("still-running", "this attempt of the job runs already", where=self.folder) from None
                time.sleep(0.01)
            else:
                return fd

    def held(self) -> bool:
        """Whether a shim (or a start under way) holds the lock."""
        try:
            fd = os.open(f"{self.folder}/{LOCK}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def unit(self) -> Unit | None:
        """What the files and the kernel say now; `None` when there is no launch record."""
        launch = self.read(LAUNCH)
        if launch is None:
            return None
        held = self.held()
        ended = None if held else self.read(EXIT)
        started = self.read(PID)
        state, reason = _state(held, started, ended)
        return Unit(
            handle=self.folder,
            run=launch["run"],
            job=launch["job"],
            token=launch["token"],
            state=state,
            pid=started["pid"] if started else None,
            pid_start=started["start_ticks"] if started else None,
            exit_code=ended["exit_code"] if ended else None,
            reason=reason,
            started_at=started["started_at"] if started else None,
            finished_at=ended["finished_at"] if ended else None,
            cpus=CpuSet.parse(launch["cpus"]),
        )

    def settled_unit(self) -> Unit | None:
        """`unit`, but where a start is under way (its command may have been killed) only once it has come to an end."""
        deadline = time.monotonic() + START_DEADLINE_S
        while True:
            unit = self.unit()
            under_way = unit is not None and unit.state is JobState.STARTING and self.held()
            if not under_way or time.monotonic() > deadline:
                return unit
            time.sleep(0.01)

    def pidfd(self) -> int | None:
        """A descriptor that becomes readable when the shim ends, or the job's main process where the shim was killed."""
        started = self.read(PID)
        if started is None or started["boot_id"] != proc.boot_id():
            return None
        fd = proc.open_pidfd(started["shim_pid"], started["shim_start_ticks"])
        return fd if fd is not None else self.main_pidfd()

    def main_pidfd(self) -> int | None:
        """The job's main process, if it is alive."""
        started = self.read(PID)
        if started is None or started["boot_id"] != proc.boot_id():
            return None
        return proc.open_pidfd(started["pid"], started["start_ticks"])

    def forget(self) -> None:
        """Take away what makes the folder a unit, environment included; log and exit record stay."""
        for name in (LAUNCH, PID, PID + FRESH, EXIT + FRESH, LOCK):
            try:
                os.unlink(f"{self.folder}/{name}")  # noqa: PTH108 -- the folder is a plain string
            except (FileNotFoundError, NotADirectoryError):
                pass
            except OSError as error:
                raise HostError(
                    "unwritable", f"{name} cannot be removed: {error.strerror}", where=self.folder
                ) from None


def disk_full(number: int | None, message: str, folder: str) -> Busy | None:
    """The error for a failed write, by its error number, where room can be made; `None` for any other failure."""
    if number not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return None
    hint = f"make room, then run the same command again: df -h {folder}"
    return Busy("disk-full", message, where=folder, hint=hint)


def _unwritten(error: OSError, message: str, folder: str) -> Busy | HostError:
    full = disk_full(error.errno, f"{message}: {error.strerror}", folder)
    return full or HostError("unwritable", f"{message}: {error.strerror}", where=folder)


def _give(fd: int, folder: int) -> None:
    """Under sudo the files are the caller's, like the folder."""
    owner = os.fstat(folder)
    if os.geteuid() == 0 and owner.st_uid != 0:
        os.fchown(fd, owner.st_uid, owner.st_gid)


def _state(held: bool, started: dict[str, Any] | None, ended: dict[str, Any] | None) -> tuple[JobState, str | None]:
    if ended is not None:
        code = ended["exit_code"]
        if code == 0:
            return JobState.SUCCEEDED, None
        return JobState.FAILED, ended.get("reason") or exit_words(code)
    if started is None:
        return JobState.STARTING, None
    if started["boot_id"] != proc.boot_id():
        return JobState.LOST, "the machine was restarted"
    if held or proc.is_alive(started["pid"], started["start_ticks"]):
        return JobState.RUNNING, None
    return JobState.LOST, "it ended while the process that watched it was dead: nobody saw the exit code"
