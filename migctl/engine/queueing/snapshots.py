"""Copies of the source for jobs with `snapshot: true`: taken by the `up` that submits them, kept in the run's folder until `rm`."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from migctl.core.code import Code
from migctl.core.plan import Job, Plan
from migctl.core.queueing.submission import Submission
from migctl.core.runs.record import Record
from migctl.core.runs.sameness import spec
from migctl.core.sourcecopy import outermost, parts
from migctl.core.words import counted
from migctl.engine.apply import Workshop
from migctl.errors import HostError, MigctlError, PartlyApplied, PlanError
from migctl.host.copying import copy, extent, give
from migctl.host.gitstate import code_of
from migctl.store.failure import disk_full

MOST_BYTES: Final = 1 << 30
MOST_FILES: Final = 100_000
"""Source is smaller; what is larger is data that nobody wants to be copied for each submission."""
_UNFINISHED: Final = ".part"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """Which jobs run on which copy."""

    of: Mapping[str, str] = field(default_factory=dict)
    """Job → the copy of the plan's folder that is its source."""
    codes: Mapping[str, Code] = field(default_factory=dict)
    """Copy → what git said of the folder when it was copied."""


@contextmanager
def copied(shop: Workshop, plan: Plan, records: Mapping[str, Record], leaving: Collection[str]) -> Iterator[Copies]:
    """Have a copy for every job that wants one; where what happens inside fails, those that were made for it are removed.

    A job keeps its copy as long as it is the same job, in all its attempts.

    Args:
        shop: with the run's lock held.
        plan: all jobs of the run.
        records: settled ones of the run, by job.
        leaving: jobs that are about to be ended, to be replaced or run once more.

    Raises:
        PlanError: the source is too large.
        Busy, HostError: it cannot be copied.
    """
    old = shop.ledger.submissions.submission(plan.name)
    running = frozenset(name for name, record in records.items() if not record.state.ended and name not in leaving)
    kept = _kept(old, plan, running)
    codes = {path: code for path, code in (old.codes if old is not None else ()) if path in kept.values()}
    missing = [job for job in plan.jobs if job.snapshot and job.name not in kept and job.name not in running]
    wanted = {job.name: parts(plan, job, os.path.realpath) for job in missing}
    wanted = {name: found for name, found in wanted.items() if found}
    if not wanted:
        yield Copies(of=kept, codes=codes)
        return
    paths = outermost(frozenset().union(*wanted.values()))
    place = shop.ledger.source_place(plan.name)
    first = next(job for job in missing if job.name in wanted)
    with _made(shop, plan, paths, place, first) as made:
        code = code_of(Path(plan.folder), shop.session.environ)
        if code is not None:
            codes[str(made)] = code
        yield Copies(of={**kept, **dict.fromkeys(wanted, str(made))}, codes=codes)


def _kept(old: Submission | None, plan: Plan, running: Collection[str]) -> dict[str, str]:
    if old is None:
        return {}
    before = {job.name: job for job in old.plan.jobs}
    now = {job.name: job for job in plan.jobs}
    return {
        name: path
        for name, path in old.snapshots
        if name in running or (name in now and name in before and spec(now[name]) == spec(before[name]))
    }


@contextmanager
def _made(shop: Workshop, plan: Plan, paths: Collection[str], place: Path, job: Job) -> Iterator[Path]:
    """A new copy, whole or not at all."""
    for left in place.glob(f"*{_UNFINISHED}"):
        shutil.rmtree(left, ignore_errors=True)  # of an `up` that was killed
    target = place / secrets.token_hex(4)
    unfinished = target.with_suffix(_UNFINISHED)
    try:
        size = _measured(shop, plan, paths, job)
        _copy(shop, plan, paths, unfinished, size)
        unfinished.rename(target)
        yield target
    except PartlyApplied:
        raise  # what could not be undone may run on it
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.rmtree(target, ignore_errors=True)
        raise


def _measured(shop: Workshop, plan: Plan, paths: Collection[str], job: Job) -> int:
    """Bytes to be copied.

    Raises:
        PlanError: too many.
    """
    try:
        found = [extent(Path(plan.folder, path), _without(shop)) for path in paths]
    except OSError as error:
        raise _unreadable(error, job) from error
    size, files = sum(one.size_bytes for one in found), sum(one.files for one in found)
    if size <= MOST_BYTES and files <= MOST_FILES:
        return size
    largest = sorted((entry for one in found for entry in one.largest), key=lambda entry: -entry[1])[:3]
    named = ", ".join(f"{name} {_mib(size)}" for name, size in largest)
    raise PlanError(
        "snapshot-too-large",
        f"snapshot of job {job.name} would copy {_mib(size)} in {counted(files, 'file')}, more than "
        f"{_mib(MOST_BYTES)} or {MOST_FILES} files; most is in {named}",
        where=job.place("snapshot"),
        hint="keep data and results outside the plan's folder, or mount only the folders with the source",
    )


def _copy(shop: Workshop, plan: Plan, paths: Collection[str], target: Path, size: int) -> None:
    owner = shop.session.caller
    try:
        target.mkdir(mode=0o700)
        for path in paths:
            copy(Path(plan.folder, path), target / path, _without(shop), resolve=plan.runtime == "process")
        if os.geteuid() == 0 and owner.uid != 0:
            give(target, owner.uid, owner.gid)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(target, size, error) from error
        raise _failed(error, plan) from error


def _without(shop: Workshop) -> Callable[[Path], bool]:
    """Folders of migctl's own, which may lie in the plan's."""
    own = {path.resolve() for path in (shop.session.paths.state, shop.session.paths.run)}
    names = {path.name for path in own}
    return lambda path: path.name in names and path.resolve() in own


def _unreadable(error: OSError, job: Job) -> MigctlError:
    return HostError(
        "snapshot-failed",
        f"the source of job {job.name} cannot be copied: {error.filename}: {error.strerror}",
        where=job.place("snapshot"),
        hint="make it readable, or move it out of the plan's folder",
    )


def _failed(error: OSError, plan: Plan) -> MigctlError:
    return HostError(
        "snapshot-failed",
        f"{plan.folder} could not be copied: {error.filename}: {error.strerror}",
        where=f"run {plan.name}",
        hint="make it readable, or move it out of the plan's folder",
    )


def _mib(size_bytes: int) -> str:
    return f"{-(-size_bytes // (1 << 20))} MiB"
