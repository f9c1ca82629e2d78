"""Stopping one process job: the main process first, then all of it, and the culprit named where even SIGKILL fails."""

from __future__ import annotations

import os
import signal
import threading
import time

from migctl.core.runs.observed import Unit
from migctl.core.runs.record import JobState
from migctl.errors import Busy, HostError
from migctl.runtimes import proc
from migctl.runtimes.attempt import Attempt
from migctl.runtimes.attempt_records import PID
from migctl.runtimes.bare import Bare
from migctl.runtimes.logfile import ended_within
from migctl.runtimes.stuck import KILL_DEADLINE_S, process_stuck

_POLL_S = 0.1


def stop_process(attempt: Attempt, grace_s: float, hurry: threading.Event | None, *, uid: int | None = None) -> None:
    """SIGTERM, `grace_s` seconds, SIGKILL; `hurry` skips the rest of the grace. Ended or gone already is fine.

    Args:
        uid: where root acts for somebody: whose process alone is signalled, whatever that user's files say it is.

    Raises:
        Busy: a process does not die.
        HostError: it is another user's.
    """
    unit = attempt.settled_unit()
    if unit is None or unit.state.ended:
        return
    if unit.state is JobState.STARTING and not attempt.held():
        return
    whole = attempt.pidfd()
    main = attempt.main_pidfd()
    # Where the shim was killed nobody ends what the job leaves behind, and once the job is dead it cannot be found any more.
    orphans = [] if attempt.held() else _below(unit.pid)
    try:
        if main is not None:
            _check_owner(unit.pid, uid if uid is None else _runs_as(attempt, uid))
            _signal(main, signal.SIGTERM)
            _ended_or_hurried(main, grace_s, hurry)
            orphans += [] if attempt.held() else _below(unit.pid)
            _signal(main, signal.SIGKILL)
        for pidfd in orphans:
            _signal(pidfd, signal.SIGKILL)
        deadline = time.monotonic() + KILL_DEADLINE_S
        for ending in (whole, *orphans):
            if not ended_within(ending, max(0.0, deadline - time.monotonic())):
                raise _stuck(attempt, unit)
    finally:
        for fd in (whole, main, *orphans):
            if fd is not None:
                os.close(fd)


def stop_bare(bare: Bare, grace_s: float, hurry: threading.Event | None, *, uid: int | None = None) -> None:
    """The same for a job of which nothing but its process is known.

    Raises:
        Busy: a process does not die.
        HostError: it is another user's.
    """
    main = proc.open_pidfd(bare.pid, bare.start_ticks)
    if main is None:
        return
    shim = bare.shim
    whole = proc.open_pidfd(*shim) if shim is not None else None
    below = _below(bare.pid) if whole is None else []
    try:
        _check_owner(bare.pid, uid)
        _signal(main, signal.SIGTERM)
        _ended_or_hurried(main, grace_s, hurry)
        below += _below(bare.pid) if whole is None else []
        for pidfd in (main, *below):
            _signal(pidfd, signal.SIGKILL)
        deadline = time.monotonic() + KILL_DEADLINE_S
        for ending in (main, whole, *below):
            if not ended_within(ending, max(0.0, deadline - time.monotonic())):
                raise process_stuck([bare.pid], "", f"process {bare.pid}")
    finally:
        for fd in (main, whole, *below):
            if fd is not None:
                os.close(fd)


def _runs_as(attempt: Attempt, uid: int) -> int:
    """The user that a job asked for with `user:`, root where it asked for nobody's, else `uid`."""
    launch = attempt.read("launch.json")
    user = launch.get("user", uid) if launch is not None else uid
    if user is None:
        return os.geteuid()
    return user[0] if isinstance(user, list) and user and isinstance(user[0], int) else uid


def _check_owner(pid: int | None, uid: int | None) -> None:
    """Its descriptor is open already, so that it is this very process that is asked for its user."""
    if uid is None or pid is None:
        return
    owner = proc.owner(pid)
    if owner not in (uid, -1):
        raise HostError(
            "not-permitted",
            f"process {pid} is uid {owner}'s and no job of uid {uid}: it is left alone, whatever the job's files say",
            where=f"process {pid}",
            hint=f"ps -o user,args -p {pid}",
        )


def _signal(pidfd: int, number: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise HostError("not-permitted", "the job's process belongs to another user", hint="use sudo") from None


def _below(pid: int | None) -> list[int]:
    """Pidfds of all processes below."""
    found = ((p, proc.start_ticks(p)) for p in proc.descendants(pid)) if pid is not None else ()
    opened = (proc.open_pidfd(p, ticks) for p, ticks in found)
    return [fd for fd in opened if fd is not None]


def _ended_or_hurried(pidfd: int, grace_s: float, hurry: threading.Event | None) -> None:
    if hurry is None:
        ended_within(pidfd, grace_s)
        return
    deadline = time.monotonic() + grace_s
    while not hurry.is_set() and (left := deadline - time.monotonic()) > 0:
        if ended_within(pidfd, min(_POLL_S, left)):
            return


def _stuck(attempt: Attempt, unit: Unit) -> Busy:
    started = attempt.read(PID) or {}
    below = proc.descendants(started["shim_pid"]) if started else []
    return process_stuck([unit.pid, *below], f" of {unit.job}", attempt.folder)
