"""Starting one container, and believing nothing: its CPUs and its GPU are read back before its job counts as running."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from migctl.core.runs.labels import LABEL
from migctl.core.runs.observed import Unit
from migctl.core.runs.record import JobState
from migctl.errors import HostError
from migctl.runtimes.container_devices import ContainerDevices
from migctl.runtimes.container_readback import cpus_inside, labelled_cpus
from migctl.runtimes.container_units import unit_of
from migctl.runtimes.docker_errors import engine_errors
from migctl.runtimes.engine_client import Engine
from migctl.runtimes.stuck import KILL_DEADLINE_S

CDI_DEADLINE_S = 3.0
"""How long an engine may not know a CDI file that is there: it learns of files by a notice of the kernel's, a moment later."""
_POLL_S = 0.1


def start_container(engine: Engine, devices: ContainerDevices, handle: str, name: str, *, local: bool) -> Unit:
    """Start it; one with other CPUs or another GPU than its own is killed, and its unit says failed.

    Raises:
        HostError, Busy, PlanError: the engine refused.
    """
    _start(engine, handle, name)
    data = _inspect(engine, handle, name)
    unit = unit_of(data, local=local)
    if unit.state is not JobState.RUNNING:
        return unit
    cpus = cpus_inside(unit, labelled_cpus(data, LABEL + "cpus"), local=local)
    wrong = cpus.reason
    if cpus.ok is not False:
        gpu = devices.verify(unit, data)
        if gpu.ok is not False:
            unknown = "; ".join(filter(None, (cpus.told("its CPUs"), gpu.told("its GPU"))))
            if not unknown:
                return unit
            now = unit_of(_inspect(engine, handle, name), local=local)
            return now if now.state.ended else replace(unit, reason=unknown)
        wrong = f"no GPU: {gpu.reason}"
    _kill(engine, handle, name)
    ended = unit_of(_inspect(engine, handle, name), local=local)
    return replace(ended, state=JobState.FAILED, reason=wrong)


def _start(engine: Engine, handle: str, name: str) -> None:
    deadline = time.monotonic() + CDI_DEADLINE_S
    while True:
        try:
            with engine_errors(engine.endpoint, name):
                engine.client.start(handle)
                return
        except HostError as error:
            unresolved = "unresolvable CDI devices" in str(error.data.get("engine", ""))
            if not unresolved or time.monotonic() > deadline:
                raise
        time.sleep(_POLL_S)


def _inspect(engine: Engine, handle: str, name: str) -> Mapping[str, Any]:
    with engine_errors(engine.endpoint, name):
        data: Mapping[str, Any] = engine.client.inspect_container(handle)
    return data


def _kill(engine: Engine, handle: str, name: str) -> None:
    try:
        with engine_errors(engine.endpoint, name):
            engine.client.kill(handle)
    except HostError as error:
        if error.id != "not-running":
            raise
    with engine_errors(engine.endpoint, name):
        engine.client.wait(handle, timeout=KILL_DEADLINE_S)
