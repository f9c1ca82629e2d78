"""Looks at the processes of running jobs, as far as they are seen from here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from migctl.core.cpu.pinning import Pinning, pinning
from migctl.core.runs.record import JobState, Record
from migctl.errors import Notice
from migctl.host.procfs import process_start_ticks
from migctl.host.proctree import process_tree

AWAY = "its processes are not seen from here"
"""The engine is on another machine, /proc hides other users' processes, or the job has just ended."""


def pins(records: Iterable[Record]) -> Mapping[str, Pinning]:
    """`run/job` → its pinning, of those running jobs whose processes are seen.

    The start time tells that a pid is still the job's: pids come back.
    """
    found: dict[str, Pinning] = {}
    for record in records:
        if record.state is not JobState.RUNNING or record.pid is None or record.pid_start is None:
            continue
        if process_start_ticks(record.pid) != record.pid_start:
            continue
        seen = pinning(process_tree(record.pid), cpus=record.cpus, cores=record.cores, num_workers=record.num_workers)
        if seen is not None:
            found[f"{record.run}/{record.job}"] = seen
    return found


def load_notices(pinned: Mapping[str, Pinning]) -> tuple[Notice, ...]:
    """What is no drift, but makes a job slow; what is drift is listed there."""
    return tuple(
        Notice(f"pinning-{finding.slip.value}", f"{name}: {finding.message}", hint=finding.hint or None)
        for name, seen in pinned.items()
        for finding in seen.findings
        if not finding.drift
    )
