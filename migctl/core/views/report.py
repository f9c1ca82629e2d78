"""The answer to `report`: everything that is kept of one run, living or ended. Times are Unix seconds."""

from __future__ import annotations

from dataclasses import dataclass

from migctl.core.code import Code
from migctl.core.cpu.cpuset import CpuSet
from migctl.core.gpu.mig import Placement
from migctl.core.runs.record import JobState
from migctl.core.seeing.spells import Spell
from migctl.core.seeing.tracks import Sample
from migctl.errors import Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportAttempt:
    """One attempt of a job."""

    job: str
    attempt: int
    state: JobState
    exit_code: int | None = None
    reason: str | None = None
    gpu_uuid: str | None = None
    gi_id: int | None = None
    profile: str | None = None
    placement: Placement | None = None
    """`None`: no GPU instance: a whole GPU, or none."""
    memory_mib: int | None = None
    """Of its GPU instance."""
    cpus: CpuSet = CpuSet()
    cores: int = 0
    num_workers: int | None = None
    started_at: float | None = None
    finished_at: float | None = None
    code: Code | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportWaiting:
    """A job that has not begun."""

    job: str
    state: JobState
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportJob:
    """What the plan says of one job."""

    name: str
    keys: tuple[tuple[str, str], ...] = ()
    """Key and value, as far as they are not the default; of the environment the names only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportGpu:
    """A GPU that the run used."""

    uuid: str
    name: str
    """`GPU` where it is not there any more."""
    index: int | None = None
    memory_slices: int = 0
    """Of the placement axis: 0 without MIG; of a GPU that is gone, as many as are known to have been used."""
    memory_mib: int = 0
    known: bool = True
    """Whether it is there now, so that what is said of it is the driver's word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportMachine:
    """The machine on which the report is written; it is the run's, where that is on no cluster."""

    host: str
    kernel: str
    cores: int
    logical_cpus: int
    nodes: int
    memory_mib: int | None
    version: str
    """Of migctl."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportView:
    """One run as a whole."""

    now: float
    utc_offset_s: int
    """Of the machine's time zone."""
    zone: str
    """Its short name."""
    name: str
    state: str
    """As `status` says it: `running`, `failed`, `removed` …"""
    plan_path: str = ""
    runtime: str = ""
    strategy: str = ""
    engine: str = "local"
    """Where its jobs run: on this machine, or on a cluster."""
    simulated: str = ""
    created_at: float | None = None
    ended_at: float | None = None
    """When `down` had undone it."""
    attempts: tuple[ReportAttempt, ...] = ()
    """In the plan's order, those of a job in their order."""
    waiting: tuple[ReportWaiting, ...] = ()
    plan: tuple[ReportJob, ...] = ()
    gpus: tuple[ReportGpu, ...] = ()
    machine: ReportMachine
    samples: tuple[Sample, ...] = ()
    """Oldest first; empty where nobody watched."""
    verdicts: tuple[Spell, ...] = ()
    notices: tuple[Notice, ...] = ()

    @property
    def jobs(self) -> tuple[str, ...]:
        """Every job, in the plan's order."""
        names = (*(a.job for a in self.attempts), *(w.job for w in self.waiting))
        order = {job.name: number for number, job in enumerate(self.plan)}
        return tuple(sorted(dict.fromkeys(names), key=lambda name: order.get(name, len(order))))

    def last(self, job: str) -> ReportAttempt | None:
        """The latest attempt of a job."""
        return next((a for a in reversed(self.attempts) if a.job == job), None)

    @property
    def begin(self) -> float:
        """When the first thing happened."""
        times = [a.started_at for a in self.attempts if a.started_at is not None]
        return min([*times, *([self.created_at] if self.created_at is not None else [])], default=self.now)

    @property
    def end(self) -> float:
        """When the last thing happened; now, where something runs."""
        if any(a.started_at is not None and a.finished_at is None and not a.state.ended for a in self.attempts):
            return self.now
        times = [t for a in self.attempts for t in (a.started_at, a.finished_at) if t is not None]
        return max(times, default=self.begin)
