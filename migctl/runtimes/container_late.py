"""A container whose creation the engine did not answer: it may be there, or come to be, and must not stay without a record."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from migctl.core.runs.labels import LABEL
from migctl.runtimes.container_units import is_ours
from migctl.runtimes.engine_client import Engine
from migctl.runtimes.launch import Launch
from migctl.runtimes.socket_client import is_missing

SLOW_S: Final = 60.0
"""Docker 20.10 goes on with a creation for which nobody waits any more: its handler gives it no context that would end it."""
LOST_S: Final = 2.0
"""A connection that broke tells of an engine that goes down rather than of a slow one."""
_AGAIN_S: Final = 0.2


def is_unanswered(error: Exception) -> bool:
    """Whether the engine was asked and gave no answer, in time or at all."""
    return _is_slow(error) or (isinstance(error, ConnectionError) and not isinstance(error, ConnectionRefusedError))


def made_unanswered(engine: Engine, launch: Launch, lost: Exception) -> Mapping[str, Any] | None:
    """The container of this attempt, once it is there; `None`: the engine does not have it, or says nothing more.

    Args:
        lost: what came in place of the answer.
    """
    deadline = time.monotonic() + (SLOW_S if _is_slow(lost) else LOST_S)
    while True:
        try:
            found: Mapping[str, Any] = engine.client.inspect_container(launch.name)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the first error is the one to tell
            if not is_missing(error) and not _is_slow(error):
                return None
        else:
            return found if is_of_this_attempt(found, launch) else None
        if time.monotonic() >= deadline:
            return None
        time.sleep(_AGAIN_S)


def is_of_this_attempt(data: Mapping[str, Any], launch: Launch) -> bool:
    """Whether the container (as inspected) was made for this very attempt."""
    labels = data["Config"]["Labels"]
    return is_ours(labels) and labels[LABEL + "token"] == launch.token and labels[LABEL + "run"] == launch.run


def _is_slow(error: Exception) -> bool:
    if isinstance(error, TimeoutError):
        return True
    return type(error).__name__ == "ReadTimeout"  # of requests, which only the SDK loads
