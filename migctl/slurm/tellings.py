"""The files in which jobs on Slurm tell that they began and how they ended, and their logs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar

from migctl.core.cluster.clusterrun import ClusterJob
from migctl.core.cluster.slurmstate import Begun, Ended
from migctl.core.cpu.cpuset import CpuSet
from migctl.errors import HostError

_BEGIN: Final = "begin"
_END: Final = "end"
_NAME = re.compile(r"(\d+(?:_\d+)?)\.(begin|end)")
_MOST_BYTES: Final = 4096

T = TypeVar("T")


def key(job: ClusterJob) -> str:
    """The name of a job's files, which is also its id for scancel: `4711`, or `4711_3` of an array."""
    return job.unit if job.index is None else f"{job.unit}_{job.index}"


class Tellings:
    """What the jobs of one run have told so far; each file is read once.

    Args:
        folder: of the run; on a file system that the nodes have, too.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._begun: dict[str, tuple[int, Begun]] = {}
        self._ended: dict[str, tuple[int, Ended]] = {}

    def make(self) -> None:
        """Make the folder.

        Raises:
            HostError: that is not possible.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise HostError(
                "store-failed", f"{self.folder} cannot be made: {error.strerror}", hint="--state-dir DIR"
            ) from error

    def read(self) -> tuple[Mapping[str, Begun], Mapping[str, Ended]]:
        """By the jobs' keys, as far as they have begun and ended; files that are not whole count as not there."""
        there: dict[str, set[str]] = {_BEGIN: set(), _END: set()}
        for name, stamp in self._files():
            found = _NAME.fullmatch(name)
            if found is None:
                continue
            there[found[2]].add(found[1])
            if found[2] == _BEGIN:
                self._update(self._begun, found[1], stamp, name, begun)
            else:
                self._update(self._ended, found[1], stamp, name, ended)
        # A job that Slurm began anew takes its end away.
        begins = {k: value for k, (_, value) in self._begun.items() if k in there[_BEGIN]}
        ends = {k: value for k, (_, value) in self._ended.items() if k in there[_END]}
        return begins, ends

    def log(self, job: ClusterJob) -> str:
        """Where the job's output is."""
        return str(self.folder / f"{key(job)}.log")

    def has_ended(self, job: ClusterJob) -> bool:
        """Whether the job has told its end."""
        return (self.folder / f"{key(job)}.{_END}").exists()

    def _files(self) -> Iterator[tuple[str, int]]:
        try:
            with os.scandir(self.folder) as entries:
                yield from ((entry.name, entry.stat().st_mtime_ns) for entry in entries if entry.name[0].isdigit())
        except FileNotFoundError:
            return
        except OSError as error:
            raise HostError("store-failed", f"{self.folder}: {error.strerror}", where=str(self.folder)) from error

    def _update(
        self, known: dict[str, tuple[int, T]], name: str, stamp: int, file: str, read: Callable[[str], T | None]
    ) -> None:
        if name in known and known[name][0] == stamp:
            return
        known.pop(name, None)
        try:
            with (self.folder / file).open("rb") as opened:
                text = opened.read(_MOST_BYTES).decode("utf-8", "replace")
        except OSError:
            return
        value = read(text)
        if value is not None:
            known[name] = (stamp, value)


def begun(text: str) -> Begun | None:
    """`1764517025 node7 0-1,4 2 MIG-…`; the UUID only where slurmd knows it."""
    words = text.split()
    if len(words) < 4:
        return None
    try:
        return Begun(
            at=float(words[0]),
            node=words[1],
            cpus=CpuSet.parse(words[2]),
            num_workers=int(words[3]),
            mig_uuid=words[4] if len(words) > 4 else "",
        )
    except ValueError:
        return None


def ended(text: str) -> Ended | None:
    """`143 1 1764517025`: exit code, whether SIGTERM came, when."""
    words = text.split()
    try:
        return Ended(exit_code=int(words[0]), stopped=words[1] == "1", at=float(words[2]))
    except (ValueError, IndexError):
        return None
