"""What was measured of a run, in one file of its folder: a line a sample, thinned as it grows old; losing it loses no job.

It is no part of the index: that is read by every command, and small. A line that is not whole (a crash, a full disk) is left out.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from migctl.core.seeing.tracks import Said, Sample, merged, place
from migctl.store.failure import file_failure
from migctl.store.folders import Folders, checked_name
from migctl.store.owner_files import RUNS

FILE: Final = "@samples.jsonl"
"""A name that no job can have, since it stands among the jobs' folders."""
_MOST_BYTES: Final = 256 << 20
_THIN_AFTER: Final = 360
"""Lines appended between two thinnings: an hour."""
_MOST_SAID: Final = 2000
"""Verdicts that are kept of a run, the latest."""
_PRESENT_BYTES: Final = 1 << 20
_PRESENT_S: Final = 30.0
"""A watcher writes every ten seconds."""
_SAMPLE: Final = re.compile(rb'\{"at":([0-9]+(?:\.[0-9]+)?),"s":([0-9]+(?:\.[0-9]+)?),"jobs":')
_DIGITS: Final = 4
"""Significant ones: what is measured is not surer than that."""


@dataclass(frozen=True, slots=True)
class Track:
    """Everything that is kept of a run, oldest first."""

    samples: tuple[Sample, ...] = ()
    said: tuple[Said, ...] = ()


def read_track(state: Path, run: str) -> Track:
    """What is there; nothing where nothing was measured, or where it cannot be read."""
    try:
        folders = Folders(state)
    except FileNotFoundError:
        return Track()
    try:
        with _opened(folders, run, write=False) as descriptor:
            return _decoded(_content(descriptor)) if descriptor is not None else Track()
    finally:
        folders.close()


def said_now(state: Path, run: str, now_s: float) -> tuple[Said, ...]:
    """The verdicts that are said at present; none where nobody has watched the run for half a minute."""
    try:
        folders = Folders(state)
    except FileNotFoundError:
        return ()
    try:
        with _opened(folders, run, write=False) as descriptor:
            if descriptor is None:
                return ()
            size = os.fstat(descriptor).st_size
            lines = os.pread(descriptor, _PRESENT_BYTES, max(0, size - _PRESENT_BYTES)).splitlines()
    finally:
        folders.close()
    last = next((found for line in reversed(lines) if (found := _SAMPLE.match(line)) is not None), None)
    if last is None or float(last[1]) < now_s - _PRESENT_S:
        return ()
    present: dict[tuple[str, str, str], Said] = {}
    for one in _decoded(b"\n".join(line for line in lines if _SAMPLE.match(line) is None)).said:
        present.pop((one.job, one.gpu, one.kind), None)
        if not one.over:
            present[one.job, one.gpu, one.kind] = one
    return tuple(present.values())


class TrackWriter:
    """Appends to one run's file; several processes may, since a time that is there already is not written again.

    Args:
        state: the state directory; the run's folder must exist.
    """

    def __init__(self, state: Path, run: str) -> None:
        self._state, self._run = state, run
        self._appended = _THIN_AFTER

    def add(self, samples: Sequence[Sample], said: Sequence[Said] = ()) -> None:
        """Append, and thin what has grown old once an hour. A run that was removed meanwhile is left alone.

        Raises:
            HostError, Busy: the file cannot be written; what is in it stays readable.
        """
        try:
            folders = Folders(self._state)
        except FileNotFoundError:
            return
        try:
            with _opened(folders, self._run, write=True) as descriptor:
                if descriptor is not None:
                    self._write(folders, descriptor, samples, said)
        except OSError as error:
            raise file_failure(error, folders.path(RUNS, self._run, FILE)) from error
        finally:
            folders.close()

    def _write(self, folders: Folders, descriptor: int, samples: Sequence[Sample], said: Sequence[Said]) -> None:
        size = os.fstat(descriptor).st_size
        last_s = _last_time(descriptor, size)
        fresh = [one for one in samples if one.at_s - one.seconds / 2 > last_s]
        lines = [_encoded(one) for one in fresh] + [_said(one) for one in said]
        if not lines:
            return
        whole = size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"
        data = (b"" if whole else b"\n") + b"".join(lines)
        _write_at(descriptor, data, size)
        self._appended += len(lines)
        if self._appended >= _THIN_AFTER and fresh:
            self._thin(folders, descriptor, fresh[-1].at_s)

    def _thin(self, folders: Folders, descriptor: int, now_s: float) -> None:
        """Replace the content by what is still to be kept; a crash in between leaves the old file."""
        self._appended = 0
        data = _thinned(_content(descriptor), now_s)
        if data is None:
            return
        draft = FILE + ".new"
        with folders.opened(RUNS, self._run) as folder:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            fresh = os.open(draft, flags, 0o600, dir_fd=folder)
            try:
                _write_at(fresh, data, 0)
                folders.give(fresh)
            finally:
                os.close(fresh)
            os.rename(draft, FILE, src_dir_fd=folder, dst_dir_fd=folder)


