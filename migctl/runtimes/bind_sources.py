"""Folders of this machine that jobs mount and that are not there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from migctl.core.plan import Job
from migctl.errors import PlanError


def missing_sources(jobs: Sequence[Job]) -> Iterator[PlanError]:
    """An error for each: an engine would make the folder, as root."""
    for job in jobs:
        for volume in job.volumes:
            if volume.kind == "bind" and not Path(volume.source or "/").exists():
                yield PlanError(
                    "no-bind-source",
                    f"the volume's source {volume.source} does not exist (docker would make it, as root)",
                    where=job.place("volumes"),
                    hint=f"mkdir -p {volume.source}",
                )
