"""Process jobs found without any record: by what their shims carry, or, where those are dead, by what they were handed.

A container tells by its labels whose it is when all records are lost. For a process its shim does: the same labels are in the
environment it was started with, which its own user and root can read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.runs.adoption import Leftover
from migctl.core.runs.labels import LABEL
from migctl.core.runs.observed import Unit
from migctl.core.runs.record import JobState
from migctl.core.runs.shim import shim_of
from migctl.runtimes import proc
from migctl.runtimes.bare import FILES_GONE, Bare

CARRIED: Final = "MIGCTL_UNIT"
"""In a shim's environment: its job's labels, as JSON."""
_MOST_CARRIED: Final = 100_000
"""Bytes; execve(2) takes 128 KiB in one string."""
_HANDED: Final = {"MIGCTL_RUN": "run", "MIGCTL_JOB": "job", "MIGCTL_ATTEMPT": "attempt"}
_LOG: Final = re.compile(r"(?P<folder>/.+/(?P<run>[^/]+)/(?P<job>[^/]+)/(?P<attempt>\d+))/log(?: \(deleted\))?")


def carried(labels: Mapping[str, str]) -> str:
    """The labels as a shim carries them; without the resolved job where that is too long for an environment."""
    text = json.dumps(dict(labels))
    if len(text.encode()) > _MOST_CARRIED:
        text = json.dumps({key: value for key, value in labels.items() if len(value) < 1000})
    return text


def living() -> list[Leftover]:
    """The jobs of all process runs that live now and whose environment this user may read, recorded or not.

    A job whose shim is dead is only known by what it was handed: its run, its job and the log that it writes to.
    """
    watched: set[int] = set()
    found: list[Leftover] = []
    others: list[int] = []
    for pid in proc.pids():
        words = proc.words(pid)
        if shim_of(words) is not None:
            main = _main_of(pid)
            labels = _labels(pid)
            one = _leftover(main, labels) if main is not None and labels is not None else None
            if main is not None and one is not None:
                watched.add(main.pid)
                found.append(one)
        elif words:
            others.append(pid)
    return [*found, *(one for pid in others if pid not in watched and (one := _orphan(pid)) is not None)]


def _main_of(shim: int) -> Bare | None:
    """The job's main process: the first child that a shim had; `None` while it has none, or none that has begun."""
    children = sorted(
        (stat.start_ticks, pid)
        for pid in proc.children(shim)
        if (stat := proc.stat(pid)) is not None and not stat.ended
    )
    if not children or shim_of(proc.words(children[0][1])) is not None:
        return None
    ticks, pid = children[0]
    return Bare(pid, ticks)


def _labels(shim: int) -> dict[str, str] | None:
    """What it carries, as far as it can be believed: anybody can start what looks like a supervisor, but only as himself."""
    try:
        labels = json.loads(proc.environ(shim).get(CARRIED, ""))
    except (ValueError, RecursionError):
        return None
    if not isinstance(labels, dict) or not all(labels.get(LABEL + key) for key in ("run", "job", "token")):
        return None
    told = {str(key): str(value) for key, value in labels.items()}
    owner = proc.owner(shim)
    # Root's own supervisors watch for others under sudo until they have become those.
    return told if owner == 0 else {**told, LABEL + "owner": str(owner)}


def _orphan(pid: int) -> Leftover | None:
    """A session's leader, as every job is, that writes to a job's log and was handed that job's name."""
    # Its log first: few processes write to a file of such a name, and to ask for all else costs more.
    log = next(filter(None, (_LOG.fullmatch(proc.opened(pid, number)) for number in (1, 2))), None)
    stat = proc.stat(pid) if log is not None else None
    if log is None or stat is None or stat.ended or stat.session != pid:
        return None
    environ = proc.environ(pid)
    labels = {LABEL + key: environ.get(name, "") for name, key in _HANDED.items()}
    if labels != {LABEL + key: log[key] for key in _HANDED.values()} or not proc.is_in_this_namespace(pid):
        return None
    labels[LABEL + "owner"] = str(proc.owner(pid))
    return _leftover(Bare(pid, stat.start_ticks), labels, folder=log["folder"])


def _leftover(main: Bare, labels: Mapping[str, str], folder: str = "") -> Leftover | None:
    """`None`: what it carries is not what migctl gives."""
    try:
        cpus = CpuSet.parse(labels.get(LABEL + "cpus", ""))
    except ValueError:
        return None
    unit = Unit(
        handle=main.handle,
        run=labels[LABEL + "run"],
        job=labels[LABEL + "job"],
        token=labels.get(LABEL + "token", ""),
        state=JobState.RUNNING,
        pid=main.pid,
        pid_start=main.start_ticks,
        reason=FILES_GONE,
        started_at=proc.started_at(main.start_ticks),
        cpus=cpus,
    )
    return Leftover(unit, str(main.pid), labels, runtime="process", folder=folder)
