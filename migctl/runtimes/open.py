"""Chooses the runtime; the engine's SDK is loaded with the first question to an engine, not here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from migctl.core.choices import RuntimeName
from migctl.runtimes.api import Runtime


def open_runtime(kind: RuntimeName | str, *, environ: Mapping[str, str]) -> Runtime:
    """The runtime of this kind; it connects when it is first used.

    Args:
        kind: docker or process.
        environ: the caller's environment: DOCKER_HOST, DOCKER_CONTEXT, DOCKER_CONFIG, XDG_RUNTIME_DIR, HOME, SUDO_UID, PATH.
    """
    name = RuntimeName(kind)
    match name:
        case RuntimeName.DOCKER:
            from migctl.runtimes.containers import Containers

            return Containers(environ)
        case RuntimeName.PROCESS:
            from migctl.runtimes.processes import Processes

            return Processes(environ)
        case _:
            assert_never(name)
