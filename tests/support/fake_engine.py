# ruff: noqa: ARG002 -- the arguments are the protocol's
"""A container engine in memory, at the seam of `runtimes/api.py`: no kinder than a real one, and it fails or dies on order."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import NoReturn

from migctl.core.plan import Job
from migctl.core.runs.adoption import Leftover
from migctl.core.runs.labels import LABEL
from migctl.core.runs.observed import ForeignContainer, Recorded, Unit
from migctl.core.runs.record import JobState
from migctl.errors import Busy, HostError, Notice
from migctl.nvml.simmodel import SimProcess
from migctl.nvml.simstate import SimState
from migctl.runtimes.api import ProgressReport
from migctl.runtimes.container_units import is_foreign
from migctl.runtimes.facts import CdiEntry, RuntimeFacts
from migctl.runtimes.launch import Launch

CALLS = ("create", "start", "stop", "remove", "units", "save_log", "prepare", "facts", "foreign")
FOUND_DEAD = 255
"""Exit code that a Docker engine gives to a container that it finds dead when it starts."""


class Killed(BaseException):
    """The command is dead, as after SIGKILL: nothing of it may act any more."""


@dataclass
class Container:
    """One container with its life."""

    handle: str
    launch: Launch
    state: JobState = JobState.STARTING
    exit_code: int | None = None
    started_at: float | None = None
    finished_at: float | None = None
    obeys: bool = True
    """Whether it ends at SIGTERM."""
    stuck: bool = False
    """Whether not even SIGKILL ends it."""

    def label(self, key: str) -> str:
        """One of migctl's labels, which decide in an engine; nothing where it has none of that name."""
        return dict(self.launch.labels).get(LABEL + key, "")


@dataclass(frozen=True)
class EngineFault:
    """The n-th call of this name from now on fails, before or after its effect; or the command dies there."""

    call: str
    nth: int
    after: bool
    kill: bool = False


