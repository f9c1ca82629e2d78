"""What `snapshot: true` copies of a job's source, and the job as it runs on that copy."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from posixpath import commonpath, join, relpath

from migctl.core.choices import RuntimeName
from migctl.core.plan import Job, Plan


def parts(plan: Plan, job: Job, real: Callable[[str], str]) -> frozenset[str]:
    """The paths in the plan's folder, relative to it, of which the job needs a copy: `.` is all of it; there may be none.

    Args:
        plan: whose folder is the source.
        job: in a container what a bind mounts of that folder, as a process the folder.
        real: a path with its links resolved: what a link leads out of the folder to is no part of it.
    """
    if plan.runtime is RuntimeName.PROCESS:
        return frozenset({"."})
    sources = [v.source for v in job.volumes if v.kind == "bind" and v.source is not None]
    home = real(plan.folder)
    return frozenset(
        relpath(source, plan.folder)
        for source in sources
        if _inside(source, plan.folder) and _inside(real(source), home)
    )


def outermost(paths: Collection[str]) -> tuple[str, ...]:
    """The same without those that lie in another one."""
    return tuple(sorted(one for one in paths if not any(one != other and _inside(one, other) for other in paths)))


def on_copy(job: Job, folder: str, copy: str, there: Callable[[str], bool]) -> Job:
    """The job with the copy in place of the plan's folder.

    Args:
        job: as planned.
        folder: the plan's.
        copy: the folder's copy; it holds what was copied at the same relative paths.
        there: whether a path exists.
    """

    def moved(path: str) -> str:
        found = moved_folder(path, folder, copy)
        return found if there(found) else path

    volumes = tuple(
        replace(v, source=moved(v.source)) if v.kind == "bind" and v.source is not None else v for v in job.volumes
    )
    return replace(job, volumes=volumes)


def moved_folder(path: str, folder: str, copy: str) -> str:
    """Where a working directory is in the copy; one outside the plan's folder stays where it is."""
    if not _inside(path, folder):
        return path
    return copy if path == folder else join(copy, relpath(path, folder))


def _inside(path: str, folder: str) -> bool:
    if folder == ".":
        return True
    return path == folder or (path.startswith("/") == folder.startswith("/") and commonpath((path, folder)) == folder)
