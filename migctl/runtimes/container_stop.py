"""Stopping one container: the grace kept by the engine, cut short on request, and the culprit named where even SIGKILL fails."""

from __future__ import annotations

import math
import threading
import time

from migctl.errors import Busy, HostError, MigctlError
from migctl.runtimes import proc
from migctl.runtimes.docker_errors import engine_errors
from migctl.runtimes.engine_client import Engine
from migctl.runtimes.stuck import KILL_DEADLINE_S, STUCK, process_stuck

_POLL_S = 0.1


def stop_container(engine: Engine, handle: str, grace_s: float, hurry: threading.Event | None, *, local: bool) -> None:
    """SIGTERM, `grace_s` seconds, SIGKILL; `hurry` skips the rest of the grace. Ended or gone already is fine.

    Raises:
        Busy: a process does not die.
        HostError: the engine failed otherwise.
    """
    answers: list[MigctlError | None] = []
    thread = threading.Thread(target=_ask, args=(engine, handle, grace_s, answers), daemon=True)
    thread.start()
    deadline = time.monotonic() + grace_s + KILL_DEADLINE_S
    hurried = hurry is None
    while thread.is_alive() and (left := deadline - time.monotonic()) > 0:
        thread.join(left if hurried else min(_POLL_S, left))
        if not hurried and hurry is not None and hurry.is_set():
            hurried = True
            deadline = time.monotonic() + KILL_DEADLINE_S
            _kill(engine, handle)
    error = answers[0] if answers else None
    if thread.is_alive() or (error is not None and error.id == STUCK):
        raise _stuck(engine, handle, local=local)
    if error is not None:
        raise error


def _ask(engine: Engine, handle: str, grace_s: float, answers: list[MigctlError | None]) -> None:
    try:
        with engine_errors(engine.endpoint, handle[:12]):
            engine.client.stop(handle, timeout=math.ceil(grace_s))
        answers.append(None)
    except MigctlError as error:
        answers.append(None if error.id == "no-unit" else error)


def _kill(engine: Engine, handle: str) -> None:
    try:
        with engine_errors(engine.endpoint, handle[:12]):
            engine.client.kill(handle)
    except HostError as error:
        if error.id not in ("not-running", "no-unit"):
            raise


def _stuck(engine: Engine, handle: str, *, local: bool) -> Busy:
    with engine_errors(engine.endpoint, handle[:12]):
        data = engine.client.inspect_container(handle)
    pid = data["State"].get("Pid") or None
    below = [pid, *proc.descendants(pid)] if pid is not None and local else []
    name = str(data["Name"]).lstrip("/")
    return process_stuck([*reversed(below), pid], f" of container {handle[:12]}", name, local=local)
