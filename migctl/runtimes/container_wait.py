"""Waiting for the end of one container, told by the engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from migctl.core.runs.observed import Unit
from migctl.core.runs.record import JobState
from migctl.errors import HostError
from migctl.runtimes.container_units import unit_of
from migctl.runtimes.docker_errors import engine_errors
from migctl.runtimes.engine_client import Engine

_POLL_S = 0.1


def wait_container(
    engine: Engine,
    handle: str,
    timeout_s: float | None,
    inspect: Callable[[str], Mapping[str, Any] | None],
    *,
    local: bool,
) -> Unit | None:
    """Block until it ended; `None` where it has not within `timeout_s` seconds.

    Raises:
        HostError: the container is gone.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        data = inspect(handle)
        if data is None:
            raise HostError("no-unit", "the container is gone", where=handle[:12], hint="migctl status")
        unit = unit_of(data, local=local)
        if unit.state.ended:
            return unit
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return None
        if unit.state is JobState.STARTING:
            # The engine's wait would return at once for a container that was never started.
            time.sleep(_POLL_S if left is None else min(_POLL_S, left))
        else:
            _await_end(engine, handle, left)


def _await_end(engine: Engine, handle: str, timeout_s: float | None) -> None:
    import requests.exceptions

    with engine_errors(engine.endpoint, handle[:12]):
        try:
            engine.client.wait(handle, timeout=timeout_s)
        except requests.exceptions.ReadTimeout:
            return
        except requests.exceptions.ConnectionError as error:
            # A timeout while the answer's body is awaited comes as this; a dead engine fails the next call.
            if timeout_s is None or "timed out" not in str(error).lower():
                raise
