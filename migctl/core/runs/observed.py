"""What is there: units (containers or processes) beside the GPUs, as the runtimes saw them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from migctl.core.cpu.cpuset import CpuSet
from migctl.core.gpu.mig import Gpu
from migctl.core.runs.record import JobState
from migctl.errors import MigctlError


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One container or shim as observed. `handle` is the container id, or the attempt's folder for a process."""

    handle: str
    run: str
    job: str
    token: str
    state: JobState
    """starting (created, not started), running, succeeded, failed (by exit code), lost."""
    pid: int | None = None
    pid_start: int | None = None
    exit_code: int | None = None
    reason: str | None = None
    started_at: float | None = None
    finished_at: float | None = None
    cpus: CpuSet | None = None
    """The cpuset it was created with."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What one state directory knows of: a container that it made and does not know any more is spoken for by nobody."""

    store: str
    """Short name of the state directory, as on its containers' labels."""
    tokens: frozenset[str]


@dataclass(frozen=True, slots=True)
class ForeignContainer:
    """A running container that migctl did not start, as far as it matters for cores."""

    name: str
    cpus: CpuSet
    """Empty: not pinned."""


def ground(gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """The GPUs without the processes on them."""
    return tuple(replace(gpu, processes=(), processes_reason=None) for gpu in gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One look at the machine, for one run."""

    boot_id: str
    gpus: tuple[Gpu, ...]
    units: tuple[Unit, ...]
    failures: tuple[MigctlError, ...] = field(default=(), compare=False)
    """Why GPUs are missing from `gpus`."""

    @property
    def ground(self) -> Observed:
        """What plans stand on: without who computes just now on how much memory, which changes all the time."""
        return replace(self, gpus=ground(self.gpus))

    def gpu(self, uuid: str | None) -> Gpu | None:
        """The GPU of this UUID, if it is still there."""
        return next((gpu for gpu in self.gpus if gpu.uuid == uuid), None)

    def unit(self, token: str) -> Unit | None:
        """The unit of the attempt with this token."""
        return next((unit for unit in self.units if unit.token == token), None)