@dataclass
class FakeEngine:
    """Implements `Runtime`. Its containers live as long as it does, whatever becomes of the commands."""

    sim: Path
    uid: int
    kind: str = "docker"
    containers: dict[str, Container] = field(default_factory=dict)
    starts: Counter[str] = field(default_factory=Counter)
    """By token: an attempt runs once."""
    fault: EngineFault | None = None
    dead: bool = False
    """The command that uses it was killed."""
    lost: dict[str, str] = field(default_factory=dict)
    """Job → what NVML says in its container, which does not reach its GPU any more."""
    _calls: int = 0
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _lock: threading.RLock = field(default_factory=threading.RLock)

    # What a command asks of it

    def facts(self) -> RuntimeFacts:
        with self._call("facts"):
            return RuntimeFacts(name="docker 0.0.0", endpoint="memory", cpus=None, gpu_access="runtime nvidia")

    def prepare(
        self,
        jobs: Sequence[Job],
        *,
        simulated: bool,
        on_progress: ProgressReport | None = None,
        cancel: Event | None = None,
    ) -> dict[str, str]:
        with self._call("prepare"):
            return {job.name: f"sha256:{job.image}" for job in jobs}

    def notices(self) -> tuple[Notice, ...]:
        return ()

    def create(self, launch: Launch) -> str:
        with self._call("create"):
            there = next((c for c in self.containers.values() if c.launch.name == launch.name), None)
            if there is not None:
                same = (there.label("run"), there.label("token")) == (launch.run, launch.token)
                if not same or there.state is JobState.RUNNING:
                    raise Busy("name-taken", f"a container called {launch.name} exists, runs or is not this attempt's")
                del self.containers[there.handle]
            handle = f"{next(self._ids):064x}"
            self.containers[handle] = Container(handle, launch)
            return handle

    def start(self, handle: str) -> Unit:
        with self._call("start"):
            found = self._found(handle)
            if found.state is not JobState.STARTING:
                raise HostError("engine-refused", f"{handle[-6:]} is {found.state.value}")
            if not self._occupy(found):
                raise HostError("no-gpu", f"{found.launch.mig_uuid} is not there")
            self.starts[found.launch.token] += 1
            found.state, found.started_at = JobState.RUNNING, time.time()
            return self._unit(found)

    def units(self, run: str | None, folders: Sequence[str] = ()) -> list[Unit]:
        with self._call("units"):
            return [
                self._unit(c)
                for c in self.containers.values()
                if c.label("owner") == str(self.uid) and run in (None, c.label("run"))
            ]

    def leftovers(self) -> list[Leftover]:
        with self._call("leftovers"):
            return [Leftover(self._unit(c), c.launch.name, dict(c.launch.labels)) for c in self.containers.values()]

    def foreign(self, known: Recorded | None = None) -> list[ForeignContainer]:
        with self._call("foreign"):
            return [
                ForeignContainer(c.launch.name, c.launch.cpus)
                for c in self.running()
                if is_foreign(dict(c.launch.labels), known)
            ]

    def stop(self, handle: str, grace_s: float, *, hurry: Event | None = None) -> None:
        with self._call("stop"):
            found = self.containers.get(handle)
            obeys = found is None or found.obeys
            if found is not None and obeys:
                self.end(found, 143)
        if obeys or found is None:
            return
        # The engine serves others meanwhile.
        (hurry or Event()).wait(grace_s)
        if found.stuck:
            raise Busy("process-stuck", f"{handle[-6:]} does not die of SIGKILL")
        with self._lock:
            self.end(found, 137)

    def wait(self, handle: str, timeout_s: float | None = None) -> Unit | None:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not (found := self._found(handle)).state.ended:
            if deadline is not None and time.monotonic() >= deadline:
                return None
            time.sleep(0.005)
        return self._unit(found)

    def save_log(self, handle: str, path: str) -> None:
        with self._call("save_log"):
            return

    def logs(
        self, handle: str, *, follow: bool, tail: int | None, timestamps: bool = False, since: float | None = None
    ) -> Iterator[bytes]:
        yield from ()

    def remove(self, handle: str) -> None:
        with self._call("remove"):
            found = self.containers.get(handle)
            if found is not None and found.state is JobState.RUNNING:
                raise Busy("still-running", f"{handle[-6:]} runs")
            self.containers.pop(handle, None)

    def leave(self, name: str) -> None:
        return

    def lost_gpus(self, handles: Sequence[str]) -> dict[str, str]:
        asked = [c for c in self.running() if c.handle in handles]
        return {c.handle: self.lost[c.launch.job] for c in asked if c.launch.job in self.lost}

    def cdi_entries(self) -> tuple[CdiEntry, ...]:
        return ()

    def exec(self, handle: str, command: Sequence[str], *, tty: bool) -> NoReturn:
        raise AssertionError("no day of these tests attaches to a container")

    # What happens to its containers

    def running(self) -> list[Container]:
        """In the order they were created."""
        return [c for c in self.containers.values() if c.state is JobState.RUNNING]

    def end(self, container: Container, code: int) -> None:
        """The main process ends with this code; a container that never ran only stays."""
        if container.state is JobState.RUNNING:
            container.state = JobState.SUCCEEDED if code == 0 else JobState.FAILED
            container.exit_code, container.finished_at = code, time.time()
            self._vacate(container)

    def reboot(self) -> None:
        """The engine starts again and finds its containers dead."""
        for container in self.running():
            container.state, container.exit_code, container.finished_at = JobState.FAILED, FOUND_DEAD, time.time()

    def revive(self) -> None:
        """The next command begins."""
        self.dead, self.fault, self._calls = False, None, 0

    # Inside

    @contextmanager
    def _call(self, name: str) -> Iterator[None]:
        with self._lock:
            due = False
            if self.dead:
                raise Killed
            if self.fault is not None and self.fault.call == name:
                self._calls += 1
                due = self._calls == self.fault.nth
            if due and self.fault is not None and not self.fault.after:
                self._fail(self.fault)
            yield
            if due and self.fault is not None:
                self._fail(self.fault)

    def _fail(self, fault: EngineFault) -> None:
        if fault.kill:
            self.dead = True
            raise Killed
        raise HostError(
            "engine-trouble", f"the engine failed at {fault.call} {'after' if fault.after else 'before'} its effect"
        )

    def _found(self, handle: str) -> Container:
        found = self.containers.get(handle)
        if found is None:
            raise HostError("no-unit", "the container is gone")
        return found

    def _unit(self, container: Container) -> Unit:
        launch = container.launch
        reason = f"exit code {container.exit_code}" if container.state is JobState.FAILED else None
        return Unit(
            handle=container.handle,
            run=launch.run,
            job=launch.job,
            token=launch.token,
            state=container.state,
            exit_code=container.exit_code,
            reason=reason,
            started_at=container.started_at,
            finished_at=container.finished_at,
            cpus=launch.cpus,
        )

    def _occupy(self, container: Container) -> bool:
        """The job's process runs on its instance: what lies there is in use from now on."""
        wanted = container.launch.mig_uuid
        with SimState.edit(self.sim) as state:
            for gpu in state.gpus:
                if gpu.uuid == wanted:
                    return True
                for instance in gpu.instances:
                    if any(compute.mig_uuid == wanted for compute in instance.compute):
                        gpu.processes.append(SimProcess(os.getpid(), instance.gi_id, int(container.handle, 16)))
                        return True
        return False

    def _vacate(self, container: Container) -> None:
        with SimState.edit(self.sim) as state:
            for gpu in state.gpus:
                gpu.processes = [p for p in gpu.processes if p.used_mib != int(container.handle, 16)]