@contextmanager
def _opened(folders: Folders, run: str, *, write: bool) -> Iterator[int | None]:
    """The file, locked where it is to be written; `None` where there is none (or, to write, no run)."""
    try:
        with folders.opened(RUNS, checked_name(run, "run")) as folder:
            descriptor = _open_locked(folders, folder, write=write)
    except (FileNotFoundError, BlockingIOError):
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open_locked(folders: Folders, folder: int, *, write: bool) -> int:
    """Open it; while another process may replace it, again.

    Raises:
        BlockingIOError: somebody else writes just now: he writes the same.
    """
    flags = (os.O_RDWR | os.O_CREAT if write else os.O_RDONLY) | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    while True:
        descriptor = os.open(FILE, flags, 0o600, dir_fd=folder)
        try:
            if not write:
                return descriptor
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            there = os.stat(FILE, dir_fd=folder, follow_symlinks=False)
            if there.st_ino == os.fstat(descriptor).st_ino:
                folders.give(descriptor)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _thinned(content: bytes, now_s: float) -> bytes | None:
    """The lines that are still to be kept; `None` = all of them. Only what becomes one with others is decoded."""
    timed: list[tuple[float, tuple[float, int], bytes]] = []
    said: list[tuple[float, bytes]] = []
    for line in content.splitlines():
        found = _SAMPLE.match(line)
        if found is not None and line.endswith(b"}"):
            at_s, seconds = float(found[1]), float(found[2])
            timed.append((at_s, place(at_s, seconds, now_s), line))
        elif (row := _parsed(line)) is not None and isinstance(row.get("at"), int | float):
            said.append((float(row["at"]), line))
    timed.sort(key=lambda one: one[0])
    kept: list[tuple[float, bytes]] = []
    for _, group in groupby(timed, key=lambda one: one[1]):
        members = list(group)
        if len(members) == 1:
            kept.append((members[0][0], members[0][2] + b"\n"))
            continue
        samples = _decoded(b"\n".join(line for _, _, line in members)).samples
        kept += [(samples[-1].at_s, _encoded(merged(samples)))] if samples else []
    if len(kept) == len(timed) and len(said) <= _MOST_SAID:
        return None
    rows = [*kept, *((at_s, line + b"\n") for at_s, line in said[-_MOST_SAID:])]
    return b"".join(line for _, line in sorted(rows, key=lambda row: row[0]))


def _content(descriptor: int) -> bytes:
    there = os.fstat(descriptor)
    if not stat.S_ISREG(there.st_mode):
        return b""
    begin = max(0, there.st_size - _MOST_BYTES)
    data = bytearray()
    while piece := os.pread(descriptor, 1 << 20, begin + len(data)):
        data += piece
    return bytes(data)


def _last_time(descriptor: int, size: int) -> float:
    """When the last sample ended: what others have written since is not written again."""
    tail = os.pread(descriptor, 1 << 16, max(0, size - (1 << 16)))
    for line in reversed(tail.splitlines()):
        found = _parsed(line)
        if found is not None and "jobs" in found:
            at_s = found.get("at")
            return float(at_s) if isinstance(at_s, int | float) else 0.0
    return 0.0


def _write_at(descriptor: int, data: bytes, offset: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(descriptor, data[done:], offset + done)


def _encoded(one: Sample) -> bytes:
    row = {
        "at": round(one.at_s, 1),
        "s": round(one.seconds, 1),
        "jobs": {job: _short(figures) for job, figures in one.jobs.items()},
        "cpus": {str(cpu): round(load, 2) for cpu, load in one.cpus.items()},
        "gpus": {uuid: _short(figures) for uuid, figures in one.gpus.items()},
    }
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"


def _said(one: Said) -> bytes:
    row = {
        "at": round(one.at_s, 1),
        "job": one.job,
        "gpu": one.gpu,
        "kind": one.kind,
        "title": one.title,
        "message": one.message,
        "hint": one.hint,
        "over": one.over,
    }
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"


def _short(figures: Mapping[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.{_DIGITS}g}") for name, value in figures.items()}


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _decoded(data: bytes) -> Track:
    samples: list[Sample] = []
    said: list[Said] = []
    for line in data.splitlines():
        row = _parsed(line)
        if row is None:
            continue
        try:
            if "jobs" in row:
                samples.append(_sample(row))
            else:
                said.append(_one_said(row))
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
    return Track(tuple(sorted(samples, key=lambda one: one.at_s)), tuple(sorted(said, key=lambda one: one.at_s)))


def _sample(row: Mapping[str, Any]) -> Sample:
    return Sample(
        at_s=float(row["at"]),
        seconds=float(row["s"]),
        jobs={str(job): _figures(figures) for job, figures in row["jobs"].items()},
        cpus={int(cpu): float(load) for cpu, load in row["cpus"].items()},
        gpus={str(uuid): _figures(figures) for uuid, figures in row["gpus"].items()},
    )


def _figures(figures: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in figures.items()}


def _one_said(row: Mapping[str, Any]) -> Said:
    return Said(
        at_s=float(row["at"]),
        job=str(row["job"]),
        gpu=str(row["gpu"]),
        kind=str(row["kind"]),
        title=str(row["title"]),
        message=str(row["message"]),
        hint=str(row["hint"]),
        over=bool(row["over"]),
    )
